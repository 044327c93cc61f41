"""Hessian, barrier and gradient noise of finished runs: against the same asked of the weights by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from dissensus import metrics
from dissensus.engine import measures as analyses
from dissensus.engine.measures import compute
from dissensus.engine.measures.finished_run import Subject, at_most
from dissensus.engine.one_run import InterruptedRunError, execute
from dissensus.labels.delivery import Sampled
from dissensus.models import LinearHead, ResNet20
from dissensus.probes import geometry
from dissensus.store.ledger import Ledger
from dissensus.training.recipe import Recipe
from finished import HARD, finished, write_cifar10h


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def evaluation_entropy(subject: Subject) -> np.ndarray:
    return metrics.entropy(subject.stage.data.people[subject.stage.held_out]).numpy()


# ---- the Hessian


def test_eigenvalue_and_trace_are_those_of_the_best_checkpoint_on_held_out_items(ledger):
    run = finished(ledger)
    spec = analyses.hessian(
        run, slices=("full",), items=40, traces=("hutchinson", "hutch_plus_plus"), most_probes=30, micro_batch=40
    )
    scores, facts, _ = compute(spec, ledger)
    subject = Subject.of(run, ledger, "best")
    rows = at_most(subject.stage.held_out, 40, subject.seed)
    matrix = geometry.Hessian(subject.model, subject.stage.x(rows), subject.stage.data.people[rows])
    largest = geometry.lanczos(matrix, seed=7, tolerance=1e-6)  # another start, so that only the matrix is the same
    trace = geometry.hutchinson(matrix, seed=7, most=60)
    assert scores["lambda_max_full_lanczos"] == pytest.approx(largest.value, rel=2e-3)
    assert scores["lambda_max_full"] == pytest.approx(largest.value, rel=0.05)
    for name, method in (("trace_full", "hutchinson"), ("trace_full_hutch_plus_plus", "hutch_plus_plus")):
        error = facts["estimates"]["full"][method]["error"]
        assert abs(scores[name] - trace.value) < 4 * (error**2 + trace.error**2) ** 0.5
    assert facts["checkpoint"] == "best"
    assert facts["items"] == {"evaluation": len(subject.stage.held_out), "full": 40}
    assert facts["estimates"]["full"]["hutchinson"]["products"] == 30
    assert facts["estimates"]["full"]["lanczos"]["converged"]


def test_the_high_slice_is_the_tenth_that_people_disagree_on_most(ledger):
    spec = analyses.hessian(finished(ledger), slices=("high",), eigenvalues=("lanczos",), traces=(), most_products=5)
    scores, facts, _ = compute(spec, ledger)
    entropy = evaluation_entropy(Subject.of(finished(ledger), ledger, "best"))
    assert facts["items"]["high"] == int((entropy >= np.quantile(entropy, 0.9)).sum())
    assert set(scores) == {"lambda_max_high", "soft_nll_high"}
    best, _, _ = compute(analyses.slices(finished(ledger), "best"), ledger)
    assert scores["soft_nll_high"] == pytest.approx(best["soft_nll_high"], rel=1e-6)


def test_a_hessian_tells_how_far_it_is_and_can_be_stopped(ledger):
    spec = analyses.hessian(finished(ledger), items=20, most_products=4, most_probes=5, micro_batch=20)
    heard = []
    execute(spec, Ledger(ledger.folder), progress=lambda *told: heard.append(told))
    done = [products for products, _, _ in heard]
    assert {(of, loss) for _, of, loss in heard} == {(2 * (2 * 4 + 5), None)}
    assert done == sorted(done)
    assert (done[0], done[-1]) == (1, 26)

    other = analyses.hessian(finished(ledger), items=21, most_products=4, most_probes=5)
    with pytest.raises(InterruptedRunError):
        execute(other, ledger, stop=lambda: True)
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


# ---- the barrier


def test_a_run_has_no_barrier_to_itself_and_the_ends_are_its_own_loss(ledger):
    run = finished(ledger)
    scores, facts, _ = compute(analyses.barrier((run, run), points=5), ledger)
    best = ledger.read(run).scores["best"]["raw"]["soft_nll"]
    assert scores["barrier_interpolated"] == pytest.approx(0, abs=1e-9)
    assert facts["interpolated"] == pytest.approx([best] * 5, rel=1e-6)
    assert facts["x"] == [0, 0.25, 0.5, 0.75, 1]


def test_two_runs_of_different_seeds_meet_on_the_items_that_both_held_out(ledger):
    one, other = finished(ledger), finished(ledger, seed=1)
    scores, facts, _ = compute(analyses.barrier((one, other)), ledger)
    both = [set(ledger.arrays(run, "predictions")["rows"].tolist()) for run in (one, other)]
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
    scores, facts, _ = compute(analyses.barrier(tuple(pair), points=3, training_items=30), ledger)
    assert facts["checkpoints"] == ["last", "last"]
    assert facts["items"] == {"evaluation": 20, "train": 30}
    assert facts["interpolated"] != facts["reestimated"]
    assert min(scores["barrier_interpolated"], scores["barrier_reestimated"]) >= 0


# ---- gradient noise


def test_gradient_noise_is_that_of_the_training_items_and_ranks_with_vote_entropy(ledger):
    scores, facts, _ = compute(analyses.gradient_variance(finished(ledger, HARD), checked=30), ledger)
    subject = Subject.of(finished(ledger, HARD), ledger, "best")
    rows = subject.stage.train
    people, h = subject.stage.data.people[rows], subject.predict(rows).features.double()
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


@pytest.mark.parametrize("head", [LinearHead(5, 4), LinearHead(5, 4, bias=False), LinearHead(5, 4, scale=0.3)])
def test_sampling_finds_the_closed_form_whatever_the_last_layer(head):
    target = torch.softmax(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), 1)
    features = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    layer = {"bias": head.bias is not None, "scale": head.scale}
    closed = geometry.last_layer_gradient_variance(target, features, **layer)
    sampled = geometry.sampled_gradient_variance(head, target, features, draws=20_000, seed=0)
    torch.testing.assert_close(sampled, closed, rtol=0.03, atol=0)
