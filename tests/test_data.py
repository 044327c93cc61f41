"""Data: rows that belong together stay together."""

from dataclasses import replace

import numpy as np
import torch

from crowds import crowd
from dissensus.datasets import data as data_module
from dissensus.datasets.data import Data
from dissensus.votes import Votes


def test_a_subset_has_the_same_rows_of_everything_in_the_order_asked_for():
    whole = crowd(items=30)
    whole = replace(whole, truth=whole.people, texts=tuple(f"text {row}" for row in range(30)))
    rows = torch.tensor([7, 2, 29])
    part = whole.subset(rows)
    assert part.ids == ("item7", "item2", "item29")
    assert part.texts == ("text 7", "text 2", "text 29")
    for name in ("x", "gold", "truth", "people", "counts", "labels"):
        assert torch.equal(getattr(part, name), getattr(whole, name)[rows]), name
    assert (part.name, part.classes, part.notes) == (whole.name, whole.classes, whole.notes)


def test_a_subset_of_probabilities_and_of_bare_labels_is_one_too():
    whole = crowd(items=30)
    shares = replace(whole, votes=None, probs=whole.people).subset(torch.tensor([3, 4]))
    assert torch.equal(shares.probs, whole.people[3:5])
    bare = replace(whole, votes=None, x=None).subset(torch.tensor([3, 4]))
    assert bare.x is None
    assert bare.gold.tolist() == [3, 0]


def test_the_digest_does_not_depend_on_the_published_moments():
    data = crowd()
    assert replace(data, moments=((0.5,), (0.5,))).digest == data.digest


def test_a_thousand_million_votes_in_a_few_counts_are_hashed_as_counts():
    few = [Data.of_votes(Votes.from_counts(np.array([[10**9 - 4 - more, more], [1, 2]]))).digest for more in (1, 2)]
    assert few[0] != few[1]


def test_the_digest_of_very_many_votes_does_not_depend_on_how_they_are_kept(monkeypatch):
    monkeypatch.setattr(data_module, "MOST_HASHED", 5)
    counts = np.array([[3, 1], [0, 4]])
    kept_as_rows = Votes([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1], ("0", "1"), ("0", "1"))
    assert Data.of_votes(kept_as_rows).digest == Data.of_votes(Votes.from_counts(counts)).digest
