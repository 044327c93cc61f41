"""What people bring or download, damaged: data sets, kept sets, pictures, texts, weights from elsewhere, job plans."""

from __future__ import annotations

import io
import json
import random as dice
from pathlib import Path

import numpy as np
import scipy.io
import torch
from PIL import Image
from safetensors.torch import save_file

from crowds import crowd
from damage import damaged_file
from damaged_files import restored
from dissensus import datasets
from dissensus.datasets import imagenet_far
from dissensus.datasets.feature_files import Features
from dissensus.datasets.kept_sets import keep
from dissensus.engine import slurm_task
from dissensus.engine.foreign_weights import load_foreign, read_weights
from dissensus.models import Smallcnn
from dissensus.models.encoders.image_folders import picture_names, read_folder
from dissensus.models.encoders.sources import read_contents
from dissensus.store.spec import Spec
from dissensus.votes.tables import open_table
from dissensus.votes.trials import Cleaning, read_trials

RAW = (
    "annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,"
    "cifar10_test_test_idx,image_filename,reaction_time,time_elapsed\n"
)
TRIALS = RAW + "".join(
    f"{trial % 4},{trial},{int(trial >= 12)},cat,dog,3,{trial % 10},1,{trial % 6},a.png,512.5,9\n" for trial in range(16)
)
ODD_ARRAYS = (
    *(np.zeros(0), np.array(3), np.array([1.5, np.nan]), np.array(["a", "a"]), np.array([b"\xff"]), np.zeros((2, 2))),
    *(np.full(6, -1), np.full(6, 2**62), np.zeros((6, 3), np.uint64), np.zeros(6, bool), np.array([None] * 6, object)),
    *(np.zeros((0, 4)), np.array([["x"]]), np.zeros(6, "V8"), np.zeros(6, "M8[s]"), np.zeros((6, 1, 1, 1, 1))),
)
"""Arrays that do not belong where they are put."""


def damaged_arrays(file: Path, throw: dice.Random) -> None:
    """Damage an .npy or .npz: an array that does not belong there, one too few, or any bytes."""
    if throw.random() < 0.4:
        damaged_file(file, throw)
    elif file.suffix == ".npy":
        np.save(file, throw.choice(ODD_ARRAYS), allow_pickle=True)
    else:
        with np.load(file) as stored:
            arrays = dict(stored)
        name = throw.choice(sorted(arrays))
        way = throw.random()
        if way < 0.6:
            arrays[name] = throw.choice(ODD_ARRAYS)
        elif way < 0.8:
            del arrays[name]
        elif arrays[name].ndim:
            arrays[name] = arrays[name][: throw.randrange(len(arrays[name]) + 1)]
        np.savez(file, allow_pickle=True, **arrays)


def damaged_anyhow(file: Path, throw: dice.Random) -> None:
    """Damage a file as its kind can be damaged."""
    (damaged_arrays if file.suffix in (".npy", ".npz") else damaged_file)(file, throw)


def picture(file: Path, size: int = 32, **options) -> None:
    """A picture of noise."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(size).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, **options)


class DataSets:
    """The files of every data set, a few items of each, as `datasets.load` and `data list` read them."""

    name = "data set"

    def prepare(self, place: Path) -> None:
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
        self.files: dict[Path, tuple[str, dict[str, object]]] = {}

        def write(name: str, path: str, content: bytes, **options: object) -> None:
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            self.files[file] = name, options

        batch = rng.integers(0, 256, (6, 3073), dtype=np.uint8)
        batch[:, 0] %= 10
        write("cifar10", "cifar-10-batches-bin/test_batch.bin", batch.tobytes(), part="test")
        write("cifar10h", "cifar10h/cifar10h-counts.npy", npy(rng.integers(1, 9, (6, 10))))
        write("cifar10h", "cifar10h/cifar10h-raw.csv", TRIALS.encode(), annotators=True)
        for part in ("snli", "mnli_m"):
            write("chaosnli", f"chaosNLI_v1.0/chaosNLI_{part}.jsonl", chaos_lines(part))
        ratings = "".join(f"{row % 4},u{row},some text {row % 4},{row % 5 + 1}\n" for row in range(12))
        write("popquorn", "popquorn/politeness_ratings.csv", f"instance_id,user_id,text,politeness\n{ratings}".encode())
        write("cifar100", "cifar-100-binary/test.bin", rng.integers(0, 100, (3, 3074), dtype=np.uint8).tobytes())
        mat = io.BytesIO()
        scipy.io.savemat(mat, {"X": images.transpose(1, 2, 3, 0), "y": np.arange(1, 7)[:, None]})
        write("svhn", "svhn/test_32x32.mat", mat.getvalue())
        for version in ("v4", "v6"):
            write(f"cifar10.1_{version}", f"cifar10.1/cifar10.1_{version}_data.npy", npy(images))
            write(f"cifar10.1_{version}", f"cifar10.1/cifar10.1_{version}_labels.npy", npy(np.arange(6)))
        sample = npz(x=images, y=np.arange(6))
        write("cinic10_imagenet", "images/cinic10-imagenet-sample.npz", sample)
        write("tinyimagenet_other", "images/tinyimagenet-other-sample.npz", sample)
        synsets = list(imagenet_far.FAR)[:6]
        write("imagenet_far", "imagenet32/a.npz", npz(data=images.reshape(6, -1), labels=np.arange(1, 7)))
        lines = "".join(f"{synset} {number} name\n" for number, synset in enumerate(synsets, 1))
        write("imagenet_far", "imagenet32/map_clsloc.txt", lines.encode())
        write("imagenet_far", "imagenet32/far-classes.csv", f"synset,class\n{synsets[0]},horse\n".encode())
        for name, options in self.files.values():
            datasets.load(name, root=place, **options)

    def attempt(self, place: Path, throw: dice.Random) -> None:
        file = throw.choice(list(self.files))
        name, options = self.files[file]
        with restored(file):
            damaged_anyhow(file, throw)
            status = next(status for status in datasets.catalogue(place) if status.name == name)
            assert status.sentence
            data = datasets.load(name, root=place, **options)
            assert data.digest


class KeptSets:
    """The votes and features that `compare` keeps for its workers, as a worker reads them."""

    name = "kept set"

    def prepare(self, place: Path) -> None:
        data = crowd(items=6, classes=3, votes=4, annotators=4)
        rows = Features(data.ids, data.x.numpy(), {"encoder": "toy"})
        self.kept = keep(data, rows, root=place)
        self.files = sorted(place.rglob("*.npz"))
        assert len(self.files) == 2

    def attempt(self, place: Path, throw: dice.Random) -> None:
        file = throw.choice(self.files)
        with restored(file):
            damaged_arrays(file, throw)
            data = datasets.load("own", root=place, **dict(self.kept.options))
            assert torch.isfinite(data.x).all()
            assert data.votes is None or data.votes.counts.shape == (len(data), len(data.classes))


class Contents:
    """Pictures, images and texts that an encoder is to read, and the trials of a labelling experiment."""

    name = "contents"

    def prepare(self, place: Path) -> None:
        for name, options in {"a.png": {}, "b.jpg": {}, "c.gif": {}, "d.webp": {}, "e.bmp": {}, "f.tiff": {}}.items():
            picture(place / "pictures" / name, 24, **options)
        (place / "images.npy").write_bytes(npy(np.zeros((4, 8, 8, 3), np.uint8)))
        (place / "named.npz").write_bytes(npz(x=np.zeros((6, 3, 8, 8), np.uint8), ids=np.array(list("abcdef"))))
        (place / "texts.csv").write_text("item,text,label\na,one,x\nb,two,y\na,one,y\n")
        (place / "texts.jsonl").write_text('{"item": "a", "text": "one"}\n{"item": "b", "text": "two"}\n')
        (place / "trials.csv").write_text(TRIALS)
        self.files = sorted(path for path in place.rglob("*") if path.is_file())

    def attempt(self, place: Path, throw: dice.Random) -> None:
        file = throw.choice(self.files)
        with restored(file):
            damaged_anyhow(file, throw)
            if file.parent.name == "pictures":
                names = picture_names(file.parent)
                assert read_folder(file.parent, names, 16).shape == (len(names), 3, 16, 16)
            elif file.name == "trials.csv":
                assert len(read_trials(open_table(file)).sift(Cleaning()).kept)
            else:
                ids, contents = read_contents(file)
                assert len(ids) == len(contents) == len(set(ids))


class ForeignWeights:
    """A checkpoint from elsewhere, as `evaluate` reads it."""

    name = "weights"

    def prepare(self, place: Path) -> None:
        self.file, self.architecture = place / "net.safetensors", Smallcnn(width=2)
        model = self.architecture.build((3, 32, 32), 10, torch.zeros(3), torch.ones(3))
        self.weights = {f"module.{name}": value.contiguous() for name, value in model.state_dict().items()}
        save_file(self.weights, self.file)

    def attempt(self, place: Path, throw: dice.Random) -> None:
        with restored(self.file):
            if throw.random() < 0.5:
                damaged_file(self.file, throw)
            else:
                name = throw.choice(sorted(self.weights))
                value = self.weights[name]
                odd = (value.double(), value.int(), torch.zeros(()), value * torch.nan, value + torch.inf, value[:0])
                save_file({**self.weights, name: throw.choice(odd).contiguous()}, self.file)
            weights = read_weights(self.file)
            loaded = load_foreign(self.architecture, (3, 32, 32), 10, weights, where="net")
            predicted = loaded.model.predict(torch.zeros(2, 3, 32, 32)).log_probs
            assert torch.isfinite(predicted).all(), "predictions that are no numbers"


class JobPlan:
    """The plan that a task of a job array reads."""

    name = "job plan"

    def prepare(self, place: Path) -> None:
        spec = Spec("measure", {"name": "reliability"}, {"of": ("a" * 16,)})
        document = {"ledger": str(place), "workers": 1, "execution": {"threads": 1}, "specs": [spec.to_json()]}
        self.file = place / "plan.json"
        self.file.write_text(json.dumps(document))

    def attempt(self, place: Path, throw: dice.Random) -> None:
        with restored(self.file):
            damaged_file(self.file, throw)
            plan = slurm_task.read_plan(self.file)
            assert plan.executor.workers >= 1


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def chaos_lines(part: str) -> bytes:
    """Three lines of ChaosNLI."""
    rows = [
        {
            "uid": f"{part}{number}",
            "label_counter": {"e": 50, "n": 50},
            "label_count": [50, 50, 0],
            "entropy": 1.0,
            "example": {"premise": "one", "hypothesis": f"two {number}"},
        }
        for number in range(3)
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


KINDS = (DataSets, KeptSets, Contents, ForeignWeights, JobPlan)
