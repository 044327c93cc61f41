"""The barrier between finished runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dissensus.engine.measures import Barrier, compute, measure_spec
from dissensus.engine.one_run import InterruptedRunError, execute
from dissensus.labels.delivery import Sampled
from dissensus.models import ResNet20
from dissensus.store.ledger import Ledger
from dissensus.training.recipe import Recipe
from finished import finished, measured, write_cifar10h


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def test_a_run_has_no_barrier_to_itself_and_the_ends_are_its_own_loss(ledger):
    run = finished(ledger)
    result = measured(Barrier(points=5), ledger, run, run)
    scores, facts = result.scores, result.facts
    best = ledger.read(run).scores["best"]["raw"]["soft_nll"]
    assert scores["barrier_interpolated"] == pytest.approx(0, abs=1e-9)
    assert facts["interpolated"] == pytest.approx([best] * 5, rel=1e-6)
    assert facts["x"] == [0, 0.25, 0.5, 0.75, 1]


def test_two_runs_of_different_seeds_meet_on_the_items_that_both_held_out(ledger):
    one, other = finished(ledger), finished(ledger, seed=1)
    result = measured(Barrier(), ledger, one, other)
    scores, facts = result.scores, result.facts
    both = [set(ledger.predictions(run, "last")["rows"].tolist()) for run in (one, other)]
    assert facts["items"]["evaluation"] == len(both[0] & both[1])
    assert len(facts["interpolated"]) == 21
    line = np.linspace(facts["interpolated"][0], facts["interpolated"][-1], 21)
    assert scores["barrier_interpolated"] == pytest.approx((np.array(facts["interpolated"]) - line).max())
    assert scores["barrier_interpolated"] > 0.05


def test_batch_norm_is_treated_both_ways(ledger, tmp_path, monkeypatch):
    write_cifar10h(tmp_path)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    soft = Recipe(model=ResNet20(), data="cifar10h", epochs=1, batch=40)
    pair = finished(ledger, soft), finished(ledger, replace(soft, delivery=Sampled()))
    result = measured(Barrier(points=3, training_items=30), ledger, *pair)
    scores, facts = result.scores, result.facts
    assert facts["checkpoints"] == ["last", "last"]
    assert facts["items"] == {"evaluation": 20, "train": 30}
    assert facts["interpolated"] != facts["reestimated"]
    assert min(scores["barrier_interpolated"], scores["barrier_reestimated"]) >= 0


def test_a_barrier_tells_how_far_it_is_and_can_be_stopped(ledger):
    spec = measure_spec(Barrier(points=3), (finished(ledger), finished(ledger, seed=1)))
    heard = []
    compute(spec, ledger, lambda *progress: heard.append(progress))
    assert heard == [(done, 6) for done in range(1, 7)]
    with pytest.raises(InterruptedRunError):
        execute(spec, ledger, stop_requested=lambda: True)
    assert spec.id not in ledger
