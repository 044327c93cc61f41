"""Where hard delivery helps: improvement over soft labels against the error of the sparse target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import rankdata, spearmanr

from dissensus import metrics
from dissensus.engine.measures import SparseTarget
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.training.recipe import Resampled
from finished import HARD, SOFT, finished, measured


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def by_hand(ledger: Ledger, part: str) -> dict[str, np.ndarray]:
    """The naive twin: item by item."""
    hard, soft = (FinishedRun.load(finished(ledger, recipe), ledger, "last") for recipe in (HARD, SOFT))
    setup = hard.setup
    rows = setup.train if part == "train" else setup.held_out
    few = setup.data.votes.resample(5, seed=0, replace=True).soft[rows.numpy()]
    people = setup.data.people[rows].numpy()
    nll = [-(people * each.predict(rows).log_probs.numpy()).sum(1) for each in (hard, soft)]
    return {
        "js": np.round([jensenshannon(a, b) for a, b in zip(few, people, strict=True)], 6),  # SciPy's 0 is 1e-9
        "l1": np.round(np.abs(few - people).sum(1), 9),
        "improvement": nll[1] - nll[0],
        "entropy": np.array([-sum(p * np.log(p) for p in row if p > 0) for row in people]),
    }


@pytest.mark.parametrize("part", ["train", "evaluation"])
def test_errors_and_improvements_are_those_computed_item_by_item(ledger, part):
    result = measured(SparseTarget(), ledger, finished(ledger, HARD), finished(ledger))
    scores, facts = result.scores, result.facts
    twin = by_hand(ledger, part)
    everyone = np.ones(len(twin["js"]), dtype=bool)
    for where, chosen in (
        (part, everyone),
        (f"{part}_high", twin["entropy"] >= np.quantile(twin["entropy"], 0.9) - 1e-12),
    ):
        assert facts["items"][where] == chosen.sum()
        for name in ("js", "l1"):
            expected = spearmanr(twin[name][chosen], twin["improvement"][chosen]).statistic
            assert scores[f"spearman_{name}_{where}"] == pytest.approx(expected, abs=2e-4)
            drawn = facts["bins"][where][name]
            assert sum(drawn["items"]) == chosen.sum()
            assert max(drawn["items"][-5:]) - min(drawn["items"][-5:]) <= 1
            means = [x for x in drawn["x"] if x is not None]
            assert means == sorted(means)
        assert scores[f"improvement_{where}"] == pytest.approx(twin["improvement"][chosen].mean(), abs=1e-6)
    assert facts["bins"][part]["js"]["items"][0] == (twin["l1"] == 0).sum()
    assert facts["bins"][part]["js"]["x"][0] == 0.0
    assert facts["left_out"] == {"train": 0, "evaluation": 0}


def test_a_run_does_not_improve_on_itself(ledger):
    run = finished(ledger)
    result = measured(SparseTarget(), ledger, run, run)
    assert result.scores["improvement_train"] == 0.0
    assert result.scores["spearman_js_train"] is None
    assert set(result.facts["bins"]["train"]["js"]["y"]) == {0.0}


def test_only_runs_that_saw_the_same_few_votes_are_compared(ledger):
    soft = finished(ledger)
    for other in (finished(ledger, HARD, seed=1), finished(ledger, replace(HARD, votes=Resampled(10)))):
        with pytest.raises(InputError, match="did not see the same votes"):
            measured(SparseTarget(), ledger, other, soft)
    full = finished(ledger, replace(SOFT, votes=None))
    with pytest.raises(InputError, match="no target is sparse"):
        measured(SparseTarget(), ledger, full, full)


# ---- the pure parts


def test_partial_correlation_is_that_of_the_residuals():
    drawn = np.random.default_rng(0)
    given_, noise = drawn.normal(size=200), drawn.normal(size=(2, 200))
    first, second = given_ + noise[0], given_**3 - noise[0] + noise[1]
    ranks = [rankdata(one) for one in (first, second, given_)]
    for kind, (a, b, c) in {"pearson": (first, second, given_), "spearman": ranks}.items():
        left = [one - np.polyval(np.polyfit(c, one, 1), c) for one in (a, b)]
        expected = np.corrcoef(*left)[0, 1]
        assert metrics.partial_correlation(first, second, given_, kind=kind) == pytest.approx(expected)


def test_partial_correlation_is_none_where_nothing_is_left():
    x, y = np.arange(10.0), np.random.default_rng(0).normal(size=10)
    assert metrics.partial_correlation(x, y, x, kind="spearman") is None
    assert metrics.partial_correlation(x, np.ones(10), y, kind="spearman") is None


@given(arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([0.0, 0.1, 0.5, 2.0])), st.integers(1, 8))
def test_bins_hold_every_item_once_and_zeros_apart(x, bins):
    drawn = metrics.zero_then_equal_mass(x, 3 * x + 1, bins)
    zeros = int((x == 0).sum())
    assert sum(drawn["items"]) == len(x)
    assert drawn["items"][0] == zeros
    assert drawn["x"][0] == (0.0 if zeros else None)
    assert len(drawn["items"]) == len(drawn["x"]) == bins + 1
    assert [one is None for one in drawn["y"]] == [items == 0 for items in drawn["items"]]
    means = np.array([(a, b) for a, b in zip(drawn["x"], drawn["y"], strict=True) if a is not None])
    np.testing.assert_allclose(means[:, 1], 3 * means[:, 0] + 1)
