"""The default model: chosen on items left out, pooled, refitted."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from crowds import crowd
from dissensus.datasets.data import Data
from dissensus.labels.delivery import Multipass, Soft
from dissensus.labels.targets import ClassMean, Empirical
from dissensus.models import Linear, Mlp, new_model
from dissensus.models.opinion_pool import Pool, mixture
from dissensus.training.baselines import votes_baseline
from dissensus.training.logistic import search_penalty
from dissensus.training.selection import CandidateGrid, Lesson, train_pool
from dissensus.training.selection.feature_bounds import feature_bounds
from dissensus.training.selection.lesson import repeated_rows
from dissensus.training.selection.linear_candidates import CAUTION, linear_candidates
from dissensus.training.selection.mlp_candidates import judged_at_one_epoch, mlp_candidates
from dissensus.training.selection.pool_weights import pool_weights
from dissensus.training.selection.pooled_training import folds_of, useful_temperature
from dissensus.training.selection.vote_weights import repetition, vote_weights
from dissensus.votes.votes import Votes

DATA = crowd(items=120, classes=3, votes=8)
GRID = CandidateGrid(mlps=((0.2, 0.1), (0.5, 1.0)), hidden=8, lr=0.01, epochs=15, seeds=2)


def lesson(data=DATA, rule=Empirical(), delivery=Soft(), weights=None):  # noqa: B008
    return Lesson(data, rule, delivery, 0, weights)


def curved(items=400, seed=0):
    """People judge by how far an item is from the origin: a line cannot follow."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 2))
    share = 1 / (1 + np.exp(4 * (np.linalg.norm(x, axis=1) - 1.2)))
    yes = rng.binomial(20, share)
    return Data.of_votes(Votes.from_counts(np.stack([yes, 20 - yes], 1)), x=torch.from_numpy(x).float())


def test_the_pool_beats_logistic_regression_where_people_do_not_think_in_lines():
    data, others = curved(150), curved(400, seed=1)
    trained = train_pool(lesson(data), CandidateGrid(mlps=((0.0, 0.1),), hidden=16, lr=0.03, epochs=30, seeds=1))
    linear = votes_baseline(data.x, data.people, None, others.x)
    pooled = trained.model.predict(others.x).log_probs.detach()
    losses = [float(-(others.people * log_probs).sum(1).mean()) for log_probs in (pooled, linear)]
    assert losses[0] < losses[1] - 0.05
    assert trained.soft_nll == pytest.approx(losses[0], abs=0.05), "what items left out promise"


def with_wrong_units(items, seed):
    """People judge by ten features of very different sizes; 1 cell in 200 is written in another unit."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 10))
    share = 1 / (1 + np.exp(-2 * x @ np.linspace(-1, 1, 10)))
    yes = rng.binomial(10, share)
    measured = x * np.exp(np.linspace(-6, 6, 10))
    measured[rng.random(x.shape) < 0.005] *= 1000
    votes = Votes.from_counts(np.stack([yes, 10 - yes], 1))
    return Data.of_votes(votes, x=torch.from_numpy(measured).float())


def test_features_in_a_wrong_unit_do_not_ruin_the_pool():
    data, others = with_wrong_units(300, seed=0), with_wrong_units(600, seed=1)
    trained = train_pool(lesson(data), CandidateGrid(mlps=()))
    linear = votes_baseline(data.x, data.people, None, others.x)
    pooled = trained.model.predict(others.x).log_probs.detach()
    losses = [float(-(others.people * log_probs).sum(1).mean()) for log_probs in (pooled, linear)]
    assert losses[0] < losses[1] - 0.05


@pytest.mark.parametrize(("items", "candidates"), [(120, 3), (240, 4)])
def test_the_best_penalty_is_pooled_beside_the_next_stronger_where_items_cannot_tell_them_apart(items, candidates):
    data = crowd(items=items, classes=3, votes=2)
    folds = folds_of(lesson(data))
    tried = [(candidate.scaling, candidate.penalty) for candidate in linear_candidates(lesson(data), GRID, folds)]
    expected = []
    for scaling in ("each", "common"):
        cautious = search_penalty(data.x, data.people, folds, scaling=scaling, caution=CAUTION).penalty
        best = search_penalty(data.x, data.people, folds, scaling=scaling).penalty
        expected += [(scaling, penalty) for penalty in dict.fromkeys([cautious, best])]
    assert tried == expected
    assert len(tried) == candidates, "caution changes one of the two scalings here"
    pool = train_pool(lesson(data), CandidateGrid(mlps=()))
    assert len({candidate.name for candidate in pool.candidates}) == candidates
    assert sum(candidate.weight for candidate in pool.candidates) == pytest.approx(1)


def test_few_items_that_a_line_explains_get_no_mlp():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 5))
    yes = rng.binomial(5, 1 / (1 + np.exp(-2 * x[:, 0])))
    data = Data.of_votes(Votes.from_counts(np.stack([yes, 5 - yes], 1)), x=torch.from_numpy(x).float())
    trained = train_pool(lesson(data), CandidateGrid(mlps=((0.5, 1.0),), hidden=16, epochs=15, seeds=1))
    assert [part.name for part in trained.candidates if part.weight and "linear" not in part.name] == []
    curve = train_pool(lesson(curved(90)), CandidateGrid(mlps=((0.0, 0.1),), hidden=16, lr=0.03, epochs=30, seeds=1))
    assert [part.name for part in curve.candidates if part.weight and "linear" not in part.name] != []


def test_only_features_far_outside_of_all_others_are_moved():
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(500, 3, generator=draw)
    x[:, 2] = 7.0
    lower, upper = feature_bounds(x)
    assert bool((x.clamp(lower, upper) == x).all())
    new = torch.tensor([[1e6, -3.0, 9.0]])
    seen = new.clamp(lower, upper)
    span = x[:, 0].max() - x[:, 0].min()
    torch.testing.assert_close(seen, torch.tensor([[float(x[:, 0].max() + span), -3.0, 7.0]]))
    x[0, 1] = -1e6
    quartiles = np.sort(x[:, 1].numpy())[[125, 250, 374]]  # a naive twin of the bound
    expected = quartiles[1] - 20 * (quartiles[2] - quartiles[0]) / 1.349
    assert float(x.clamp(*feature_bounds(x))[0, 1]) == pytest.approx(float(expected), rel=1e-4)


def test_a_pool_is_the_weighted_mean_of_its_members():
    pool = new_model(Pool((Linear(), Mlp((4,), 0.5))), DATA.x, 3, seed=0).eval()
    pool.weights[:] = torch.tensor([0.3, 0.7])
    parts = [member.predict(DATA.x).log_probs.exp() for member in pool.members]
    assert torch.allclose(pool.predict(DATA.x).log_probs.exp(), 0.3 * parts[0] + 0.7 * parts[1])
    expected = -(DATA.people * (0.3 * parts[0] + 0.7 * parts[1]).log()).sum(1).mean().detach()
    assert float(pool.loss(DATA.x, DATA.people.float()).detach()) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("item_weights", [None, torch.rand(50, generator=torch.Generator().manual_seed(1))])
def test_pool_weights_are_those_of_a_general_optimiser(item_weights):
    generator = torch.Generator().manual_seed(0)
    target = torch.softmax(2 * torch.randn(50, 3, generator=generator), 1).double()
    log_probs = [
        torch.log_softmax(target.log() + noise * torch.randn(50, 3, generator=generator), 1) for noise in (1, 1, 3)
    ]
    counted = torch.ones(50) if item_weights is None else item_weights

    def loss(free):
        weights = torch.softmax(torch.from_numpy(free), 0)
        return float(-(counted[:, None] * target * mixture(log_probs, weights)).sum() / counted.sum())

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12, "maxiter": 5_000})
    ours = pool_weights(log_probs, target, item_weights)
    assert float(ours.sum()) == pytest.approx(1)
    assert loss(ours.clamp(min=1e-12).log().numpy()) == pytest.approx(best.fun, abs=1e-5)


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_predictions_of_an_item_left_out_do_not_depend_on_its_votes(kind):
    def predictions(data):
        what = lesson(data)
        if kind == "linear":
            fixed = CandidateGrid(penalties=(0.1,))
            return [candidate.log_probs for candidate in linear_candidates(what, fixed, folds)]
        candidates = mlp_candidates(what, GRID, folds, lambda share, doing: None)
        fixed = [judged_at_one_epoch(candidate, what, folds) for candidate in candidates]
        return [candidate.log_probs for candidate in fixed if candidate.epochs == epochs_of[candidate.optimiser]]

    folds = folds_of(lesson())
    epochs_of = {
        candidate.optimiser: candidate.epochs for candidate in mlp_candidates(lesson(), GRID, folds, lambda *told: None)
    }
    counts = DATA.votes.counts.copy()
    counts[folds[0]] = counts[folds[0]][:, ::-1]
    other = Data.of_votes(Votes.from_counts(counts, classes=DATA.classes, items=DATA.ids), x=DATA.x)
    for before, after in zip(predictions(DATA), predictions(other), strict=False):
        assert torch.allclose(before[folds[0]], after[folds[0]], atol=1e-4)
        assert not torch.allclose(before[folds[1]], after[folds[1]], atol=1e-4)


@pytest.mark.parametrize("rule", [Empirical(), ClassMean()])
@pytest.mark.parametrize("delivery", [Soft(), Multipass()])
def test_every_target_and_delivery_can_be_learned(rule, delivery):
    if isinstance(rule, ClassMean) and isinstance(delivery, Multipass):
        pytest.skip("class means have no votes to pass")
    trained = train_pool(lesson(rule=rule, delivery=delivery), GRID)
    assert bool(torch.isfinite(trained.model.predict(DATA.x).log_probs).all())
    assert sum(candidate.weight for candidate in trained.candidates) == pytest.approx(1)


def test_progress_rises_to_one():
    told = []
    train_pool(lesson(), GRID, lambda share, doing: told.append(share))
    assert told == sorted(told)
    assert told[-1] == 1


def test_torch_keeps_its_threads():
    before = torch.get_num_threads()
    train_pool(lesson(), GRID)
    assert torch.get_num_threads() == before


def test_rows_are_repeated_as_often_as_their_weight_says():
    weights = torch.tensor([0.5, 2.0, 0.0, 1.25, 1.25, 1.0])
    for seed in range(20):
        rows = repeated_rows(torch.arange(6), weights, seed)
        times = torch.bincount(rows, minlength=6)
        assert len(rows) == 6
        assert bool(((times - weights).abs() < 1).all())


def test_a_temperature_is_used_only_where_it_helps_the_other_half():
    people = 0.9 * DATA.people + 0.1 / 3
    assert useful_temperature(torch.log_softmax(3 * people.log(), 1), people, DATA.labels, 0).value == pytest.approx(3)
    assert useful_temperature(people.log(), people, DATA.labels, 0).value == 1


def unequally_judged(items, seed, votes, private=0.0):
    """People judge by eight features; with `private`, also by something about the item that no feature shows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(items, 8))
    logits = x @ np.random.default_rng(9).normal(size=(8, 3)) * 0.5 + private * rng.normal(size=(items, 3))
    probs = torch.softmax(torch.from_numpy(logits), 1).numpy()
    counts = np.stack([rng.multinomial(number, row) for number, row in zip(votes, probs, strict=True)])
    return Data.of_votes(Votes.from_counts(counts), x=torch.from_numpy(x).float())


@pytest.mark.parametrize("private", [0.0, 1.0])
def test_items_with_many_votes_count_more_than_those_with_one(private):
    excess = []
    for seed in range(3):
        data = unequally_judged(120, seed, np.where(np.arange(120) % 2, 100, 1), private)
        others = unequally_judged(1_000, 100 + seed, np.full(1_000, 100), private)
        trained = train_pool(lesson(data), CandidateGrid(mlps=()))
        reference = votes_baseline(data.x, data.people, data.counts.sum(1), others.x)
        pooled = torch.log_softmax(trained.model.predict(others.x).log_probs.detach() / trained.temperature.value, 1)
        losses = [float(-(others.people * log_probs).sum(1).mean()) for log_probs in (pooled, reference)]
        excess.append(losses[0] - losses[1])
    assert np.mean(excess) < 0.005


def test_the_worth_of_votes_depends_on_how_often_they_repeat_each_other():
    votes = np.where(np.arange(400) % 2, 50, 2)
    ratios = []
    for private in (0.0, 0.7, 8.0):
        data = unequally_judged(400, 3, votes, private)
        weights = vote_weights(lesson(data), folds_of(lesson(data)))
        ratios.append(1.0 if weights is None else float(weights[1] / weights[0]))
    assert ratios[0] > 10 > ratios[1] > 2 > ratios[2]


def test_repetition_is_what_a_crowd_was_made_with():
    rng = np.random.default_rng(0)
    votes = rng.integers(1, 30, 4_000)
    shares = rng.dirichlet(np.array([2.0, 1.0, 1.0]), 4_000)  # of a Dirichlet of total 4: 1 / (1 + 4)
    counts = np.stack([rng.multinomial(number, row) for number, row in zip(votes, shares, strict=True)])
    probs = torch.tensor([[0.5, 0.25, 0.25]]).double().expand(4_000, -1)
    assert repetition(torch.from_numpy(counts), probs) == pytest.approx(0.2, abs=0.02)


def test_equal_numbers_of_votes_and_targets_without_votes_leave_the_weights_alone():
    unequal = unequally_judged(60, 0, np.where(np.arange(60) % 2, 100, 1))
    assert vote_weights(lesson(), folds_of(lesson())) is None
    assert vote_weights(lesson(unequal, ClassMean()), folds_of(lesson(unequal))) is None
    given = torch.linspace(1, 2, len(DATA)).double()
    assert vote_weights(lesson(weights=given), folds_of(lesson())) is given
    twice = torch.where(torch.arange(60) < 30, 2.0, 1.0).double()
    alone = vote_weights(lesson(unequal), folds_of(lesson(unequal)))
    both = vote_weights(lesson(unequal, weights=twice), folds_of(lesson(unequal)))
    assert float((both / alone)[:30].mean() / (both / alone)[30:].mean()) == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_no_temperature_is_judged_by_an_item_that_it_was_fitted_on(seed):
    """Fifteen items count, each as much as four: the temperature of one half of them does not help the other half."""
    rng = torch.Generator().manual_seed(seed)
    people = torch.nn.functional.one_hot(torch.randint(0, 2, (60,), generator=rng)).double()
    logits = 0.5 * torch.randn(60, 2, generator=rng).double() + 0.7 * (people - 0.5)
    weights = torch.where(torch.arange(60) % 4 == 0, 100.0, 1.0).double()
    log_probs = torch.log_softmax(logits, 1)
    assert useful_temperature(log_probs, people, people.argmax(1), 0, weights).value == 1


def test_the_penalty_is_chosen_by_the_items_that_count():
    data = unequally_judged(80, 5, np.full(80, 3))
    folds, counted = folds_of(lesson(data)), (torch.arange(80) < 40).double()
    search = search_penalty(data.x, data.people, folds, judged_by=counted, penalties=(1.0, 0.1))
    for penalty, log_probs in search.log_probs.items():
        first = -(data.people * log_probs).sum(1)[:40].mean()
        assert search.losses[penalty] == pytest.approx(float(first))
