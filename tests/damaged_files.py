"""The kinds of files that dissensus writes and reads again, each with the ways in which commands read it."""

from __future__ import annotations

import io
import json
import random as dice
import shutil
import tarfile
import zipfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from crowds import crowd
from damage import damaged_bytes, damaged_file, damaged_json, damaged_text, packed
from dissensus import report
from dissensus.cli.out_folder import ledger_of, read_experiment
from dissensus.cli.progress import read_status
from dissensus.cli.run_commands import list_
from dissensus.datasets.archives import unpack
from dissensus.datasets.catalogue import Remote
from dissensus.datasets.download import fetch
from dissensus.estimator import VoteClassifier
from dissensus.experiments.description import BarChart, Claim, Curve, CurvePlot, PaperNumber, Printed, ValueTable, to_json
from dissensus.experiments.values import EpochCurve, Measured, Score, fact
from dissensus.models.encoders.cache import Cache
from dissensus.store import checkpoints, locks, records
from dissensus.store.atomic_files import digest
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records
from dissensus.store.spec import Run, Spec
from fake_study import METHODS, Fake, experiment_of

SEEDS = (0, 1, 2)
REPORTED = 0.2
"""The share of attempts in which what could be read is also shown: that takes a hundred times as long."""


def small_study(folder: Path):
    """A ledger with six training runs and a measure of each, and an experiment with every kind of exhibit."""
    ledger = Ledger(folder / "runs")
    fake = Fake(ledger, items=12, train=40, epochs=3)
    table = fake.table("50 votes", {name: METHODS[name] for name in ("Soft", "Majority")}, SEEDS)
    measured = {}
    for row, points in table.cells.items():
        measured[row] = {}
        for seed, run_id in points[""].items():
            spec = Spec("measure", {"name": "reliability"}, {"of": (run_id,)})
            item = {"name": "one", "said": "s", "classes": ["cat", "dog"], "shares": {"People": [0.75, 0.25]}}
            facts = {"items": {"evaluation": 12}, "x": [0.1, 0.5], "y": [0.2, 0.6], "shown": [item]}
            ledger.publish(Run(spec, {"v": 0.5 + int(seed)}, {}, facts, {"torch": "2.0", "seconds": 1.0}), {}, {})
            measured[row][seed] = spec.id
    cells = {row: {"": ids} for row, ids in measured.items()}
    number = PaperNumber("", "Soft", "v", 2.25, 0.5, 3, "paper, Table 1")
    printed = (Printed(number, "Soft", "v"),)
    exhibits = (
        table,
        ValueTable(
            key="v",
            title="V",
            cells=cells,
            columns={"v": Measured("v")},
            baseline="Soft",
            picture="dots",
            printed=printed,
        ),
        CurvePlot(key="c", title="C", cells=cells, curves={"y": Curve(fact("y"), fact("x"))}),
        CurvePlot(key="l", title="L", cells=table.cells, curves={"l": Curve(EpochCurve("train_loss"))}),
        BarChart(key="b", title="B", cells=cells, items=fact("shown")),
    )
    claims = (
        Claim("a beats b", "lower", {row: points[""] for row, points in table.cells.items()}, (Score("soft_nll"),)),
        Claim("v is above", "above", measured, (Measured("v"),), 0.5, "p. 3"),
    )
    return ledger, experiment_of(*exhibits, claims=claims, apart=(number,))


class ExperimentFile:
    """experiment.json, read by `report` and `watch`."""

    name = "experiment"

    def prepare(self, place: Path) -> None:
        self.ledger, experiment = small_study(place)
        self.document = to_json(experiment)

    def attempt(self, place: Path, throw: dice.Random) -> None:
        (place / "experiment.json").write_bytes(damaged_text(self.document, throw))
        experiment = read_experiment(str(place))
        if throw.random() < REPORTED:
            report.write(experiment, self.ledger, place)


class RecordsFile:
    """A file of `runs pack`, read by `report --records`."""

    name = "records"

    def prepare(self, place: Path) -> None:
        ledger, self.experiment = small_study(place)
        self.documents = [run.to_json() for run in ledger]
        records.pack(ledger, ledger.ids(), place / "good.gz")
        self.content = (place / "good.gz").read_bytes()

    def attempt(self, place: Path, throw: dice.Random) -> None:
        if throw.random() < 0.3:
            content = damaged_bytes(self.content, throw)
        else:
            documents = list(self.documents)
            index = throw.randrange(len(documents))
            documents[index] = damaged_json(documents[index], throw)
            content = packed(documents)
        (place / "records.gz").write_bytes(content)
        runs = Records(place / "records.gz")
        if throw.random() < REPORTED:
            report.write(self.experiment, runs, place)


class LedgerFolder:
    """A ledger: finished runs with and without checksums, and the work on unfinished ones."""

    name = "ledger"

    def prepare(self, place: Path) -> None:
        self.ledger, experiment = small_study(place)
        self.with_checksums = experiment.score_tables[0].cells["Soft"][""]["0"]
        self.without = experiment.score_tables[0].cells["Majority"][""]["0"]
        for run_id in (self.with_checksums, self.without):
            run = self.ledger.read(run_id)
            arrays = {"predictions": self.ledger.predictions(run_id, "last"), "gallery": {"x": np.ones((1, 1, 8, 8))}}
            self.ledger.remove(run_id)
            self.ledger.publish(run, arrays, {"last": {"w": torch.arange(6.0).reshape(2, 3)}})
        (self.ledger.folder / self.without / "checksums").unlink()
        self.begun = "b" * 16
        checkpoints.save(self.ledger.checkpoint_file(self.begun), {"model": {"w": torch.ones(3)}, "state": {"epoch": 1}})
        self.ledger.progress_file(self.begun).write_text(json.dumps({"epoch": 1, "epochs": 3, "loss": 0.5}))
        self.ledger.error_file(self.begun).write_text("Traceback: it failed")
        self.ledger.lock_file(self.begun).write_text(json.dumps({"host": "elsewhere", "pid": 1, "lock": "x"}))
        self.ledger.summaries()
        self.good = self.content(self.with_checksums)
        files = [*(self.ledger.folder / self.with_checksums).iterdir(), *(self.ledger.folder / self.without).iterdir()]
        files += [*self.ledger.work(self.begun).iterdir(), self.ledger.folder / ".index.json"]
        self.files = sorted(files)

    def content(self, run_id: str):
        """All that can be read of a run, in a form that can be compared."""
        arrays = [self.ledger.predictions(run_id, "last"), self.ledger.gallery(run_id)]
        plain = [None if some is None else {name: array.tolist() for name, array in some.items()} for some in arrays]
        weights = {name: value.tolist() for name, value in self.ledger.weights(run_id, "last").items()}
        return self.ledger.read(run_id), plain, weights

    def attempt(self, place: Path, throw: dice.Random) -> None:
        file = throw.choice(self.files)
        with restored(file):
            before = file.read_bytes()
            damaged_file(file, throw)
            now = file.read_bytes() if file.is_file() else b""
            same = now == before or file.name == "checksums"  # in which a line may come twice, or change its place
            in_run = file.parent.name == self.with_checksums
            problems = {run_id: self.ledger.verify(run_id) for run_id in (self.with_checksums, self.without)}
            if in_run:
                assert same or problems[self.with_checksums], "damage that verify does not see"
            self.ledger.ids(), self.ledger.begun(), self.ledger.without_record()
            read_status({self.begun: "begun", self.without: "done"}, self.ledger)
            locks.is_held(self.ledger.lock_file(self.begun))
            checkpoints.load(self.ledger.checkpoint_file(self.begun))
            if in_run and self.with_checksums in self.ledger and (file.name != "checksums"):
                read = self.content(self.with_checksums)
                kept = [now if now is not None else good for now, good in zip(read[1], self.good[1], strict=True)]
                assert (read[0], kept, read[2]) == self.good, "something else was read than was written"
            self.content(self.without)
            if throw.random() < REPORTED:
                quietly(list_.callback, str(self.ledger.folder), as_json=False)
                records.pack(self.ledger, self.ledger.ids(), place / "packed.gz")


class LockFile:
    """A lock, taken by a worker."""

    name = "lock"

    def prepare(self, place: Path) -> None:
        self.file = place / "work" / "lock"

    def attempt(self, place: Path, throw: dice.Random) -> None:
        self.file.parent.mkdir(exist_ok=True)
        owner = {"host": throw.choice(("elsewhere", "", locks.socket.gethostname())), "pid": throw.choice((1, 2**40, 0))}
        self.file.write_bytes(throw.randbytes(40) if throw.random() < 0.2 else damaged_text(owner, throw))
        lock = locks.take(self.file, patience=throw.choice((-1.0, 60.0)))
        if lock is not None:
            lock.release()
            assert not self.file.exists()
        self.file.unlink(missing_ok=True)


class OutFolder:
    """ledger.json, by which `report`, `runs` and `watch` find the runs of an --out folder."""

    name = "out folder"

    def prepare(self, place: Path) -> None:
        Ledger(place / "runs").create()
        self.document = {"relative": "runs", "absolute": str(place / "runs")}

    def attempt(self, place: Path, throw: dice.Random) -> None:
        (place / "ledger.json").write_bytes(damaged_text(self.document, throw))
        ledger_of(str(place))


class Download:
    """What a download leaves: the record of digests, a part, the server's word for its version."""

    name = "download"

    def prepare(self, place: Path) -> None:
        source = place / "source.bin"
        source.write_bytes(bytes(range(256)) * 20)
        self.remote = Remote(source.as_uri(), "got/source.bin", (("got/source.bin", 5120),))
        self.root = place / "data"
        fetch(self.remote, self.root)
        self.record = json.loads((self.root / "downloads.json").read_text())
        self.files = [
            self.root / "downloads.json",
            self.root / ".source.bin.part",
            self.root / ".source.bin.part.validator",
        ]

    def attempt(self, place: Path, throw: dice.Random) -> None:
        self.files[0].write_text(json.dumps(self.record))
        self.files[1].write_bytes(bytes(range(200)))
        self.files[2].write_text("Wed, 21 Oct 2015 07:28:00 GMT")
        damaged = throw.choice(self.files)
        try:
            damaged_file(damaged, throw)
            fetch(self.remote, self.root, sleep=lambda seconds: None)
            got = (self.root / "got" / "source.bin").read_bytes()
            assert got == (place / "source.bin").read_bytes(), "another file than the source has"
        finally:
            for file in self.files:
                clear(file)


class Archive:
    """A downloaded archive, unpacked."""

    name = "archive"

    def prepare(self, place: Path) -> None:
        members = {"a/one.txt": b"one" * 50, "a/b/two.bin": bytes(range(256))}
        zipped, taped = io.BytesIO(), io.BytesIO()
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, content in members.items():
                bundle.writestr(name, content)
        with tarfile.open(fileobj=taped, mode="w:gz") as tape:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tape.addfile(entry, io.BytesIO(content))
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tape:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tape.addfile(entry, io.BytesIO(content))
        self.contents = [zipped.getvalue(), taped.getvalue(), plain.getvalue()]

    def attempt(self, place: Path, throw: dice.Random) -> None:
        archive, folder = place / "archive", place / "inside" / "unpacked"
        archive.write_bytes(damaged_bytes(throw.choice(self.contents), throw))
        shutil.rmtree(folder.parent, ignore_errors=True)
        try:
            unpack(archive, folder, name="archive")
        finally:
            assert not any(path.name.startswith(".unpack-") for path in folder.iterdir()), "a draft is left"
            assert {path.name for path in folder.parent.iterdir()} == {"unpacked"}, "a file left its folder"


class EncoderCache:
    """Vectors that an encoder made before."""

    name = "cache"
    provenance: ClassVar = {"encoder": "toy", "version": "1"}

    def prepare(self, place: Path) -> None:
        with Cache(self.provenance, place) as cache:
            cache.put([f"{index:032x}" for index in range(4)], np.arange(12, dtype=np.float32).reshape(4, 3) + 1)
        (self.file,) = cache.folder.glob("*.npz")

    def attempt(self, place: Path, throw: dice.Random) -> None:
        with restored(self.file):
            if throw.random() < 0.2:
                odd = throw.choice(ODD_VECTORS)
                np.savez(self.file, **odd)
            else:
                damaged_file(self.file, throw)
            keys = [f"{index:032x}" for index in range(4)]
            cache = Cache(self.provenance, place)
            if all(key in cache for key in keys):
                assert cache.rows(keys).shape == (4, 3)


class ModelFolder:
    """A model that `fit` saved, read by `predict`."""

    name = "model"

    def prepare(self, place: Path) -> None:
        data = crowd(items=60, classes=3, votes=5)
        self.x = data.x.numpy()[:4]
        model = VoteClassifier(hidden=4, epochs=2, dropout=0.2, weight_decay=0.1, seeds=1).fit(data.x.numpy(), data.votes)
        model.save(place)
        self.expected = model.predict_proba(self.x)
        self.about, self.weights = place / "model.json", place / "model.safetensors"

    def attempt(self, place: Path, throw: dice.Random) -> None:
        file = throw.choice((self.about, self.weights))
        with restored(self.about), restored(self.weights):
            damaged_file(file, throw)
            hidden = file == self.weights and file.is_file() and throw.random() < 0.5
            if hidden:  # damage that a checksum does not show
                about = json.loads(self.about.read_text())
                self.about.write_text(json.dumps({**about, "weights": digest(self.weights)}))
            probabilities = VoteClassifier.load(place).predict_proba(self.x)
            assert np.isfinite(probabilities).all(), "predictions that are no numbers"
            assert np.allclose(probabilities.sum(1), 1), "predictions that are no probabilities"
            if file == self.weights and not hidden:
                assert (probabilities == self.expected).all(), "other predictions than the model's"


_KEYS = np.array([f"{index:032x}" for index in range(4)])
ODD_VECTORS = (
    {"keys": _KEYS, "x": np.zeros((4, 0), np.float32)},
    {"keys": _KEYS, "x": np.full((4, 3), np.nan, np.float32)},
    {"keys": _KEYS, "x": np.zeros((3, 3), np.float32)},
    {"keys": np.arange(4), "x": np.zeros((4, 3), np.float32)},
    {"keys": _KEYS, "x": np.zeros((4, 3), np.int64)},
    {"keys": _KEYS[:, None], "x": np.zeros((4, 3), np.float32)},
    {"keys": np.array(0), "x": np.array(0.0)},
    {"x": np.zeros((4, 3), np.float32)},
    {"keys": np.array([b"a"] * 4), "x": np.zeros((4, 3), np.float32)},
)

KINDS = (ExperimentFile, RecordsFile, LedgerFolder, LockFile, OutFolder, Download, Archive, EncoderCache, ModelFolder)


@contextmanager
def restored(file: Path):
    """Afterwards the file is as it was, whatever became of it."""
    content = file.read_bytes()
    try:
        yield
    finally:
        clear(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def clear(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def quietly(function, *arguments, **options) -> None:
    """Call, and throw away what it prints."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        function(*arguments, **options)
