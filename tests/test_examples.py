"""The examples run as they are, and each batch has the labels of its epoch. Without its package an example is skipped."""

import importlib.util
import math
import warnings
from pathlib import Path

import pytest

from dissensus.labels import DeliveredDataset

EXAMPLES = Path(__file__).parent.parent / "examples"
NEEDS = {
    "pytorch_loop": (),
    "lightning_trainer": ("lightning",),
    "huggingface_trainer": ("transformers", "accelerate"),
    "lightgbm_rounds": ("lightgbm",),
}
FEW_EPOCHS = {"pytorch_loop": 3, "lightning_trainer": 3, "huggingface_trainer": 3, "lightgbm_rounds": 10}


def example(name):
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def epochs_of_batches(monkeypatch):
    """The epoch of every batch that a DeliveredDataset gives."""
    epochs = []
    fetch = DeliveredDataset.__getitems__

    def watched(self, indices):
        epochs.append(self.epoch)
        return fetch(self, indices)

    monkeypatch.setattr(DeliveredDataset, "__getitems__", watched)
    return epochs


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_learns_and_every_batch_has_the_labels_of_its_epoch(name, epochs_of_batches):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of other packages
        soft_nll = example(name).main(FEW_EPOCHS[name])
    assert soft_nll < 0.7 * math.log(10)  # a model that knows nothing has log 10
    if name != "lightgbm_rounds":
        batches = -(-1400 // 64)
        assert epochs_of_batches == [epoch for epoch in range(3) for _ in range(batches)]
