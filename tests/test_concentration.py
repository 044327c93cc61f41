"""In how few items the disagreement lies, and how a run spreads what is left beside the first choice."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from dissensus import datasets, metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import EntropyConcentration, RankedShares
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from finished import finished, measured


def test_the_curve_is_that_of_sorting_and_adding_up():
    probs = torch.softmax(3 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0)), 1).double()
    probs[:50] = torch.eye(4, dtype=torch.float64)[torch.arange(50) % 4]
    entropies = sorted((float(value) for value in metrics.entropy(probs)), reverse=True)
    curve = metrics.entropy_concentration(probs)
    for items in (0, 1, 60, 150, 200):
        assert curve.held_by(items / 200) == pytest.approx(sum(entropies[:items]) / sum(entropies))
    assert curve.needed_for(1.0) == pytest.approx(150 / 200), "a quarter is unanimous"
    half = curve.needed_for(0.5)
    assert curve.held_by(half) >= 0.5 > curve.held_by(half - 1 / 200)
    assert np.all(np.diff(curve.held) >= 0)


def test_equal_disagreement_everywhere_is_not_concentrated():
    curve = metrics.entropy_concentration(torch.full((10, 2), 0.5, dtype=torch.float64))
    assert curve.held_by(0.3) == pytest.approx(0.3)


def test_people_who_agree_on_everything_have_no_curve_and_shares_lie_in_0_to_1():
    with pytest.raises(InputError, match="agree on every item"):
        metrics.entropy_concentration(torch.eye(3, dtype=torch.float64))
    curve = metrics.entropy_concentration(torch.full((10, 2), 0.5, dtype=torch.float64))
    for ask in (curve.held_by, curve.needed_for):
        with pytest.raises(InputError, match="is no"):
            ask(30)


def test_in_cifar10h_three_tenths_of_the_images_hold_five_sixths_of_the_vote_entropy(tmp_path):
    if "DISSENSUS_DATA" not in os.environ or not (datasets.data_root() / "cifar10h" / "cifar10h-counts.npy").is_file():
        pytest.skip("DISSENSUS_DATA names no folder with cifar10h")
    ref = DataRef("cifar10h", digest=datasets.load("cifar10h").digest)
    result = measured(EntropyConcentration(ref), Ledger(tmp_path))
    assert result.scores["entropy_held"] == pytest.approx(0.83, abs=0.005)
    assert result.scores["items_disputed"] == pytest.approx(1 - 0.4393)
    curve = result.facts["curve"]
    assert curve["y"][curve["x"].index(0.3)] == pytest.approx(result.scores["entropy_held"])


def test_ranked_shares_are_means_over_the_items_with_one_first_choice(tmp_path):
    ledger = Ledger(tmp_path)
    run = finished(ledger)
    result = measured(RankedShares(), ledger, run)
    stored = StoredPredictions.read(run, ledger, "last")
    probs, people = stored.log_probs.exp().numpy(), stored.people.numpy()
    same = [row for row in range(len(people)) if people[row].argmax() == probs[row].argmax()]
    assert result.facts["items"] == {"same_first_choice": len(same), "evaluation": len(people)}
    ranked = [sorted(range(10), key=lambda k, row=row: -people[row][k]) for row in same]
    of_model = np.mean([probs[row][order] for row, order in zip(same, ranked, strict=True)], 0)
    assert result.facts["model"]["y"] == pytest.approx(of_model.tolist())
    assert result.facts["people"]["y"] == sorted(result.facts["people"]["y"], reverse=True)
    assert sum(result.facts["model"]["y"]) == pytest.approx(1)
    assert result.scores["total_variation"] == pytest.approx(np.abs(probs - people)[same].sum(1).mean() / 2)
