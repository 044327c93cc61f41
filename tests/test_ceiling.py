import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats

from dissensus.errors import InputError
from dissensus.metrics import (
    entropy_correlation,
    entropy_correlation_ceiling,
    high_disagreement,
    score,
    second_best_accuracy,
    soft_brier,
    soft_brier_unbiased,
    soft_nll,
    soft_nll_expected,
    soft_nll_floor,
)
from test_metrics import crowd


def drawn(truth, votes, seed):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([rng.multinomial(votes, row) for row in truth.numpy()]))


def shares(counts):
    return counts / counts.sum(1, keepdim=True).double()


def mixed_truth(n, k=5, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(k), size=n))


def naive_ceiling(counts, kind, halvings=200):
    """Shuffle each ballot, cut it in the middle, correlate the entropies of the two parts with SciPy."""
    rng = np.random.default_rng(7)
    correlate = {"pearson": scipy_stats.pearsonr, "spearman": scipy_stats.spearmanr}[kind]
    k = counts.shape[1]
    ballots = [np.repeat(np.arange(k), row) for row in counts.tolist() if sum(row) > 1]
    found = []
    for _ in range(halvings):
        mixed = [rng.permutation(ballot) for ballot in ballots]
        cut = [(one[: len(one) // 2], one[len(one) // 2 :]) for one in mixed]
        counted = np.array([[np.bincount(part, minlength=k) for part in parts] for parts in cut])
        found.append(correlate(*scipy_stats.entropy(counted, axis=2).round(10).T).statistic)
    r = np.mean(found)
    return math.sqrt(2 * r / (1 + r))


def test_the_floor_is_the_entropy_of_the_votes():
    target = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    assert soft_nll_floor(target).tolist() == pytest.approx([math.log(2), 0])


def test_a_model_that_knows_the_truth_scores_the_expected_soft_nll_and_not_the_floor():
    truth = mixed_truth(20_000)
    counts = drawn(truth, 50, seed=1)
    knowing = float(soft_nll(truth.log(), shares(counts)).mean())
    short_of_it = knowing - float(soft_nll_floor(shares(counts)).mean())
    assert short_of_it > 0.03
    assert 0 < knowing - float(soft_nll_expected(counts).mean()) < short_of_it / 5  # what is left: classes nobody chose


def test_miller_and_madows_correction_counts_the_classes_that_got_a_vote():
    extra = soft_nll_expected(torch.tensor([[4, 4, 2, 0], [10, 0, 0, 0]])) - soft_nll_floor(
        torch.tensor([[0.4, 0.4, 0.2, 0.0], [1.0, 0.0, 0.0, 0.0]])
    )
    assert extra.tolist() == pytest.approx([2 / 20, 0], abs=1e-7)


@pytest.mark.parametrize("votes", [2, 3, 20])
def test_the_unbiased_brier_score_averages_to_the_distance_from_the_truth(votes):
    truth, model = mixed_truth(20_000), mixed_truth(20_000, seed=9)
    counts = drawn(truth, votes, seed=2)
    wanted = float(soft_brier(model, truth).mean())
    assert float(soft_brier_unbiased(model, counts).mean()) == pytest.approx(wanted, abs=0.01)
    assert float(soft_brier(model, shares(counts)).mean()) > wanted + 0.02  # what the plain score would say


def test_items_with_one_vote_have_no_unbiased_brier_score_and_are_counted():
    counts = torch.tensor([[1, 0], [3, 1], [0, 1]])
    assert soft_brier_unbiased(shares(counts), counts).isnan().tolist() == [True, False, True]
    scores = score(torch.full((3, 2), 0.5).log(), shares(counts), counts=counts)
    assert scores["soft_brier_unbiased_left_out"] == 2
    assert scores["soft_brier_unbiased"] == pytest.approx(0.125 - (1 - 0.625) / 3)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@pytest.mark.parametrize("votes", [9, 20])
def test_the_ceiling_is_what_shuffling_and_cutting_every_ballot_gives(kind, votes):
    counts = crowd(n=150, k=4, votes=votes, seed=3)[3]
    odd = [[1, 0, 0, 0], [0, 0, 31, 2]] + [[0, 5, 0, 0]] * 80  # one vote, many votes, a crowd of unanimous items
    counts = torch.cat([counts, torch.tensor(odd)])
    assert entropy_correlation_ceiling(counts)[kind] == pytest.approx(naive_ceiling(counts, kind), abs=0.01)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_a_model_with_the_true_entropies_reaches_the_ceiling(kind):
    truth = mixed_truth(5_000, k=3)
    counts = drawn(truth, 40, seed=5)
    reached = entropy_correlation(truth, shares(counts), kind=kind)
    assert entropy_correlation_ceiling(counts)[kind] == pytest.approx(reached, abs=0.03)


def test_more_votes_raise_the_ceiling():
    truth = mixed_truth(500)
    ceilings = [entropy_correlation_ceiling(drawn(truth, votes, seed=6))["pearson"] for votes in (5, 20, 100)]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] < 1


def test_neither_the_order_of_the_items_nor_of_the_classes_changes_the_ceiling():
    counts = crowd()[3]
    moved = counts[torch.randperm(300, generator=torch.Generator().manual_seed(0))][:, [2, 0, 1, 4, 3]]
    assert entropy_correlation_ceiling(moved) == entropy_correlation_ceiling(counts)
    assert entropy_correlation_ceiling(counts, seed=1) != entropy_correlation_ceiling(counts)


def test_the_ceiling_does_not_depend_on_how_many_halvings_fit_in_memory(monkeypatch):
    counts = crowd()[3]
    whole = entropy_correlation_ceiling(counts)
    monkeypatch.setattr("dissensus.metrics.ceiling.BLOCK", 1000)
    assert entropy_correlation_ceiling(counts)["pearson"] == pytest.approx(whole["pearson"], abs=0.01)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([[5, 0], [0, 7]], id="all unanimous"),
        pytest.param([[1, 0], [0, 1]], id="one vote each"),
        pytest.param([[1, 1], [2, 0], [0, 2]], id="halves of one vote"),
        pytest.param([[4], [3]], id="one class"),
        pytest.param([[9, 1]] + [[10, 0]] * 20, id="one dissenter, in one half only"),
    ],
)
def test_where_halves_say_nothing_there_is_no_ceiling(counts):
    assert entropy_correlation_ceiling(torch.tensor(counts)) == {"pearson": None, "spearman": None}


def test_shares_are_no_counts():
    with pytest.raises(InputError, match="shares of votes do not say how many people voted"):
        soft_nll_expected(torch.tensor([[0.5, 0.5]]))


def test_cifar10h_has_the_unanimous_and_well_defined_items_that_the_definitions_state():
    path = Path(os.environ.get("DISSENSUS_DATA", "")) / "cifar10h" / "cifar10h-counts.npy"
    if not os.environ.get("DISSENSUS_DATA") or not path.exists():
        pytest.skip("DISSENSUS_DATA does not hold cifar10h/cifar10h-counts.npy")
    counts = torch.from_numpy(np.load(path))
    people = shares(counts)
    ranked = counts.sort(1, descending=True).values
    strict = (ranked[:, 0] > ranked[:, 1]) & (ranked[:, 1] > ranked[:, 2])
    assert (int((ranked[:, 1] == 0).sum()), int(strict.sum())) == (4393, 4727)
    wrong_second = torch.where(strict[:, None], people.roll(1, 1), people)  # all that is not well defined is copied
    assert second_best_accuracy(wrong_second.log(), people) >= (10_000 - 4727) / 10_000
    assert int(high_disagreement(people).sum()) >= 1000
    scores = score(people.log(), people, counts=counts)
    assert scores["soft_nll"] == pytest.approx(scores["soft_nll_floor"], abs=1e-12)
    assert 0.9 < scores["entropy_pearson_ceiling"] < 1
