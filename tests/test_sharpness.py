"""Eigenvalue and trace of finished runs, against the same computed from their weights by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dissensus import metrics
from dissensus.engine.measures import Hessian, Slices, measure_spec
from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.one_run import InterruptedRunError, execute
from dissensus.probes.hessian import HessianOperator
from dissensus.probes.hutchinson import hutchinson
from dissensus.probes.lanczos import lanczos
from dissensus.store.ledger import Ledger
from finished import finished, measured


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def test_eigenvalue_and_trace_are_those_of_the_best_checkpoint_on_held_out_items(ledger):
    traces = ("hutchinson", "hutch_plus_plus")
    measure = Hessian(slices=("full",), items=40, traces=traces, most_probes=30, micro_batch=40)
    result = measured(measure, ledger, finished(ledger))
    scores, facts = result.scores, result.facts
    run = FinishedRun.load(finished(ledger), ledger, "best")
    rows = at_most(run.setup.held_out, 40, run.seed)
    matrix = HessianOperator(run.model, run.setup.x(rows), run.setup.data.people[rows])
    largest = lanczos(matrix, seed=7, tolerance=1e-6)  # another start, so that only the matrix is the same
    trace = hutchinson(matrix, seed=7, max_products=60)
    assert scores["lambda_max_full_lanczos"] == pytest.approx(largest.value, rel=2e-3)
    assert scores["lambda_max_full"] == pytest.approx(largest.value, rel=0.05)
    for name, method in (("trace_full", "hutchinson"), ("trace_full_hutch_plus_plus", "hutch_plus_plus")):
        error = facts["estimates"]["full"][method]["error"]
        assert abs(scores[name] - trace.value) < 4 * (error**2 + trace.error**2) ** 0.5
    assert facts["checkpoint"] == "best"
    assert facts["items"] == {"evaluation": len(run.setup.held_out), "full": 40}
    assert facts["estimates"]["full"]["hutchinson"]["products"] == 30
    assert facts["estimates"]["full"]["lanczos"]["converged"]


def test_the_high_slice_is_the_tenth_that_people_disagree_on_most(ledger):
    measure = Hessian(slices=("high",), eigenvalues=("lanczos",), traces=(), most_products=5)
    result = measured(measure, ledger, finished(ledger))
    scores, setup = result.scores, FinishedRun.load(finished(ledger), ledger, "best").setup
    entropy = metrics.entropy(setup.data.people[setup.held_out]).numpy()
    assert result.facts["items"]["high"] == int((entropy >= np.quantile(entropy, 0.9)).sum())
    assert set(scores) == {"lambda_max_high", "soft_nll_high"}
    best = measured(Slices("best"), ledger, finished(ledger))
    assert scores["soft_nll_high"] == pytest.approx(best.scores["soft_nll_high"], rel=1e-6)


def test_a_hessian_tells_how_far_it_is_and_can_be_stopped(ledger):
    spec = measure_spec(Hessian(items=20, most_products=4, most_probes=5, micro_batch=20), (finished(ledger),))
    heard = []
    execute(spec, Ledger(ledger.folder), progress=lambda *progress: heard.append(progress))
    done = [products for products, _, _ in heard]
    assert {(total, loss) for _, total, loss in heard} == {(2 * (2 * 4 + 5), None)}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (1, 26)

    other = measure_spec(Hessian(items=21, most_products=4, most_probes=5), (finished(ledger),))
    with pytest.raises(InterruptedRunError):
        execute(other, ledger, stop_requested=lambda: True)
    assert other.id not in ledger


def test_a_cap_on_items_draws_them_by_the_seed():
    rows = torch.arange(50, 150)
    some = at_most(rows, 20, seed=3)
    assert len(some) == len(set(some.tolist())) == 20
    assert set(some.tolist()) < set(rows.tolist())
    assert some.tolist() == sorted(some.tolist()) == at_most(rows, 20, seed=3).tolist()
    assert some.tolist() != at_most(rows, 20, seed=4).tolist()
    assert set(at_most(rows[10:], 20, seed=3).tolist()) >= {row for row in some.tolist() if row >= 60}
    assert at_most(rows, 100, seed=3) is rows
    assert at_most(rows, None, seed=3) is rows
