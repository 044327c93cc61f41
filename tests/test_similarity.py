"""CKA and Grad-CAM stability of pairs of finished runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr

from dissensus import metrics
from dissensus.engine.measures import Cka, GradCam
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.errors import InputError
from dissensus.models import Classifier, Mlp
from dissensus.models.predictions import Predictions
from dissensus.probes.cka import linear_cka
from dissensus.probes.grad_cam import grad_cam
from dissensus.store.ledger import Ledger
from finished import SOFT, finished, measured


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def shared(one: FinishedRun, other: FinishedRun) -> torch.Tensor:
    both = set(one.setup.held_out.tolist()) & set(other.setup.held_out.tolist())
    return torch.tensor(sorted(both))


def test_cka_compares_penultimate_features_of_the_items_held_out_in_all(ledger):
    runs = finished(ledger), finished(ledger, replace(SOFT, model=Mlp(hidden=(9,))), seed=1)
    result = measured(Cka(), ledger, *runs)
    scores, facts = result.scores, result.facts
    one, other = (FinishedRun.load(run, ledger, "last") for run in runs)
    rows = shared(one, other)
    with torch.no_grad():
        features = [each.model.predict(each.setup.x(rows) / 255).features for each in (one, other)]
    assert scores["cka"] == pytest.approx(linear_cka(*features), rel=1e-5)
    assert scores["cka_unbiased"] == pytest.approx(linear_cka(*features, unbiased=True), rel=1e-5)
    assert facts["items"]["evaluation"] == len(rows)
    assert len(rows) < len(one.setup.held_out)


def test_a_run_is_like_itself(ledger):
    run = finished(ledger)
    assert measured(Cka(), ledger, run, run).scores["cka"] == pytest.approx(1)
    assert measured(GradCam(), ledger, run, run).scores["stability"] == pytest.approx(1)


def test_stability_is_the_mean_correlation_of_maps_over_all_items_and_over_the_most_disputed(ledger):
    runs = finished(ledger), finished(ledger, seed=1)
    result = measured(GradCam(), ledger, *runs)
    scores, facts = result.scores, result.facts
    one, other = (FinishedRun.load(run, ledger, "last") for run in runs)
    rows = shared(one, other)
    maps = [grad_cam(each.model, each.setup.x(rows)).numpy() for each in (one, other)]
    entropy = metrics.entropy(one.setup.data.people[rows]).numpy()
    high = entropy >= np.quantile(entropy, 0.9)
    for key, where, chosen in (("stability", "all", high | True), ("stability_high", "high", high)):
        pairs = [(a.ravel(), b.ravel()) for a, b in zip(maps[0][chosen], maps[1][chosen], strict=True)]
        kept = [pearsonr(a, b).statistic for a, b in pairs if np.ptp(a) > 0 and np.ptp(b) > 0]
        assert scores[key] == pytest.approx(np.mean(kept), rel=1e-5)
        assert facts["left_out"][where] == len(pairs) - len(kept)
    assert facts["items"] == {"evaluation": len(rows), "high": int(high.sum())}


def test_runs_of_different_data_cannot_be_related(ledger):
    other = finished(ledger, replace(SOFT, options=(("votes", 10),)))
    with pytest.raises(InputError, match="different data"):
        measured(Cka(), ledger, finished(ledger), other)


def test_models_without_features_or_without_a_convolutional_stage_are_refused(ledger, monkeypatch):
    flat = finished(ledger, replace(SOFT, model=Mlp(hidden=(9,))), seed=1)
    with pytest.raises(InputError, match="grad_cam: it needs a convolutional stage, and this model has none"):
        measured(GradCam(), ledger, flat, flat)
    monkeypatch.setattr(Classifier, "predict", lambda self, x: Predictions(self(x)))
    with pytest.raises(InputError, match="cka: it needs penultimate features, and this model gives none"):
        measured(Cka(), ledger, flat, flat)
