"""Data: rows that belong together stay together."""

from dataclasses import replace

import torch

from crowds import crowd


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
