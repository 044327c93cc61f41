"""Data sets of CIFAR-10's classes from elsewhere, in their official formats, and a run judged on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dissensus import datasets, metrics
from dissensus.datasets.cifar10 import CLASSES
from dissensus.engine.measures import ShiftedScores
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from finished import SOFT, finished, measured, ref_to, write_cifar10h, write_sample, write_svhn

NOISE = np.random.default_rng(5)


def pictures(n: int) -> np.ndarray:
    return NOISE.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def status(name: str, root: Path):
    return next(entry for entry in datasets.catalogue(root) if entry.name == name)


# ---- CIFAR-10.1


def write_cifar10_1(root: Path, version: str = "v4", images: int = 30) -> tuple[np.ndarray, np.ndarray]:
    x, y = pictures(images), np.arange(images) % 10
    (root / "cifar10.1").mkdir(exist_ok=True, parents=True)
    np.save(root / "cifar10.1" / f"cifar10.1_{version}_data.npy", x)
    np.save(root / "cifar10.1" / f"cifar10.1_{version}_labels.npy", y.astype(np.int32))
    return x, y


@pytest.mark.parametrize(("version", "official"), [("v4", 2_021), ("v6", 2_000)])
def test_cifar10_1_is_read_from_its_two_official_files(tmp_path, version, official):
    x, y = write_cifar10_1(tmp_path, version)
    data = datasets.load(f"cifar10.1-{version}", root=tmp_path)
    assert data.name == f"cifar10.1_{version}"
    assert data.classes == CLASSES
    assert int(data.x[7, 2, 3, 31]) == x[7, 3, 31, 2]
    assert data.gold.tolist() == y.tolist()
    assert data.votes is None
    assert f"30 of {official:,} images of CIFAR-10.1 {version}" in data.notes[0]
    assert status(data.name, tmp_path).sizes == {"images": (30, official)}
    write_cifar10_1(tmp_path, version, official)
    assert datasets.load(data.name, root=tmp_path).notes == ()


@pytest.mark.parametrize(
    ("which", "content", "message"),
    [
        ("data", np.zeros((30, 3, 32, 32), np.uint8), r"the images are uint8 \[30, 3, 32, 32\]"),
        ("data", np.zeros((30, 32, 32, 3)), "the images are float64"),
        ("labels", np.arange(29), r"the labels are int64 \[29\] for 30 images"),
        ("labels", np.arange(30), "labels 0…29 are outside 0…9"),
        ("labels", np.array([{}] * 30, dtype=object), "not a NumPy file of numbers"),
    ],
)
def test_other_arrays_are_refused_and_a_pickle_is_never_opened(tmp_path, which, content, message):
    write_cifar10_1(tmp_path)
    np.save(tmp_path / "cifar10.1" / f"cifar10.1_v4_{which}.npy", content, allow_pickle=True)
    with pytest.raises(InputError, match=message) as refusal:
        datasets.load("cifar10.1_v4", root=tmp_path)
    assert f"cifar10.1_v4_{which}.npy" in refusal.value.where
    assert "dissensus data get cifar10.1_v4" in str(refusal.value)


def test_half_of_cifar10_1_is_not_here(tmp_path):
    write_cifar10_1(tmp_path)
    (tmp_path / "cifar10.1" / "cifar10.1_v4_labels.npy").unlink()
    assert status("cifar10.1_v4", tmp_path).sizes == {"images": (0, 2_021)}
    with pytest.raises(InputError, match="is not here"):
        datasets.load("cifar10.1_v4", root=tmp_path)


# ---- CINIC-10


def write_cinic10(root: Path) -> dict[str, np.ndarray]:
    """Per part and class one picture from CIFAR-10 and two from ImageNet, by id."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    written = {}
    for part in ("train", "valid", "test"):
        for name in CLASSES:
            folder = root / "cinic-10" / part / name
            folder.mkdir(parents=True)
            for stem in ("cifar10-train-7", "n02084071_10", "n02084071_9"):
                pixels = pictures(1)[0]
                image.fromarray(pixels).save(folder / f"{stem}.png")
                if not stem.startswith("cifar10"):
                    written[f"{part}/{name}/{stem}"] = pixels
    return written


def test_only_the_pictures_from_imagenet_are_read_from_the_folder_of_cinic10(tmp_path):
    written = write_cinic10(tmp_path)
    write_sample(tmp_path, "cinic10-imagenet")
    data = datasets.load("cinic10", root=tmp_path)
    assert data.name == "cinic10_imagenet"
    assert set(data.ids) == set(written)
    for row, item in enumerate(data.ids):
        assert torch.equal(data.x[row], torch.from_numpy(written[item].transpose(2, 0, 1).copy()))
        assert data.classes[int(data.gold[row])] == item.split("/")[1]
    assert "60 of 210,000 images" in data.notes[0]
    assert status("cinic10_imagenet", tmp_path).sizes == {"images": (60, 210_000)}
    assert len(datasets.load("cinic10", part="test", root=tmp_path)) == 20
    assert datasets.load("cinic10", root=tmp_path).digest == data.digest


def test_a_folder_that_is_not_cinic10_and_pictures_that_are_not_whole_are_refused(tmp_path):
    write_cinic10(tmp_path)
    picture = tmp_path / "cinic-10" / "test" / "cat" / "n02084071_9.png"
    picture.write_bytes(picture.read_bytes()[:60])
    with pytest.raises(InputError, match="cannot be read") as refusal:
        datasets.load("cinic10", root=tmp_path)
    assert refusal.value.where == str(picture)
    from PIL import Image

    Image.new("RGB", (64, 32)).save(picture)
    with pytest.raises(InputError, match="64×32 pixels, not 32×32"):
        datasets.load("cinic10", root=tmp_path)
    for file in (tmp_path / "cinic-10" / "valid" / "dog").iterdir():
        file.unlink()
    (tmp_path / "cinic-10" / "valid" / "dog").rmdir()
    with pytest.raises(InputError, match="a folder valid/dog, and there is none"):
        datasets.load("cinic10", root=tmp_path)
    with pytest.raises(InputError, match="not one of all, train, valid, test"):
        datasets.load("cinic10", part="validation", root=tmp_path)


# ---- ImageNet-Far


def write_imagenet32(root: Path, labels: list[int]) -> np.ndarray:
    folder = root / "imagenet32"
    folder.mkdir(exist_ok=True)
    (folder / "map_clsloc.txt").write_text("n02119789 1 kit_fox\nn02391049 2 zebra\nn02417914 3 ibex\nn02129165 4 lion\n")
    data = NOISE.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
    np.savez(folder / "val_data.npz", data=data, labels=np.array(labels))
    return data


def test_imagenet_far_is_the_classes_of_the_list_under_the_labels_of_cifar10(tmp_path):
    pixels = write_imagenet32(tmp_path, [1, 2, 3, 2, 4, 1])
    data = datasets.load("imagenet_far", root=tmp_path)
    assert [data.classes[label] for label in data.gold] == ["horse", "deer", "horse", "cat"]
    assert torch.equal(data.x.flatten(1), torch.from_numpy(pixels[[1, 2, 3, 4]]))
    assert data.ids[0] == "n02391049/val_data/1"
    assert "3 ImageNet classes by our list" in data.notes[0]
    assert "No image of n02125311, n02410509, n02423022" in data.notes[1]


def test_a_list_of_the_users_own_takes_the_place_of_ours_and_is_checked(tmp_path):
    write_imagenet32(tmp_path, [1, 2, 3])
    listed = tmp_path / "imagenet32" / "far-classes.csv"
    listed.write_text("synset,class\nn02119789,dog\n")
    data = datasets.load("imagenet_far", root=tmp_path)
    assert [data.classes[label] for label in data.gold] == ["dog"]
    assert "by the list imagenet32/far-classes.csv" in data.notes[0]
    for text, where in (("synset,class\nn02119789,fox\n", ":2"), ("a,b\n1,2\n", "far-classes.csv"), ("", "csv")):
        listed.write_text(text)
        with pytest.raises(InputError, match="synset") as refusal:
            datasets.load("imagenet_far", root=tmp_path)
        assert where in refusal.value.where


def test_folders_of_synsets_are_scaled_down(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "imagenet" / "n02391049").mkdir(parents=True)
    large = np.repeat(np.repeat(pictures(1)[0], 4, 0), 4, 1)
    image.fromarray(large).save(tmp_path / "imagenet" / "n02391049" / "n02391049_1.png")
    data = datasets.load("imagenet_far", root=tmp_path)
    assert data.ids == ("n02391049/n02391049_1",)
    assert torch.equal(data.x[0], torch.from_numpy(large[::4, ::4].transpose(2, 0, 1).copy()))


def test_imagenet32_without_its_numbers_as_a_pickle_or_of_another_shape_is_refused(tmp_path):
    write_imagenet32(tmp_path, [2])
    (tmp_path / "imagenet32" / "map_clsloc.txt").unlink()
    with pytest.raises(InputError, match="no such file") as refusal:
        datasets.load("imagenet_far", root=tmp_path)
    assert "map_clsloc.txt" in refusal.value.where
    write_imagenet32(tmp_path, [1001])
    with pytest.raises(InputError, match="from 1 to 1000"):
        datasets.load("imagenet_far", root=tmp_path)
    np.savez(tmp_path / "imagenet32" / "val_data.npz", data=np.zeros((2, 5), np.uint8), labels=np.ones(2, int))
    with pytest.raises(InputError, match=r"data are uint8 \[2, 5\]"):
        datasets.load("imagenet_far", root=tmp_path)
    np.savez(tmp_path / "imagenet32" / "val_data.npz", data=np.array([{}], dtype=object), labels=np.ones(1, int))
    with pytest.raises(InputError, match="not a file of ImageNet32"):
        datasets.load("imagenet_far", root=tmp_path)
    (tmp_path / "imagenet32" / "val_data.npz").unlink()
    (tmp_path / "imagenet32" / "val_data").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(InputError, match="the pickled form is never opened"):
        datasets.load("imagenet_far", root=tmp_path)
    write_imagenet32(tmp_path, [1])
    with pytest.raises(InputError, match="there is no image of n02417914"):
        datasets.load("imagenet_far", root=tmp_path)


# ---- a run judged on them


@pytest.fixture
def run(tmp_path, monkeypatch):
    write_cifar10h(tmp_path, 200)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    ledger = Ledger(tmp_path / "ledger")
    return ledger, finished(ledger, replace(SOFT, data="cifar10h", votes=None, best=None))


def test_a_run_is_scored_on_the_labels_of_shifted_data_raw_and_tempered(run, tmp_path):
    ledger, run_id = run
    write_cifar10_1(tmp_path)
    data = datasets.load("cifar10.1_v4")
    told = []
    result = ShiftedScores(ref_to(data)).compute((run_id,), ledger, lambda *done: told.append(done))
    model = FinishedRun.load(run_id, ledger, "last").model
    log_probs = model.predict(data.x / 255).log_probs.detach()
    assert result.scores["accuracy"] == metrics.accuracy(log_probs, data.gold)
    assert result.scores["nll_gold"] == pytest.approx(float(metrics.nll_gold(log_probs, data.gold).mean()), rel=1e-5)
    right = log_probs.argmax(1) == data.gold
    assert result.scores["confidence_wrong"] == pytest.approx(float(log_probs.exp().amax(1)[~right].mean()), rel=1e-5)
    temperature = result.facts["fitted_temperatures"]["tempered_votes"]
    softened = torch.log_softmax(log_probs / temperature, 1)
    expected = float(metrics.nll_gold(softened, data.gold).mean())
    assert result.scores["nll_gold_tempered_votes"] == pytest.approx(expected, rel=1e-5)
    assert "soft_nll" not in result.scores, "these data have no votes"
    assert result.facts["items"] == {"evaluation": 40, "shifted": 30}
    assert told[-1] == (30, 30)
    assert "30 of 2,021" in result.facts["notes"][0]


def test_shifted_data_with_votes_are_scored_against_people_and_the_own_data_are_named(run):
    ledger, run_id = run
    result = measured(ShiftedScores(ref_to(datasets.load("cifar10h")), items=50), ledger, run_id)
    assert result.scores["soft_nll"] > 0
    assert result.facts["items"]["shifted"] == 50
    assert "the items it was trained on are among them" in result.facts["notes"][-1]


def test_data_of_other_classes_are_refused(run, tmp_path):
    ledger, run_id = run
    write_svhn(tmp_path)
    with pytest.raises(InputError, match="its classes are 0, 1, 2, …, those of the model airplane"):
        measured(ShiftedScores(ref_to(datasets.load("svhn"))), ledger, run_id)
