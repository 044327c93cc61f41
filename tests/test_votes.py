"""Votes: the invariants, and what is drawn from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.votes.votes import Votes


@st.composite
def any_votes(draw: st.DrawFn) -> Votes:
    items, classes = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    rows = draw(st.lists(st.tuples(st.integers(0, items - 1), st.integers(0, classes - 1)), max_size=20))
    rows += [(item, 0) for item in set(range(items)) - {item for item, _ in rows}]
    item, label = np.array(rows).T
    names = tuple(f"i{n}" for n in range(items)), tuple(f"c{n}" for n in range(classes))
    return Votes(item, label, *names, np.arange(len(rows)), tuple(f"w{n}" for n in range(len(rows))))


def listed(votes: Votes) -> list[tuple[str, ...]]:
    people = votes.annotators
    rows = zip(votes.item, votes.label, votes.annotator if people else votes.item, strict=True)
    return sorted((votes.items[i], votes.classes[c], people[a] if people else "") for i, c, a in rows)


@given(any_votes())
def test_counts_and_shares_are_what_a_loop_counts(votes: Votes) -> None:
    counts = np.zeros((len(votes.items), len(votes.classes)), int)
    for item, label in zip(votes.item, votes.label, strict=True):
        counts[item, label] += 1
    assert (votes.counts == counts).all()
    assert (votes.votes_per_item == counts.sum(1)).all()
    np.testing.assert_allclose(votes.soft, counts / counts.sum(1, keepdims=True))


@given(any_votes())
def test_counts_go_to_votes_and_back(votes: Votes) -> None:
    again = Votes.from_counts(votes.counts, classes=votes.classes, items=votes.items)
    assert (again.counts == votes.counts).all()
    assert (again.items, again.classes, len(again)) == (votes.items, votes.classes, len(votes))


@given(any_votes(), st.data())
def test_a_subset_keeps_every_vote_of_its_items_in_its_order(votes: Votes, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(votes.items))), min_size=1, unique=True))
    part = votes.subset(rows)
    assert part.items == tuple(votes.items[row] for row in rows)
    assert listed(part) == [vote for vote in listed(votes) if vote[0] in part.items]
    mask = np.isin(np.arange(len(votes.items)), rows)
    assert listed(votes.subset(mask)) == listed(part)


@given(any_votes(), st.integers(1, 5), st.integers(0, 3))
def test_resampling_without_replacement_keeps_k_different_votes_or_all(votes: Votes, k: int, seed: int) -> None:
    sparse = votes.resample(k, seed, replace=False)
    assert (sparse.votes_per_item == np.minimum(votes.votes_per_item, k)).all()
    assert set(listed(sparse)) <= set(listed(votes))
    assert listed(sparse) == listed(votes.resample(k, seed, replace=False))


@given(any_votes(), st.integers(1, 5), st.integers(0, 3))
def test_resampling_with_replacement_draws_k_votes_that_somebody_cast(votes: Votes, k: int, seed: int) -> None:
    drawn = votes.resample(k, seed)
    assert (drawn.votes_per_item == k).all()
    assert ((drawn.counts > 0) <= (votes.counts > 0)).all()
    assert drawn.annotator is None


def test_resampling_with_replacement_follows_the_shares() -> None:
    votes = Votes.from_counts([[3, 1], [1, 9]])
    mean = np.mean([votes.resample(10, seed).soft for seed in range(400)], axis=0)
    np.testing.assert_allclose(mean, votes.soft, atol=0.03)


def test_votes_cannot_be_changed_and_do_not_freeze_what_they_were_made_of() -> None:
    item = np.array([0, 1])
    votes = Votes(item, np.array([0, 0]), ("a", "b"), ("x",))
    for array in (votes.item, votes.label, votes.counts, votes.soft, votes.votes_per_item):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    item[0] = 1
    assert votes.item.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Votes([0], [0, 1], ("a",), ("x", "y")), "1 items but 2 labels"),
        (lambda: Votes([0], [0], ("a",), ("x",), [0, 0], ("w",)), "1 items but 2 annotators"),
        (lambda: Votes([0], [0], ("a",), ("x",), [0]), "go together"),
        (lambda: Votes([1], [0], ("a",), ("x",)), r"item index 1…1 is outside 0…0"),
        (lambda: Votes([0], [-1], ("a",), ("x",)), r"label index -1…-1 is outside"),
        (lambda: Votes([0.5], [0], ("a",), ("x",)), "whole numbers"),
        (lambda: Votes([0], [0], ("a", "b"), ("x",)), r"1 of 2 items have no vote \(b\)"),
        (lambda: Votes([0, 1], [0, 0], ("a", "a"), ("x",)), "items has 'a' twice"),
        (lambda: Votes.from_counts([]), "not .items, classes"),
        (lambda: Votes.from_counts(np.zeros((0, 2))), "there are no votes"),
        (lambda: Votes.from_counts([[1, -1]]), "negative count -1 in row 0"),
        (lambda: Votes.from_counts([[0.5, 0.5]]), "0.5 in row 0, column 0 is not a count"),
        (lambda: Votes.from_counts([[1, np.nan]]), "nan in row 0, column 1 is not a count"),
        (lambda: Votes.from_counts([["a", "b"]]), "not numbers"),
        (lambda: Votes.from_counts([[2**62, 2**62]]), "add up to 9.22e"),
        (lambda: Votes.from_counts([[1, 0]]).resample(0, 0), "cannot keep 0 votes"),
        (lambda: Votes.from_counts([[1, 0]]).subset([-1]), "outside"),
    ],
)
def test_what_breaks_an_invariant_is_refused(make, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make()
