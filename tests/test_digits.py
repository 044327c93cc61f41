"""The embedded data set: real digits, and a crowd of which everything is known."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets import digits
from dissensus.datasets.data import Data
from dissensus.errors import InputError


@pytest.fixture(scope="module")
def data() -> Data:
    return datasets.load("digits")


def confused_pairs(said: np.ndarray, gold: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of digits, the most confused first."""
    mean = np.stack([said[gold == digit].mean(0) for digit in range(10)])
    return sorted(combinations(range(10), 2), key=lambda pair: -(mean + mean.T)[pair])


def test_there_are_1797_uint8_images_with_50_votes_each_and_a_truth(data):
    assert data.x.dtype == torch.uint8
    assert data.x.shape == (1797, 1, 8, 8)
    assert (int(data.x.min()), int(data.x.max())) == (0, 255)
    assert data.truth.dtype == torch.float64
    assert data.truth.shape == (1797, 10)
    assert (data.votes.votes_per_item == 50).all()
    assert torch.bincount(data.gold).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_report_will_say_that_the_crowd_is_simulated(data):
    assert any("simulated" in note for note in data.notes)


def test_the_truth_is_a_distribution(data):
    assert bool((data.truth >= 0).all())
    torch.testing.assert_close(data.truth.sum(1), torch.ones(1797, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_truth_is_exactly_the_mean_of_the_pool_and_everybody_voting_comes_close_to_it():
    everybody = datasets.load("digits", votes=digits.ANNOTATORS)
    pool = digits._crowd()
    assert (pool.sum(2) == digits.GRID).all()
    np.testing.assert_array_equal(everybody.truth.numpy(), pool.sum(0) / (digits.ANNOTATORS * digits.GRID))
    share = pool / digits.GRID
    deviation = everybody.votes.counts - share.sum(0)  # only the annotators' own draws are left to chance
    variance = (share * (1 - share)).sum()
    assert (deviation**2).sum() == pytest.approx(variance, rel=0.15)


def test_votes_scatter_about_the_truth_as_draws_from_it_do(data):
    truth, counts = data.truth.numpy(), data.votes.counts
    spread = ((counts - 50 * truth) ** 2).sum() / (50 * truth * (1 - truth)).sum()
    assert spread == pytest.approx(1, abs=0.15)  # 0.05 is one standard deviation over crowds
    total = 50 * truth.sum(0)
    assert (((counts.sum(0) - total) ** 2) / total).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001
    assert (counts[truth == 0] == 0).all()


def test_confusions_are_structured(data):
    pairs = confused_pairs(data.votes.soft, data.gold.numpy())
    assert {(4, 9), (3, 8)} <= set(pairs[:9])  # of 45


def test_a_permuted_crowd_has_no_structure(data):
    gold = data.gold.numpy()
    permuted = data.votes.soft[torch.randperm(1797, generator=torch.Generator().manual_seed(0)).numpy()]
    assert (data.votes.soft.argmax(1) == gold).mean() > 0.95
    assert (permuted.argmax(1) == gold).mean() < 0.2

    def lift(said: np.ndarray) -> float:
        """How much more often the ten most confused pairs are confused than the ten least."""
        mean = np.stack([said[gold == digit].mean(0) for digit in range(10)])
        ranked = [(mean + mean.T)[pair] for pair in confused_pairs(said, gold)]
        return sum(ranked[:10]) / sum(ranked[-10:])

    assert lift(data.votes.soft) > 20
    assert lift(permuted) < 3


def test_some_items_are_unanimous_and_some_are_disputed(data):
    top = data.votes.soft.max(1)
    assert 0.2 <= (top == 1).mean() <= 0.6
    assert (top < 0.6).mean() > 0.02


def test_annotators_are_known_differ_and_never_vote_twice_on_an_item(data):
    votes = data.votes
    cells = votes.item * digits.ANNOTATORS + votes.annotator
    assert len(np.unique(cells)) == votes.n_votes
    right = votes.label == data.gold.numpy()[votes.item]
    accuracy = np.bincount(votes.annotator, weights=right) / np.bincount(votes.annotator)
    assert len(accuracy) == digits.ANNOTATORS
    by_chance = np.sqrt(right.mean() * (1 - right.mean()) * digits.ANNOTATORS / votes.n_votes)
    assert accuracy.std() > 1.5 * by_chance
    assert accuracy.min() > 0.8


@pytest.mark.parametrize("few", [1, 3, 20])
def test_fewer_votes_are_the_first_of_more(data, few):
    sparse = datasets.load("digits", votes=few)
    first = np.arange(data.votes.n_votes).reshape(1797, 50)[:, :few].ravel()
    np.testing.assert_array_equal(sparse.votes.label, data.votes.label[first])
    np.testing.assert_array_equal(sparse.votes.annotator, data.votes.annotator[first])
    assert torch.equal(sparse.truth, data.truth)


def test_making_it_again_gives_the_same_content(data):
    digits.load.cache_clear()
    digits._crowd.cache_clear()
    again = datasets.load("digits")
    assert again is not data
    assert again.digest == data.digest


def test_a_last_bit_of_difference_in_the_arithmetic_changes_nothing(data, monkeypatch):
    posterior = digits._posterior
    monkeypatch.setattr(digits, "_posterior", lambda *seen: np.nextafter(posterior(*seen), 1))
    digits.load.cache_clear()
    digits._crowd.cache_clear()
    try:
        assert digits.load().digest == data.digest
    finally:
        digits.load.cache_clear()
        digits._crowd.cache_clear()


@pytest.mark.parametrize("votes", [0, 201])
def test_more_votes_than_annotators_are_refused(votes):
    with pytest.raises(InputError, match="1 to 200"):
        datasets.load("digits", votes=votes)
