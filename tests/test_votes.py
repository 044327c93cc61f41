"""Votes: the invariants, and what is drawn from them."""

from __future__ import annotations

import hashlib
import pickle
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_val_score, train_test_split

from dissensus import datasets, random
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.estimator import VoteClassifier
from dissensus.labels.delivery import Multipass
from dissensus.labels.targets import Empirical
from dissensus.votes import inspect_votes
from dissensus.votes.votes import MOST_CELLS, Votes, row_names


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
    assert (again.items, again.classes, again.n_votes) == (votes.items, votes.classes, votes.n_votes)


@given(any_votes(), st.data())
def test_a_subset_keeps_every_vote_of_its_items_in_its_order(votes: Votes, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(votes.items))), min_size=1, unique=True))
    part = votes.subset(rows)
    assert part.items == tuple(votes.items[row] for row in rows)
    assert listed(part) == [vote for vote in listed(votes) if vote[0] in part.items]
    mask = np.isin(np.arange(len(votes.items)), rows)
    assert listed(votes.subset(mask)) == listed(part)


def rows_of(votes: Votes) -> tuple[list[int] | None, ...]:
    return tuple(None if part is None else part.tolist() for part in (votes.item, votes.label, votes.annotator))


@given(any_votes(), st.integers(1, 4), st.integers(0, 3), st.data())
def test_counts_kept_as_counts_give_the_rows_that_one_row_per_vote_gives(
    votes: Votes, k: int, seed: int, data: st.DataObject
) -> None:
    counted = Votes.from_counts(votes.counts, items=votes.items, classes=votes.classes)
    listed_out = Votes(counted.item, counted.label, votes.items, votes.classes)
    rows = data.draw(st.lists(st.sampled_from(range(len(votes))), min_size=1, unique=True))
    for change in (
        lambda votes: votes,
        lambda votes: votes.subset(rows),
        lambda votes: votes.resample(k, seed),
        lambda votes: votes.resample(k, seed, replace=False),
        lambda votes: votes.subset(rows).resample(k, seed),
        lambda votes: pickle.loads(pickle.dumps(votes)),
    ):
        assert rows_of(change(counted)) == rows_of(change(listed_out))
        assert change(counted).n_votes == change(listed_out).n_votes
    for column in counted.columns:
        assert np.concatenate(list(counted.rows_in_parts(column))).tolist() == getattr(listed_out, column).tolist()


def old_resample(votes: Votes, k: int, seed: int) -> tuple[list[int], list[int]]:
    """A loop: draw number `u` takes vote floor(u · m) of the item's m, in the order they were cast."""
    of_item = [[label for i, label in zip(votes.item, votes.label, strict=True) if i == n] for n in range(len(votes))]
    draws = [random.uniform(seed, "subsample", "with", k, draw, rows=np.arange(len(votes))) for draw in range(k)]
    picked = [(n, of_item[n][int(draws[draw][n] * len(of_item[n]))]) for n in range(len(votes)) for draw in range(k)]
    return [n for n, _ in picked], [int(label) for _, label in picked]


@given(any_votes(), st.integers(1, 4), st.integers(0, 3))
def test_a_bootstrap_takes_the_votes_that_a_loop_takes(votes: Votes, k: int, seed: int) -> None:
    drawn = votes.resample(k, seed)
    assert (drawn.item.tolist(), drawn.label.tolist()) == old_resample(votes, k, seed)


def digest(votes: Votes) -> str:
    sha = hashlib.sha256(repr((votes.items, votes.classes, votes.annotators)).encode())
    for column in votes.columns:
        sha.update(getattr(votes, column).tobytes())
    return sha.hexdigest()[:16]


# Taken on commit b528a63, when votes were always stored as rows: finished runs depend on these draws.
DRAWS = {
    "digits": ("a8c5e5da5dcd7909", "e2871ef024b18ff7", "e6753f777d186356", "fb820f95a459718c", "fc5eb8f2d63a1596"),
    "cifar10h": ("ec202e17fca3261f", "815cae5cc98315b5", "8b522c19be22e89d", "3de46437f866e007", "edff236e94ed091c"),
}


@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_from_votes_is_what_finished_runs_drew(name: str) -> None:
    present = datasets.entry(name).sizes(datasets.data_root()).values()
    if any(here < complete for here, complete in present):
        pytest.skip(f"{name} is not complete in DISSENSUS_DATA")
    data = datasets.load(name)
    votes = data.votes
    every_seventh = votes.subset(np.arange(0, len(votes), 7)[::-1])
    drawn = [digest(part) for part in (votes, every_seventh, votes.resample(5, 3), votes.resample(5, 3, replace=False))]
    assert (*drawn, data.digest) == DRAWS[name]


@given(any_votes(), st.data())
def test_votes_are_indexed_by_item_as_numpy_indexes_rows(votes: Votes, data: st.DataObject) -> None:
    n = len(votes)
    key = data.draw(
        st.integers(-n, n - 1)
        | st.lists(st.integers(0, n - 1), min_size=1, unique=True)
        | st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(np.array)
        | st.builds(slice, st.none(), st.integers(1, n))
    )
    assert votes[key].counts.tolist() == np.atleast_2d(votes.counts[key]).tolist()
    assert votes[key, ...].items == votes[key].items
    assert votes.shape == votes.counts.shape == np.asarray(votes).shape
    assert [one.items[0] for one in votes] == list(votes.items)
    with pytest.raises(IndexError):
        votes[n]
    with pytest.raises(IndexError, match="by item alone"):
        votes[0, 0]


def test_scikit_learn_splits_votes_beside_features() -> None:
    votes = Votes.from_counts(np.arange(1, 61).reshape(20, 3))
    X = votes.counts.astype(float)
    X_train, X_test, train, test = train_test_split(X, votes, random_state=0)
    assert (X_train == train.counts).all()
    assert (X_test == test.counts).all()
    for splitter in (KFold(4), ShuffleSplit(2, random_state=0)):
        for rows, _ in splitter.split(X, votes):
            assert (votes[rows].counts == X[rows]).all()


def test_scikit_learn_searches_with_votes_as_y() -> None:
    votes = Votes.from_counts(np.arange(1, 61).reshape(20, 3))
    model = VoteClassifier(head="mlp", hidden=4, dropout=0.0, weight_decay=0.0, epochs=1, seeds=1)
    X = votes.counts.astype(float)
    assert cross_val_score(model, X, votes, cv=2).shape == (2,)
    assert GridSearchCV(model, {"lr": [1e-3, 1e-2]}, cv=2).fit(X, votes).best_params_["lr"] in (1e-3, 1e-2)


def test_an_enormous_count_is_not_expanded_until_somebody_needs_rows() -> None:
    tracemalloc.start()
    votes = Votes.from_counts([[999_999_000, 1], [3, 4]])
    facts = inspect_votes(votes)
    drawn, part = votes.resample(3, 0), votes[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6
    assert (votes.n_votes, facts["votes"], drawn.n_votes, part.n_votes) == (999_999_008, 999_999_008, 6, 999_999_001)
    with pytest.raises(InputError, match="999,999,008 votes cannot be listed one by one"):
        _ = votes.item
    target = Empirical().target(Data.of_votes(votes), torch.arange(2), seed=0)
    with pytest.raises(InputError, match="multipass lists every vote, and 999,999,008 do not fit"):
        Multipass().labels(target, 0)


def test_many_labels_on_many_items_stay_sparse() -> None:
    n = 2 * int(MOST_CELLS**0.5)
    votes = Votes(np.arange(n), np.arange(n), row_names(n), row_names(n))
    assert len(votes.cells.item) == inspect_votes(votes)["votes"] == votes[::2].n_votes * 2 == n
    with pytest.raises(InputError, match="does not fit in memory"):
        _ = votes.counts


@given(any_votes())
def test_cells_are_the_counts_above_zero(votes: Votes) -> None:
    item, label = np.nonzero(votes.counts)
    assert [part.tolist() for part in votes.cells] == [part.tolist() for part in (item, label, votes.counts[item, label])]


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
    with pytest.raises(ValueError, match="read-only"):
        pickle.loads(pickle.dumps(votes)).label[0] = 1
    with pytest.raises(AttributeError, match="cannot be changed"):
        votes.items = ()
    item[0] = 1
    assert votes.item.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Votes([0], [0, 1], ("a",), ("x", "y")), "1 items but 2 labels"),
        (lambda: Votes([0], [0], ("a",), ("x",), [0, 0], ("w",)), "1 items but 2 annotators"),
        (lambda: Votes([0], [0], ("a",), ("x",), [0]), "go together"),
        (lambda: Votes([0], [0], ("a",), ("x",), times=[0]), "cannot stand for 0 votes"),
        (lambda: Votes([0], [0], ("a",), ("x",), times=[1, 1]), "1 items but 2 times"),
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
