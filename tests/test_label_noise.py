"""Gradient noise over the training items of finished runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from dissensus import metrics
from dissensus.engine.measures import GradientVariance
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.errors import InputError
from dissensus.models import Classifier, Speedy
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger
from finished import HARD, finished, measured


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def test_gradient_noise_is_that_of_the_training_items_and_ranks_with_vote_entropy(ledger):
    result = measured(GradientVariance(checked=30), ledger, finished(ledger, HARD))
    scores, facts = result.scores, result.facts
    run = FinishedRun.load(finished(ledger, HARD), ledger, "best")
    rows = run.setup.train
    people, h = run.setup.data.people[rows], run.predict(rows).features.double()
    variance = (1 - people.square().sum(1)) * (1 + h.square().sum(1))
    entropy = metrics.entropy(people)
    assert scores["spearman_trained"] == pytest.approx(spearmanr(entropy, variance).statistic, abs=1e-4)
    assert scores["spearman_labels_alone"] > scores["spearman_trained"] > 0.8
    assert scores["spearman_untrained"] > 0.8
    assert scores["sampled_over_closed_form"] == pytest.approx(1, abs=0.05)
    assert facts["items"] == {"train": len(rows), "checked": 30}
    drawn = facts["bins"]["trained"]
    assert sum(drawn["items"]) == len(rows)
    assert drawn["y"][0] == 0.0 == drawn["x"][0]
    weights = np.array(drawn["items"]) / len(rows)
    assert weights @ np.array(drawn["y"]) == pytest.approx(float(variance.mean()), rel=1e-6)


def test_the_closed_form_follows_the_scale_and_the_missing_bias_of_the_last_layer(ledger):
    scaled = finished(ledger, replace(HARD, model=Speedy(widths=(8, 8))))
    scores = measured(GradientVariance(checked=30), ledger, scaled).scores
    assert scores["sampled_over_closed_form"] == pytest.approx(1, abs=0.05)


def test_models_without_features_or_without_a_linear_last_layer_are_refused(ledger, monkeypatch):
    run = finished(ledger, HARD)
    with monkeypatch.context() as patch:
        patch.setattr(Classifier, "predict", lambda self, x: Predictions(self(x)))
        with pytest.raises(
            InputError, match="gradient_variance: it needs penultimate features, and this model gives none"
        ):
            measured(GradientVariance(), ledger, run)
    monkeypatch.setattr(Classifier, "head", None, raising=False)  # it hides the layer
    with pytest.raises(InputError, match="gradient_variance: it needs a linear last layer, and this model has none"):
        measured(GradientVariance(), ledger, run)
