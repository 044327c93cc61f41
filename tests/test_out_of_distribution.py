"""Detection by a finished run, on tiny files in the official formats."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dissensus import datasets, metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import OutOfDistribution
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.errors import InputError
from dissensus.models import Classifier
from dissensus.models.predictions import Predictions
from dissensus.probes import detectors
from dissensus.probes.detectors import DETECTORS
from dissensus.store.ledger import Ledger
from finished import SOFT, finished, measured, ref_to, write_cifar10h, write_sample, write_svhn
from test_popquorn import official
from test_popquorn import write as write_popquorn

CIFAR = replace(SOFT, data="cifar10h", epochs=1)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_cifar10h(root)
    write_svhn(root)
    write_sample(root, "cifar100", classes=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISSENSUS_DATA", str(root))
        yield Ledger(tmp_path_factory.mktemp("ledger"))


@pytest.mark.parametrize(("name", "images"), [("svhn", 30), ("cifar100", 20)])
def test_every_detector_has_an_auroc_against_every_image_from_elsewhere(ledger, name, images):
    result = measured(OutOfDistribution(ref_to(datasets.load(name))), ledger, finished(ledger, CIFAR))
    scores, facts = result.scores, result.facts
    assert set(scores) == {f"auroc_{detector}" for detector in DETECTORS}
    assert all(0 <= value <= 1 for value in scores.values())
    assert facts["items"] == {"evaluation": 20, "outside": images, "train": 80}
    assert facts["outside"] == name
    assert facts["notes"]


def test_the_scores_are_those_of_the_detectors_on_unaugmented_images(ledger):
    run, svhn = finished(ledger, CIFAR), datasets.load("svhn")
    scores = measured(OutOfDistribution(ref_to(svhn), neighbour=7), ledger, run).scores
    loaded = FinishedRun.load(run, ledger, "last")
    model, setup = loaded.model, loaded.setup
    with torch.no_grad():
        inside, outside, train = (model.predict(x / 255) for x in (setup.x(setup.held_out), svhn.x, setup.x(setup.train)))
    assert scores["auroc_energy"] == pytest.approx(
        metrics.auroc(detectors.energy(inside.logits), detectors.energy(outside.logits))
    )
    near = (detectors.knn(one.features, train.features, k=7) for one in (inside, outside))
    assert scores["auroc_knn"] == pytest.approx(metrics.auroc(*near))


def test_the_training_items_themselves_are_not_strange(ledger):
    """A sanity check with a known answer: images of the same kind give an AUROC near one half."""
    same = datasets.load("cifar10h")
    scores = measured(OutOfDistribution(ref_to(same)), ledger, finished(ledger, CIFAR)).scores
    assert all(0.3 < value < 0.7 for value in scores.values())


def test_a_cap_takes_so_many_of_the_images_from_elsewhere(ledger):
    measure = OutOfDistribution(ref_to(datasets.load("svhn")), items=12)
    assert measured(measure, ledger, finished(ledger, CIFAR)).facts["items"]["outside"] == 12


def test_texts_images_of_another_size_and_other_content_than_planned_are_refused(ledger):
    run = finished(ledger, CIFAR)
    write_popquorn(Path(os.environ["DISSENSUS_DATA"]), official("7,0,Hey,3.0", "9,0,Send it.,1.0"))
    with pytest.raises(InputError, match="popquorn: it has no images to compare with"):
        measured(OutOfDistribution(ref_to(datasets.load("popquorn"))), ledger, run)
    with pytest.raises(InputError, match=r"its images are \[1, 8, 8\], those of the run \[3, 32, 32\]"):
        measured(OutOfDistribution(ref_to(datasets.load("digits"))), ledger, run)
    with pytest.raises(InputError, match="planned on 0000000000000000"):
        measured(OutOfDistribution(DataRef("svhn", digest="0" * 16)), ledger, run)


def test_a_model_without_features_is_refused(ledger, monkeypatch):
    run = finished(ledger, CIFAR)
    monkeypatch.setattr(Classifier, "predict", lambda self, x: Predictions(self(x)))
    with pytest.raises(InputError, match="knn: it needs penultimate features, and this model gives none"):
        measured(OutOfDistribution(ref_to(datasets.load("svhn"))), ledger, run)
