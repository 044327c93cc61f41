"""Convergence, reliability and slices, from what runs recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dissensus import metrics
from dissensus.engine.measures import Convergence, Reliability, Slices, measure_spec
from dissensus.errors import InputError
from dissensus.metrics import calibration
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec
from finished import finished, measured


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def with_curve(folder, values: list[float | None]) -> tuple[Ledger, str]:
    """A record that has a curve and nothing else."""
    run = Run(Spec("train", {"of": values}), {}, {"soft_nll": values}, {}, {})
    Ledger(folder).publish(run, {}, {})
    return Ledger(folder), run.id


@pytest.mark.parametrize(
    ("values", "near", "best"),
    [
        ([1.0, 0.6, 0.52, 0.5, 0.7], 3, 4),  # 0.5 / 0.95 = 0.526
        ([1.0, 0.527, 0.5], 3, 3),
        ([None, 0.5, None, 0.5], 2, 2),
        ([0.3], 1, 1),
    ],
)
def test_convergence_counts_epochs_from_one(tmp_path, values, near, best):
    ledger, run = with_curve(tmp_path, values)
    scores = measured(Convergence(), ledger, run).scores
    assert (scores["epochs_to_near_best"], scores["best_epoch"]) == (near, best)
    assert (scores["best"], scores["epochs"]) == (min(value for value in values if value), len(values))


def test_a_curve_that_is_not_there_is_refused(tmp_path):
    ledger, run = with_curve(tmp_path, [None])
    with pytest.raises(InputError, match="no 'soft_nll' in its curve"):
        measured(Convergence(), ledger, run)
    with pytest.raises(InputError, match="no 'kl' in its curve"):
        measured(Convergence(column="kl"), ledger, run)


def events(ledger: Ledger, run: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kept = ledger.predictions(run, "last")
    log_probs = torch.log_softmax(torch.from_numpy(kept["logits"]).double(), 1)
    top = metrics.top_label(log_probs, torch.from_numpy(kept["labels"]))
    return *top, metrics.high_disagreement(torch.from_numpy(kept["people"]))


def test_reliability_of_several_seeds_is_that_of_their_items_pooled(ledger):
    runs = finished(ledger), finished(ledger, seed=1)
    result = measured(Reliability(), ledger, *runs)
    scores, facts = result.scores, result.facts
    confidence, correct, high = (torch.cat(parts) for parts in zip(*(events(ledger, run) for run in runs), strict=True))
    assert scores["smooth_ece_full"] == pytest.approx(metrics.smooth_ece(confidence, correct))
    assert scores["smooth_ece_high"] == pytest.approx(metrics.smooth_ece(confidence[high], correct[high]))
    assert facts["items"] == {"full": len(high), "high": int(high.sum())}
    assert measure_spec(Reliability(), runs).kind == "relate"
    assert measure_spec(Reliability(), runs[:1]).kind == "measure"


def test_a_reliability_curve_has_few_points_and_averages_to_the_accuracy(ledger):
    run = finished(ledger)
    facts = measured(Reliability(), ledger, run).facts
    drawn = facts["full"]
    assert len(drawn["x"]) == len(drawn["y"]) == len(drawn["density"]) == 51
    assert (drawn["x"][0], drawn["x"][-1]) == (0.0, 1.0)
    share, density = (np.array([value or 0.0 for value in drawn[name]]) for name in ("y", "density"))
    accuracy = ledger.read(run).scores["last"]["raw"]["accuracy"]
    assert np.trapezoid(share * density, drawn["x"]) == pytest.approx(accuracy, abs=0.01)


def test_a_reliability_curve_has_gaps_where_it_would_rest_on_few_items(ledger, monkeypatch):
    run = finished(ledger)
    facts = measured(Reliability(), ledger, run).facts
    drawn = facts["full"]
    items = facts["items"]["full"] * np.array(drawn["density"]) * drawn["sigma"] * 2 * np.sqrt(np.pi)
    monkeypatch.setattr(calibration, "FEW", float(np.median(items)))
    facts = measured(Reliability(), ledger, run).facts
    assert [value is None for value in facts["full"]["y"]] == (items < np.median(items)).tolist()


def test_the_slices_add_up_to_the_whole(ledger):
    run = finished(ledger)
    for checkpoint in ("last", "best"):
        result = measured(Slices(checkpoint), ledger, run)
        scores, whole, items = result.scores, ledger.read(run).scores[checkpoint]["raw"], result.facts["items"]
        for name in ("soft_nll", "kl", "soft_brier", "accuracy", "soft_nll_floor", "brier_top"):
            together = items["high"] * scores[f"{name}_high"] + items["rest"] * scores[f"{name}_rest"]
            assert together / sum(items.values()) == pytest.approx(whole[name], rel=1e-6)
        assert scores["soft_nll_floor_high"] > scores["soft_nll_floor_rest"]


def test_every_column_of_the_basins_paper_is_among_the_scores_of_a_slice(ledger):
    scores = measured(Slices(), ledger, finished(ledger)).scores
    printed = ("soft_nll", "accuracy", "ece_mass_15", "entropy_spearman", "kl", "soft_brier", "smooth_ece")
    decomposed = ("brier_reliability", "brier_resolution", "brier_uncertainty")
    assert {f"{name}_{part}" for name in (*printed, *decomposed) for part in ("high", "rest")} <= set(scores)
