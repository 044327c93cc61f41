"""The exact solver against scikit-learn, and the baselines made with it."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from crowds import crowd
from dissensus.errors import InputError
from dissensus.training.baselines import BASELINES
from dissensus.training.logistic import (
    PENALTIES,
    class_prior,
    fit_logistic,
    majority_target,
    search_penalty,
    stratified_folds,
)

DATA = crowd(items=90, classes=3, votes=5, seed=1)
MIXED = torch.tensor(np.random.default_rng(0).normal(size=(5, 12)))
X = DATA.x.double() @ MIXED  # twelve features of rank five


def counts_of_unequal_items() -> torch.Tensor:
    generator = np.random.default_rng(2)
    return torch.from_numpy(DATA.votes.counts * generator.integers(1, 6, (90, 1)))


def by_scikit_learn(x, counts, penalty):
    """Votes expanded to weighted rows: one row per item and class."""
    scaler = StandardScaler().fit(x)
    items, classes = counts.shape
    rows, labels = np.repeat(scaler.transform(x), classes, 0), np.tile(np.arange(classes), items)
    model = LogisticRegression(C=1 / (penalty * float(counts.sum())), tol=1e-12, max_iter=100_000)
    return model.fit(rows, labels, sample_weight=counts.numpy().ravel()), scaler


@pytest.mark.parametrize("penalty", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("items", [90, 10], ids=["more items than features", "fewer items than features"])
def test_the_solver_finds_the_minimum_that_scikit_learn_finds_on_expanded_votes(penalty, items):
    x, counts = X[:items], counts_of_unequal_items()[:items]
    shares = counts / counts.sum(1, keepdim=True)
    ours = fit_logistic(x, shares, penalty=penalty, weights=counts.sum(1))
    theirs, scaler = by_scikit_learn(x, counts, penalty)
    probs = theirs.predict_proba(scaler.transform(X))
    assert np.abs(ours.log_probs(X).exp().numpy() - probs).max() < 1e-5


def test_without_weights_every_item_counts_the_same():
    shares = DATA.people
    ours = fit_logistic(X, shares, penalty=0.01)
    equal = fit_logistic(X, shares, penalty=0.01, weights=torch.full((90,), 7.0))
    assert torch.allclose(ours.log_probs(X), equal.log_probs(X), atol=1e-7)


def test_the_penalty_is_the_one_that_a_plain_search_over_the_folds_prefers():
    folds, penalties = stratified_folds(DATA.labels, 3, seed=0), (1.0, 0.1, 0.01, 0.001)
    search = search_penalty(X, DATA.people, folds, penalties=penalties)
    plain = {}
    for penalty in search.losses:
        total = 0.0
        for fold in folds:
            kept = torch.tensor([row for row in range(90) if row not in set(fold.tolist())])
            fitted = fit_logistic(X[kept], DATA.people[kept], penalty=penalty)
            total += float(-(DATA.people[fold] * fitted.log_probs(X[fold])).sum())
        plain[penalty] = total / 90
    assert search.penalty == min(plain, key=plain.get)
    assert all(abs(search.losses[penalty] - plain[penalty]) < 0.01 for penalty in plain)  # scaled by all items, not kept


def test_folds_leave_every_item_out_once_and_are_balanced():
    folds = stratified_folds(DATA.labels, 4, seed=3)
    assert sorted(torch.cat(folds).tolist()) == list(range(90))
    for label in range(3):
        sizes = [int((DATA.labels[fold] == label).sum()) for fold in folds]
        assert max(sizes) - min(sizes) <= 1


def test_the_prior_is_the_mean_opinion_and_no_class_is_impossible():
    prior = class_prior(torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]])).exp()
    assert prior.tolist() == pytest.approx([(1.5 + 1 / 3) / 3, (0.5 + 1 / 3) / 3, 1 / 9])


def test_a_class_that_nobody_chose_gets_a_small_finite_probability():
    shares = torch.cat([DATA.people, torch.zeros(90, 1, dtype=torch.float64)], 1)
    log_probs = fit_logistic(X, shares, penalty=0.01).log_probs(X)
    assert bool(torch.isfinite(log_probs).all())
    assert float(log_probs[:, 3].max()) < np.log(0.01)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_gives_distributions_for_items_it_never_saw(name):
    votes = torch.from_numpy(DATA.votes.counts.sum(1))
    log_probs = BASELINES[name](X[:60], DATA.people[:60], votes[:60], X[60:])
    assert log_probs.shape == (30, 3)
    assert torch.allclose(log_probs.exp().sum(1), torch.ones(30, dtype=torch.float64))


def test_logistic_regression_beats_the_prior_where_features_say_something():
    scores = {}
    for name, baseline in BASELINES.items():
        log_probs = baseline(X[:60], DATA.people[:60], None, X[60:])
        scores[name] = float(-(DATA.people[60:] * log_probs).sum(1).mean())
    assert scores["votes_logistic"] < scores["class_prior"] - 0.05
    assert scores["votes_logistic"] < scores["majority_logistic"]


def test_majorities_are_one_hot_and_ties_go_to_the_lowest_class():
    assert majority_target(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]])).tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("x", "shares", "weights", "message"),
    [
        (X[:5], DATA.people, None, "are not"),
        (torch.full((90, 2), torch.nan), DATA.people, None, "NaN"),
        (X, DATA.people, torch.full((90,), -1.0), "weights"),
    ],
)
def test_what_cannot_be_solved_is_refused(x, shares, weights, message):
    with pytest.raises(InputError, match=message):
        fit_logistic(x, shares, penalty=1.0, weights=weights)


def test_caution_takes_the_next_stronger_penalty_where_items_left_out_cannot_tell_it_from_the_best():
    folds = stratified_folds(DATA.labels, 5, seed=0)
    best = search_penalty(X, DATA.people, folds)
    assert best.penalty == min(best.losses, key=best.losses.get)
    bold = search_penalty(X, DATA.people, folds, caution=1e9)
    assert bold.penalty == PENALTIES[PENALTIES.index(best.penalty) - 1]
    assert (best.best, bold.best) == (best.penalty, best.penalty)
    assert (set(best.log_probs), set(bold.log_probs)) == ({best.penalty}, {best.penalty, bold.penalty})
    excess = (DATA.people * (best.log_probs[best.penalty] - bold.log_probs[bold.penalty])).sum(1)
    assert float(excess.mean()) == pytest.approx(best.losses[bold.penalty] - best.losses[best.penalty])
    errors = float(excess.mean() / excess.std(correction=0)) * len(excess) ** 0.5
    assert errors > 0
    assert search_penalty(X, DATA.people, folds, caution=0.99 * errors).penalty == best.penalty
    assert search_penalty(X, DATA.people, folds, caution=1.01 * errors).penalty == bold.penalty


def test_penalties_are_judged_by_their_own_solutions_where_items_can_be_separated():
    generator = np.random.default_rng(0)
    label = torch.arange(40) % 4
    x = torch.from_numpy(generator.normal(size=(4, 300))[label] * 0.2 + generator.normal(size=(40, 300)))
    shares = torch.nn.functional.one_hot(label, 4).double()
    folds = stratified_folds(label, 5, seed=0)
    found = search_penalty(x, shares, folds, penalties=(1.0, 1e-2, 1e-4, 1e-6))
    weakest = min(found.losses)
    mean, std = x.mean(0), x.std(0, correction=0)
    exact = 0.0
    for fold in folds:
        kept = np.setdiff1d(np.arange(40), fold.numpy())
        # the search scales by all items; so does this, which undoes the scaling by the rows of a fold
        model = LogisticRegression(C=1 / (weakest * len(kept)), tol=1e-9, max_iter=20_000)
        model.fit(((x - mean) / std)[kept].numpy(), label[kept].numpy())
        exact -= float(model.predict_log_proba(((x - mean) / std)[fold].numpy())[np.arange(len(fold)), label[fold]].sum())
    assert found.losses[weakest] == pytest.approx(exact / 40, rel=0.01)
