"""Detection by a finished run, on tiny files in the official formats."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dissensus import datasets, metrics
from dissensus.engine import measures as analyses
from dissensus.engine.measures import compute
from dissensus.engine.measures.finished_run import Subject
from dissensus.errors import InputError
from dissensus.probes import detectors as ood
from dissensus.probes.detectors import DETECTORS
from dissensus.store.ledger import Ledger
from finished import SOFT, finished, named, write_cifar10h, write_sample, write_svhn

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
    spec = analyses.out_of_distribution(finished(ledger, CIFAR), named(datasets.load(name)))
    scores, facts, _ = compute(spec, ledger)
    assert set(scores) == {f"auroc_{detector}" for detector in DETECTORS}
    assert all(0 <= value <= 1 for value in scores.values())
    assert facts["items"] == {"evaluation": 20, "outside": images, "train": 80}
    assert facts["outside"] == name
    assert facts["notes"]


def test_the_scores_are_those_of_the_detectors_on_unaugmented_images(ledger):
    run, svhn = finished(ledger, CIFAR), datasets.load("svhn")
    scores, _, _ = compute(analyses.out_of_distribution(run, named(svhn), neighbour=7), ledger)
    subject = Subject.of(run, ledger, "last")
    model, stage = subject.model, subject.stage
    with torch.no_grad():
        inside, outside, train = (model.predict(x / 255) for x in (stage.x(stage.held_out), svhn.x, stage.x(stage.train)))
    assert scores["auroc_energy"] == pytest.approx(metrics.auroc(ood.energy(inside.logits), ood.energy(outside.logits)))
    near = (ood.knn(one.features, train.features, k=7) for one in (inside, outside))
    assert scores["auroc_knn"] == pytest.approx(metrics.auroc(*near))


def test_the_training_items_themselves_are_not_strange(ledger):
    """A sanity check with a known answer: images of the same kind give an AUROC near one half."""
    same = datasets.load("cifar10h")
    scores, _, _ = compute(analyses.out_of_distribution(finished(ledger, CIFAR), named(same)), ledger)
    assert all(0.3 < value < 0.7 for value in scores.values())


def test_a_cap_takes_so_many_of_the_images_from_elsewhere(ledger):
    spec = analyses.out_of_distribution(finished(ledger, CIFAR), named(datasets.load("svhn")), items=12)
    assert compute(spec, ledger)[1]["items"]["outside"] == 12


def test_images_of_another_size_or_other_content_than_planned_are_refused(ledger):
    run = finished(ledger, CIFAR)
    with pytest.raises(InputError, match=r"its images are \[1, 8, 8\], those of the run \[3, 32, 32\]"):
        compute(analyses.out_of_distribution(run, named(datasets.load("digits"))), ledger)
    spec = analyses.out_of_distribution(run, named(datasets.load("svhn")))
    spec.settings["data"]["digest"] = "0" * 16
    with pytest.raises(InputError, match="planned on 0000000000000000"):
        compute(spec, ledger)
