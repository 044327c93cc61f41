import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats as scipy_stats
from scipy.special import digamma

from dissensus.datasets import digits
from dissensus.errors import InputError
from dissensus.metrics import (
    METRICS,
    entropy_correlation,
    estimate_truth_scores,
    high_disagreement,
    score,
    second_best_accuracy,
    soft_brier,
    soft_brier_unbiased,
    soft_nll,
    soft_nll_floor,
)
from dissensus.metrics import vote_mixture as vote_mixture_module
from dissensus.metrics.vote_mixture import CERTAIN, VoteMixture
from test_metrics import crowd

PARTS = ("soft_nll", "entropy_pearson", "entropy_spearman")


def drawn(truth, votes, seed):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.stack([rng.multinomial(votes, row) for row in truth.numpy()]))


def shares(counts):
    return counts / counts.sum(1, keepdim=True).double()


def mixed_truth(n, k=5, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(k), size=n))


def test_the_floor_is_the_entropy_of_the_votes():
    target = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    assert soft_nll_floor(target).tolist() == pytest.approx([math.log(2), 0])


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


def scored(truth, counts):
    """What the truth itself gets, in the order of PARTS."""
    people = shares(counts)
    correlations = [entropy_correlation(truth, people, kind=kind) for kind in ("pearson", "spearman")]
    return [float(soft_nll(truth.log(), people).mean()), *correlations]


def estimated(counts):
    """Value, low and high of each of PARTS."""
    estimate = estimate_truth_scores(counts)
    parts = [getattr(estimate, part) for part in PARTS]
    return [[part.value, part.low, part.high] for part in parts]


def test_a_known_truth_is_scored_itself():
    log_probs, target, gold, counts, truth = crowd()
    scores = score(log_probs, target, gold, counts, truth)
    as_model = score(truth.log(), target, gold, counts, truth)
    for name in PARTS:
        assert scores[f"{name}_of_truth"] == pytest.approx(as_model[name], rel=1e-12)
        assert METRICS[f"{name}_of_truth"].needs == "truth"


def test_on_the_demo_the_estimate_is_close_to_what_the_stored_truth_scores():
    data = digits.load()
    real = scored(data.truth, data.counts)
    assert real == pytest.approx([0.236, 0.912, 0.733], abs=0.001)
    values = [part[0] for part in estimated(data.counts)]
    assert values[0] == pytest.approx(real[0], rel=0.02)
    assert values[1:] == pytest.approx(real[1:], abs=0.06)


def nearly_certain(n, k, share, seed=0):
    """This share of the items has 3% of dissent on average; the others are flat."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.5), size=n)
    dissent = np.minimum(rng.exponential(0.03, size=(n, 1)), 0.5)
    sure = np.concatenate([1 - dissent, dissent * rng.dirichlet(np.full(k - 1, 0.3), size=n)], 1)
    return torch.from_numpy(np.where(np.arange(n)[:, None] < share * n, sure, truth))


def gaussian(n, k, spread, seed=0):
    """Softmax of Gaussians: no Dirichlet."""
    return torch.softmax(spread * torch.from_numpy(np.random.default_rng(seed).normal(size=(n, k))), 1)


SMALL_SIMULATION = {
    "flat, 2 classes": lambda: mixed_truth(1500, 2),
    "flat, 5 classes": lambda: mixed_truth(1500, 5),
    "softmax, 3 classes": lambda: gaussian(1500, 3, 4.0),
    "softmax, 10 classes": lambda: gaussian(1500, 10, 2.0),
    "half nearly certain, 3 classes": lambda: nearly_certain(1500, 3, 0.5),
    "nearly all nearly certain, 10 classes": lambda: nearly_certain(1500, 10, 0.9),
}
BOUNDS = {2: (0.2, 0.2), 3: (0.2, 0.2), 5: (0.08, 0.1), 10: (0.04, 0.06), 50: (0.02, 0.03)}


@pytest.mark.parametrize("votes", BOUNDS)
@pytest.mark.parametrize("design", SMALL_SIMULATION)
def test_the_error_of_the_estimates_is_within_the_stated_bounds(design, votes):
    truth = SMALL_SIMULATION[design]()
    counts = drawn(truth, votes, seed=votes)
    (nll, *correlations), (real_nll, *real_correlations) = estimated(counts), scored(truth, counts)
    relative, absolute = BOUNDS[votes]
    assert nll[0] == pytest.approx(real_nll, rel=relative)
    for estimate, real in zip(correlations, real_correlations, strict=True):
        assert estimate[0] == pytest.approx(real, abs=absolute)


@pytest.mark.parametrize("votes", [2, 3])
def test_with_two_or_three_votes_the_range_shows_how_little_is_known_and_holds_the_truth(votes):
    truth = nearly_certain(1500, 5, 0.6)
    counts = drawn(truth, votes, seed=1)
    for (value, low, high), real in zip(estimated(counts), scored(truth, counts), strict=True):
        assert low <= value <= high
        assert low <= real <= high
        assert high - low > 0.1 * real


def test_with_fifty_votes_the_range_is_narrow():
    truth = nearly_certain(1500, 5, 0.6)
    for _, low, high in estimated(drawn(truth, 50, seed=1)):
        assert high - low < 0.02


def test_the_range_holds_the_rank_correlation_of_truths_that_are_beyond_doubt():
    truth = mixed_truth(1500, 3)
    truth[:1350] = torch.eye(3, dtype=torch.float64)[torch.arange(1350) % 3]
    counts = drawn(truth, 10, seed=1)
    value, low, high = estimated(counts)[2]
    real = scored(truth, counts)[2]
    assert low <= value < real - 0.05  # the best guess leaves some doubt on every item
    assert high >= real - 0.05


def test_the_likelihood_is_that_of_a_dirichlet_multinomial_with_any_class_the_main_one():
    counts = np.array([[3, 0, 1, 0], [0, 7, 0, 0], [2, 2, 2, 1]])
    mixture = VoteMixture(counts)
    a, b, _ = mixture._grid
    naive = np.array(
        [
            [
                np.mean(
                    [
                        scipy_stats.dirichlet_multinomial(np.full(4, y) + x * np.eye(4)[main], row.sum()).pmf(row)
                        / scipy_stats.multinomial(row.sum(), np.full(4, 0.25)).pmf(row)
                        for main in range(4)
                    ]
                )
                for x, y in zip(a[:-1], b[:-1], strict=True)
            ]
            for row in np.sort(mixture.rows, 1)
        ]
    )
    ours = mixture._log_likelihood[:, :-1] - np.log(naive)
    padded = np.pad(mixture.rows, ((0, 0), (0, 4 - mixture.rows.shape[1])))
    assert (np.sort(padded, 1) == np.sort(mixture.rows, 1)).all()
    np.testing.assert_allclose(ours - ours[:, :1], 0, atol=1e-9)  # up to a factor per row


def test_draws_and_expectations_are_of_the_same_mixture():
    counts = drawn(mixed_truth(400, 4), 6, seed=3).numpy()
    mixture = VoteMixture(counts)
    weights = mixture.fit()["simple"]
    people = mixture.rows[mixture.row_of_item] / mixture.votes[mixture.row_of_item][:, None]
    rng = np.random.default_rng(0)
    draws = [-(people * np.log(mixture.draw(weights, rng).clip(1e-300))).sum(1).mean() for _ in range(200)]
    assert mixture.soft_nll(weights) == pytest.approx(np.mean(draws), abs=4 * np.std(draws) / np.sqrt(200))


def test_a_fit_explains_the_votes_better_than_its_start_and_as_well_as_the_others():
    mixture = VoteMixture(drawn(mixed_truth(1500, 3), 10, seed=4).numpy())
    log = {
        start: float(mixture.repeats @ np.log(mixture._likelihood @ weights)) for start, weights in mixture.fit().items()
    }
    assert max(log.values()) - min(log.values()) < 2
    even = np.full(len(mixture._grid[0]), 1 / len(mixture._grid[0]))
    assert min(log.values()) > float(mixture.repeats @ np.log(mixture._likelihood @ even))


def test_more_votes_raise_the_ceiling():
    truth = mixed_truth(500)
    ceilings = [estimated(drawn(truth, votes, seed=6))[1][0] for votes in (5, 20, 100)]
    assert ceilings == sorted(ceilings)
    assert ceilings[-1] < 1


def test_neither_the_order_of_the_items_nor_of_the_classes_changes_the_estimates():
    counts = crowd()[3]
    moved = counts[torch.randperm(300, generator=torch.Generator().manual_seed(0))][:, [2, 0, 1, 4, 3]]
    assert estimate_truth_scores(moved) == estimate_truth_scores(counts)


def test_a_sample_of_many_items_stands_for_all_of_them(monkeypatch):
    counts = drawn(mixed_truth(3000, 3), 10, seed=8)
    every = estimated(counts)
    monkeypatch.setattr(vote_mixture_module, "MOST_ITEMS", 1000)
    moved = counts[torch.randperm(3000, generator=torch.Generator().manual_seed(0))]
    some = estimated(moved)
    assert VoteMixture(moved.numpy()).items == 1000
    for one, other in zip(every, some, strict=True):
        assert one[0] == pytest.approx(other[0], abs=0.02)


def test_classes_that_nobody_chose_cost_nothing_but_count():
    counts = drawn(mixed_truth(200, 3), 5, seed=9)
    wide = torch.nn.functional.pad(counts, (0, 300))
    assert VoteMixture(wide.numpy()).rows.shape[1] == 3
    assert estimated(wide)[0][0] > 0


def test_the_expected_soft_nll_is_exact_in_double_precision():
    mixture = VoteMixture(np.array([[3, 2, 2], [1, 0, 0], [5, 1, 0]]))
    a, b, total = mixture._grid
    for pair in np.flatnonzero(a == 0):
        alone = np.arange(len(a)) == pair
        log_p = digamma(mixture.rows + b[pair]) - digamma(mixture.votes[:, None] + total[pair])
        naive = -(mixture.rows / mixture.votes[:, None] * log_p).sum(1).mean()
        assert mixture.soft_nll(alone.astype(float)) == pytest.approx(naive, abs=1e-12)
    assert estimate_truth_scores(torch.tensor([[3, 1]]).int()) == estimate_truth_scores(torch.tensor([[3, 1]]))


def test_items_with_one_vote_are_judged_by_what_the_others_show():
    several = drawn(mixed_truth(800, 3), 8, seed=2)
    truth = mixed_truth(800, 3, seed=5)
    mixed = torch.cat([several, drawn(truth, 1, seed=3)])
    real = scored(torch.cat([mixed_truth(800, 3), truth]), mixed)
    assert estimated(mixed)[0][0] == pytest.approx(real[0], rel=0.05)


@pytest.mark.parametrize(
    ("counts", "undefined"),
    [
        pytest.param([[5, 0], [0, 7]], PARTS[1:], id="all unanimous"),
        pytest.param([[1, 0], [0, 1]], PARTS, id="one vote each"),
        pytest.param([[1, 1], [1, 1]], PARTS[1:], id="all alike"),
        pytest.param([[4], [3]], PARTS[1:], id="one class"),
        pytest.param([[9, 1]] + [[10, 0]] * 20, (), id="one dissenter"),
        pytest.param([[2, 0], [1, 1], [0, 2]], (), id="two votes each"),
    ],
)
def test_what_the_votes_cannot_tell_is_none(counts, undefined):
    estimate = estimate_truth_scores(torch.tensor(counts))
    for part in PARTS:
        values = [getattr(getattr(estimate, part), name) for name in ("value", "low", "high")]
        assert [value is None for value in values] == [part in undefined] * 3


def test_items_beyond_doubt_are_drawn_as_such():
    mixture = VoteMixture(np.array([[50, 0, 0]] * 100))
    weights = np.array(mixture._grid[1] == CERTAIN, dtype=float)
    assert mixture.draw(weights, np.random.default_rng(0)).max(1).tolist() == [1.0] * 100
    assert mixture.soft_nll(weights) == pytest.approx(0, abs=1e-6)


def test_shares_are_no_counts():
    with pytest.raises(InputError, match="shares of votes do not say how many people voted"):
        estimate_truth_scores(torch.tensor([[0.5, 0.5]]))


@pytest.fixture(scope="module")
def cifar10h_counts():
    path = Path(os.environ.get("DISSENSUS_DATA", "")) / "cifar10h" / "cifar10h-counts.npy"
    if not os.environ.get("DISSENSUS_DATA") or not path.exists():
        pytest.skip("DISSENSUS_DATA does not hold cifar10h/cifar10h-counts.npy")
    return torch.from_numpy(np.load(path))


def test_votes_drawn_from_the_mixture_fitted_to_cifar10h_look_like_the_real_ones(cifar10h_counts):
    mixture = VoteMixture(cifar10h_counts[:2000].numpy())
    rng = np.random.default_rng(0)
    truth = mixture.draw(mixture.fit()["simple"], rng)
    real = mixture.rows[mixture.row_of_item]
    redrawn = np.stack([rng.multinomial(row.sum(), p) for row, p in zip(real, truth, strict=True)])
    for dissenters in (0, 1, 2):
        share = [((counts.sum(1) - counts.max(1)) == dissenters).mean() for counts in (real, redrawn)]
        assert share[0] == pytest.approx(share[1], abs=0.02)
    floors = [float(soft_nll_floor(shares(torch.from_numpy(counts))).mean()) for counts in (real, redrawn)]
    assert floors[0] == pytest.approx(floors[1], rel=0.03)


def test_cifar10h_has_the_unanimous_and_well_defined_items_that_the_definitions_state(cifar10h_counts):
    counts = cifar10h_counts
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
