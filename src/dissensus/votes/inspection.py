"""What votes look like before anything is trained: sizes, agreement, ties. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from dissensus.votes.votes import Floats, Ints, Votes

BINS = 10
"""Of the histogram of entropies above 0."""


def inspect_votes(votes: Votes) -> dict[str, Any]:
    """What `dissensus inspect` prints, as plain values: JSON can hold them."""
    per_item, entropies = votes.votes_per_item, _entropies(votes.soft)
    edges = np.linspace(0, np.log(max(2, len(votes.classes))), BINS + 1)
    disputed = entropies[entropies > 0]
    largest = votes.counts.max(1)
    return {
        "items": len(votes.items),
        "votes": len(votes),
        "annotators": None if votes.annotators is None else len(votes.annotators),
        "classes": {name: int(count) for name, count in zip(votes.classes, votes.counts.sum(0), strict=True)},
        "votes_per_item": {"fewest": int(per_item.min()), "mean": float(per_item.mean()), "most": int(per_item.max())},
        "unanimous_items": int((largest == per_item).sum()),
        "tied_items": int(((votes.counts == largest[:, None]).sum(1) > 1).sum()),
        "mean_entropy": float(entropies.mean()),
        "krippendorff_alpha": krippendorff_alpha(votes.counts),
        "entropy_histogram": {
            "zero": len(entropies) - len(disputed),
            "edges": [round(float(edge), 6) for edge in edges],
            "counts": np.histogram(disputed, edges)[0].tolist(),
        },
    }


def _entropies(shares: Floats) -> Floats:
    """Entropy of each row in nats [N]."""
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropies: Floats = -(shares * logs).sum(1) + 0.0  # + 0.0: a unanimous item has entropy 0, not -0
    return entropies


def krippendorff_alpha(counts: Ints) -> float | None:
    """Krippendorff's alpha for nominal labels, from counts [N, K]: 1 is perfect agreement, 0 what chance gives.

    Items with one vote are left out: they have no pair of votes. None where all remaining votes are for one class (chance
    agreement is then perfect too) or no item remains.

    >>> krippendorff_alpha(np.array([[2, 0], [0, 2], [1, 1]]))
    0.4444444444444444
    """
    paired = _with_a_pair(counts)
    votes, totals = paired.sum(1), paired.sum(0)
    everyone = int(totals.sum())
    expected = everyone**2 - int((totals**2).sum())  # ordered pairs of different labels among all votes
    if expected == 0:
        return None
    observed = float(((votes**2 - (paired**2).sum(1)) / (votes - 1)).sum())
    return 1 - (everyone - 1) * observed / expected


def pairwise_agreement(counts: Ints) -> float | None:
    """The chance that two people asked about the same item agree, averaged over items with two votes or more."""
    paired = _with_a_pair(counts)
    if len(paired) == 0:
        return None
    votes = paired.sum(1)
    return float(((paired * (paired - 1)).sum(1) / (votes * (votes - 1))).mean())


def _with_a_pair(counts: Ints) -> Ints:
    paired: Ints = counts[counts.sum(1) > 1]
    return paired
