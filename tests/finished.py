"""Small finished runs to measure, and tiny data sets in their official formats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.io

from dissensus import datasets
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import Measure, MeasureResult, compute, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.labels.delivery import Sampled
from dissensus.models import Smallcnn
from dissensus.store.ledger import Ledger
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Recipe, Resampled

SOFT = Recipe(
    model=Smallcnn(width=4, hidden=12),
    votes=Resampled(5),
    optimiser=AdamW(lr=0.01),
    epochs=2,
    batch=64,
    best=Best(on="evaluation"),
)
HARD = replace(SOFT, delivery=Sampled())


def finished(ledger: Ledger, recipe: Recipe = SOFT, seed: int = 0) -> str:
    """The id of this recipe's run, trained if it is not there."""
    data = datasets.load(recipe.data, **dict(recipe.options))
    return execute(recipe.spec(data, seed), ledger, Execution(threads=1)).id


def write_cifar10h(root: Path, images: int = 100) -> None:
    """Noise whose mean brightness tells the class, and 50 votes an image of which a few go to the next class."""
    drawn = np.random.default_rng(0)
    labels = np.arange(images) % 10
    pixels = np.clip(drawn.normal(25 * labels[:, None], 40, (images, 3072)), 0, 255)
    (root / "cifar-10-batches-bin").mkdir(parents=True)
    np.concatenate([labels[:, None], pixels], 1).astype(np.uint8).tofile(root / "cifar-10-batches-bin" / "test_batch.bin")
    counts, strays = np.zeros((images, 10), dtype=np.int64), drawn.integers(0, 20, images) * (drawn.random(images) < 0.7)
    counts[np.arange(images), labels] = 50 - strays
    counts[np.arange(images), (labels + 1) % 10] = strays
    (root / "cifar10h").mkdir()
    np.save(root / "cifar10h" / "cifar10h-counts.npy", counts)


def write_cifar10_training(root: Path, images: int = 100) -> None:
    """A training file of such noise beside the test file of `write_cifar10h`."""
    drawn = np.random.default_rng(3)
    labels = np.arange(images) % 10
    pixels = np.clip(drawn.normal(25 * labels[:, None], 40, (images, 3072)), 0, 255)
    (root / "cifar-10-batches-bin").mkdir(parents=True, exist_ok=True)
    records = np.concatenate([labels[:, None], pixels], 1).astype(np.uint8)
    records.tofile(root / "cifar-10-batches-bin" / "data_batch_1.bin")


def write_svhn(root: Path, images: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """What was written: X [32, 32, 3, N] and y [N, 1]."""
    drawn = np.random.default_rng(1)
    x, y = drawn.integers(0, 256, (32, 32, 3, images), dtype=np.uint8), drawn.integers(1, 11, (images, 1), dtype=np.uint8)
    (root / "svhn").mkdir(parents=True, exist_ok=True)
    scipy.io.savemat(root / "svhn" / "test_32x32.mat", {"X": x, "y": y}, do_compression=True)
    return x, y


def write_sample(root: Path, name: str, images: int = 20, classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """What was written: x [N, 32, 32, 3] and y [N]."""
    drawn = np.random.default_rng(2)
    x, y = drawn.integers(0, 256, (images, 32, 32, 3), dtype=np.uint8), drawn.integers(0, classes, images, dtype=np.uint8)
    (root / "images").mkdir(parents=True, exist_ok=True)
    np.savez_compressed(root / "images" / f"{name}-sample.npz", x=x, y=y)
    return x, y


def ref_to(data: Data) -> DataRef:
    """As specs name data that were loaded without options."""
    return DataRef(data.name, digest=data.digest)


def measured(measure: Measure, ledger: Ledger, *run_ids: str) -> MeasureResult:
    """The result of a measure of these runs, by way of its spec."""
    return compute(measure_spec(measure, run_ids), ledger)
