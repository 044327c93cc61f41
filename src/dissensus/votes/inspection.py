"""What votes look like before anything is trained: sizes, agreement, ties, annotators. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissensus import random
from dissensus.votes.annotators import RULES, describe_annotators
from dissensus.votes.votes import Cells, Floats, Ints, Votes

BINS = 10
"""Of the histogram of entropies above 0."""

MOST_DISPUTED = 20
RESAMPLES = 1_000
CELLS_AT_ONCE = 1 << 18  # what is computed of them takes little memory, and stays in the cache
MOST_WEIGHTS = 2**23  # numbers in memory at once while resampling


def inspect_votes(votes: Votes) -> dict[str, Any]:
    """What `dissensus inspect` prints, as plain values: JSON can hold them.

    `krippendorff_alpha_interval` is the 95% interval of 1,000 bootstrap samples of the items. `disputed_items` are those
    with the highest entropy. `annotator_table` has a row per annotator (see `Annotator`), `suspicion_rules` say what its
    reasons mean.
    """
    cells, per_item = votes.cells, votes.votes_per_item
    entropies = _entropies(cells, per_item)
    edges = np.linspace(0, np.log(max(2, len(votes.classes))), BINS + 1)
    disputed = entropies[entropies > 0]
    people = describe_annotators(votes)
    starts = np.searchsorted(cells.item, np.arange(len(votes)))
    largest = np.maximum.reduceat(cells.times, starts)
    return {
        "items": len(votes.items),
        "votes": votes.n_votes,
        "annotators": None if votes.annotators is None else len(votes.annotators),
        "classes": {name: int(count) for name, count in zip(votes.classes, _class_totals(cells, votes), strict=True)},
        "votes_per_item": {"fewest": int(per_item.min()), "mean": float(per_item.mean()), "most": int(per_item.max())},
        "unanimous_items": int((largest == per_item).sum()),
        "tied_items": int((np.add.reduceat(cells.times == largest[cells.item], starts, dtype=np.int64) > 1).sum()),
        "mean_entropy": float(entropies.mean()),
        "krippendorff_alpha": alpha_of(cells, per_item),
        "krippendorff_alpha_interval": alpha_interval(votes),
        "entropy_histogram": {
            "zero": len(entropies) - len(disputed),
            "edges": [round(float(edge), 6) for edge in edges],
            "counts": np.histogram(disputed, edges)[0].tolist(),
        },
        "disputed_items": _disputed(votes, entropies),
        "annotator_table": None if people is None else [asdict(person) for person in people],
        "suspicion_rules": RULES,
    }


def _disputed(votes: Votes, entropies: Floats) -> list[dict[str, Any]]:
    """The items with the highest entropy, those with more votes first among equals; none that is unanimous."""
    cells, per_item = votes.cells, votes.votes_per_item
    order = np.lexsort((-per_item, -entropies.round(12)))[:MOST_DISPUTED]
    items = []
    for item in order[entropies[order] > 0].tolist():
        own = slice(*np.searchsorted(cells.item, [item, item + 1]))
        counts = {votes.classes[y]: n for y, n in zip(cells.label[own].tolist(), cells.times[own].tolist(), strict=True)}
        by_count = dict(sorted(counts.items(), key=lambda pair: -pair[1]))
        items.append(
            {
                "item": votes.items[item],
                "votes": int(per_item[item]),
                "entropy": float(entropies[item]),
                "counts": by_count,
            }
        )
    return items


def _class_totals(cells: Cells, votes: Votes) -> Floats:
    totals: NDArray[Any] = np.bincount(cells.label, weights=cells.times.astype(np.float64), minlength=len(votes.classes))
    return totals


def _entropies(cells: Cells, per_item: Ints) -> Floats:
    """Entropy of each item's votes in nats [N]."""
    shares = cells.times / per_item[cells.item]
    entropies: NDArray[Any] = np.bincount(cells.item, weights=-shares * np.log(shares), minlength=len(per_item))
    return entropies + 0.0  # a unanimous item has entropy 0, not -0


def krippendorff_alpha(counts: Ints) -> float | None:
    """Krippendorff's alpha for nominal labels, from counts [N, K]: 1 is perfect agreement, 0 what chance gives.

    Items with one vote are left out: they have no pair of votes. None where all remaining votes are for one class (chance
    agreement is then perfect too) or no item remains.

    >>> krippendorff_alpha(np.array([[2, 0], [0, 2], [1, 1]]))
    0.4444444444444444
    """
    item, label = np.nonzero(counts)
    return alpha_of(Cells(item, label, counts[item, label]), counts.sum(1))


def alpha_of(cells: Cells, per_item: Ints) -> float | None:
    """Krippendorff's alpha from the counts above 0 and the number of votes per item."""
    paired = per_item > 1
    votes, squares = per_item[paired], np.zeros(len(per_item))
    totals = np.zeros(int(cells.label.max(initial=-1)) + 1, dtype=np.int64)
    for start in range(0, len(cells.item), CELLS_AT_ONCE):
        item, label, count = (values[start : start + CELLS_AT_ONCE] for values in cells)
        first, count = int(item[0]), count * paired[item]
        totals += np.bincount(label, weights=count, minlength=len(totals)).astype(np.int64)
        here = np.bincount(item - first, weights=count**2)  # cells come by item
        squares[first : first + len(here)] += here
    squares = squares[paired]
    everyone = int(totals.sum())
    expected = everyone**2 - sum(int(total) ** 2 for total in totals)  # ordered pairs of different labels among all votes
    if expected == 0:
        return None
    observed = float(((votes**2 - squares) / (votes - 1)).sum())
    return 1 - (everyone - 1) * observed / expected


def alpha_interval(votes: Votes, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Percentile interval of alpha over bootstrap samples of the items with two votes or more; None where undefined.

    Items with the same counts are drawn together: that changes no probability, and 100,000 items are often a thousand
    kinds.
    """
    from scipy.sparse import csr_array

    kinds, size = _kinds(votes)
    if len(size) == 0 or int(size.sum()) < 2:
        return None
    k, drawn = len(votes.classes), int(size.sum())
    matrix = csr_array((kinds.times.astype(np.float64), (kinds.item, kinds.label)), shape=(len(size), k))
    per_item = matrix.sum(1)
    observed = (per_item**2 - matrix.power(2).sum(1)) / (per_item - 1)
    generator = random.numpy_generator(seed, "subsample", "alpha")
    alphas: list[Floats] = []
    at_once = max(1, MOST_WEIGHTS // max(k, drawn))
    for start in range(0, RESAMPLES, at_once):
        samples = min(at_once, RESAMPLES - start)
        if len(size) < drawn / 4:
            weights = generator.multinomial(drawn, size / drawn, samples).astype(np.float64)
        else:  # as many kinds as items: counting draws is faster
            kind = np.repeat(np.arange(len(size)), size)
            draws = kind[generator.integers(drawn, size=(samples, drawn))] + len(size) * np.arange(samples)[:, None]
            weights = np.bincount(draws.ravel(), minlength=samples * len(size)).reshape(samples, -1).astype(np.float64)
        totals = weights @ matrix
        everyone = totals.sum(1)
        expected = everyone**2 - (totals**2).sum(1)
        defined = expected > 0
        alphas.append(1 - (everyone - 1)[defined] * (weights @ observed)[defined] / expected[defined])
    together = np.concatenate(alphas)
    if not len(together):
        return None
    low, high = np.quantile(together, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _kinds(votes: Votes) -> tuple[Cells, Ints]:
    """The different rows of counts among the items with two votes or more, as cells, and how many items have each."""
    cells, paired = votes.cells, np.flatnonzero(votes.votes_per_item > 1)
    starts = np.searchsorted(cells.item, np.arange(len(votes) + 1))
    code = np.floor(random.uniform(0, "subsample", "kinds", rows=np.arange(len(votes.classes))) * 2.0**62).astype(
        np.uint64
    )
    with np.errstate(over="ignore"):  # a 64-bit hash of each row: two rows that differ have the same with chance 1e-19
        hashed = np.add.reduceat(code[cells.label] * cells.times.astype(np.uint64), starts[:-1])
    _, first, size = np.unique(hashed[paired], return_index=True, return_counts=True)
    lengths = np.diff(starts)[paired[first]]
    begins = np.cumsum(lengths) - lengths
    own = np.arange(lengths.sum()) + np.repeat(starts[paired[first]] - begins, lengths)
    return Cells(np.repeat(np.arange(len(first)), lengths), cells.label[own], cells.times[own]), size


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
