"""Each annotator beside the rest: how often they agree, what they confuse, and who is worth a second look.

Everything is counted with bincounts and sorted lists, never vote by vote in Python. Where somebody voted twice on an
item, the first vote counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dissensus import random
from dissensus.votes.votes import Cells, Floats, Ints, Votes

FEW_VOTES = 10
RARE = 0.001
CERTAIN = 2.0  # standard errors
SAME = 0.9
MOST_TABLE = 2**24  # annotators × classes: 128 MiB of shares
VOTES_AT_ONCE = 1 << 16  # what is computed of them stays in the processor's cache
MOST_PAIRS = 20_000_000  # of votes on the same item, looked at for copies
MOST_CANDIDATES = 1_000

RULES = {
    "too few": f"fewer than {FEW_VOTES} votes on items that others voted on too; no other rule is applied",
    "one class": (
        f"all votes are for one class, and somebody like the others would do that with a chance below {RARE:g}: "
        "the share of others who chose it, to the power of the number of votes"
    ),
    "near chance": (
        "agreement with the others is not above what the same labels on shuffled items would have: the difference is "
        f"below {CERTAIN:g} standard errors and below half of the median annotator's, or below a tenth of it"
    ),
    "copy": (
        f"on at least {FEW_VOTES} items where one of two annotators differs from what most others said, both gave the "
        f"same label at least {SAME:.0%} of the time"
    ),
}
"""Why an annotator is listed as suspicious. It is a reason to look, not a verdict."""


@dataclass(frozen=True)
class Annotator:
    """One person's votes beside those of the others on the same items.

    `agreement` is the mean share of the others who gave the same label, `chance` what the same labels would get on
    shuffled items; both are over the `judged` votes, those on items that others voted on. `confusion` says how often they
    gave a class (inner key) where another was the only most frequent one among the others (outer key).
    """

    name: str
    votes: int
    judged: int
    agreement: float | None
    chance: float | None
    confusion: dict[str, dict[str, int]]
    suspicious: tuple[str, ...] = ()
    copies: tuple[str, ...] = field(default=())


def describe_annotators(votes: Votes) -> list[Annotator] | None:
    """Everybody with a vote, in the order of `votes.annotators`; None where it is not known who voted.

    None also where annotators × classes is too large a table: the label column then holds no classes.
    """
    if votes.annotators is None or len(votes.annotators) * len(votes.classes) > MOST_TABLE:
        return None
    ballots = _Ballots.of(votes)
    rest = _compare_with_the_rest(ballots)
    size = len(votes.annotators)
    cast = ballots.given.sum(1)
    who = ballots.annotator[rest.judged]
    judged = np.bincount(who, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement, chance = (np.bincount(who, values[rest.judged], size) / judged for values in (rest.agree, rest.chance))
        excess = agreement - chance
        spread = np.bincount(who, ((rest.agree - rest.chance)[rest.judged] - excess[who]) ** 2, size) / (judged - 1)
        error = np.sqrt(spread / judged)
    enough = judged >= FEW_VOTES
    one_class = enough & ((ballots.given > 0).sum(1) == 1)
    with np.errstate(under="ignore"):
        one_class &= np.where(enough, agreement, 1.0) ** judged < RARE
    usual = float(np.median(excess[enough])) if enough.any() else 0.0
    near_chance = ((excess < CERTAIN * error) & (excess < usual / 2)) | (excess < usual / 10)
    near_chance &= enough & ~one_class
    copies = _copies(ballots, enough)
    confusions = _confusions(ballots, rest, votes.classes)
    people = []
    for index in np.flatnonzero(cast):
        flags = {
            "too few": not enough[index],
            "one class": one_class[index],
            "near chance": near_chance[index],
            "copy": index in copies,
        }
        people.append(
            Annotator(
                name=votes.annotators[index],
                votes=int(cast[index]),
                judged=int(judged[index]),
                agreement=float(agreement[index]) if judged[index] else None,
                chance=float(chance[index]) if judged[index] else None,
                confusion=confusions.get(int(index), {}),
                suspicious=tuple(reason for reason, holds in flags.items() if holds),
                copies=tuple(votes.annotators[other] for other in copies.get(int(index), ())),
            )
        )
    return people


@dataclass(frozen=True, eq=False)
class _Ballots:
    """One row per (item, annotator), and how many chose each class of each item, by item."""

    item: Ints
    label: Ints
    annotator: Ints
    items: int
    classes: int
    annotators: int
    cell_start: Ints  # [N + 1]: where the cells of an item begin
    cell_label: Ints
    cell_times: Ints

    @classmethod
    def of(cls, votes: Votes) -> _Ballots:
        assert votes.annotator is not None and votes.annotators is not None
        n, k, size = len(votes.items), len(votes.classes), len(votes.annotators)
        key = (votes.item * size + votes.annotator) * k + votes.label
        key.sort()
        pair = key // k
        cells = votes.cells
        if (pair[1:] == pair[:-1]).any():
            _, first = np.unique(votes.item * size + votes.annotator, return_index=True)
            item, annotator, label = votes.item[first], votes.annotator[first], votes.label[first]
            cell, times = np.unique(item * k + label, return_counts=True)
            cells = Cells(cell // k, cell % k, times.astype(np.int64))
        else:
            item, annotator, label = pair // size, pair % size, key - pair * k
        starts = np.searchsorted(cells.item, np.arange(n + 1))
        return cls(item, label, annotator, n, k, size, starts, cells.label, cells.times)

    @cached_property
    def per_item(self) -> Ints:
        """[N]: how many voted on each item."""
        return np.bincount(self.item, minlength=self.items)

    @cached_property
    def given(self) -> Ints:
        """[annotators, K]: how often each annotator gave each class."""
        table = np.bincount(self.annotator * self.classes + self.label, minlength=self.annotators * self.classes)
        return table.reshape(self.annotators, self.classes)

    def cells_of(self, items: Ints) -> tuple[Ints, Ints]:
        """The cells of these items one after another, and where those of each item begin."""
        sizes = self.cell_start[items + 1] - self.cell_start[items]
        begins = np.cumsum(sizes) - sizes
        return np.arange(sizes.sum()) + np.repeat(self.cell_start[items] - begins, sizes), begins


@dataclass(frozen=True, eq=False)
class _Rest:
    """Of each ballot: whether others voted on the item, the share of them who gave its label, what chance would give.

    `favourite` is the one class that most of the others chose, -1 where there is none or there are several.
    """

    judged: NDArray[np.bool_]
    agree: Floats
    chance: Floats
    favourite: Ints


def _compare_with_the_rest(ballots: _Ballots) -> _Rest:
    habit = ballots.given / np.maximum(ballots.given.sum(1, keepdims=True), 1)
    others = ballots.per_item[ballots.item] - 1
    agree, chance = np.zeros(len(others)), np.zeros(len(others))
    favourite = np.full(len(others), -1)
    for start in range(0, len(others), VOTES_AT_ONCE):
        part = slice(start, start + VOTES_AT_ONCE)
        cell, begins = ballots.cells_of(ballots.item[part])
        ballot = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(cell))))
        label = ballots.cell_label[cell]
        own = label == ballots.label[part][ballot]
        times = ballots.cell_times[cell] - own  # without the ballot itself
        agree[part] = np.add.reduceat(times * own, begins)
        chance[part] = np.add.reduceat(times * habit[ballots.annotator[part][ballot], label], begins)
        favourite[part] = _favourites(label, times, begins, ballot)
    judged = others > 0
    for values in (agree, chance):
        np.divide(values, others, out=values, where=judged)
    favourite[~judged] = -1
    return _Rest(judged, agree, chance, favourite)


def _favourites(label: Ints, times: Ints, begins: Ints, group: Ints) -> Ints:
    """The label with the largest count of each group of cells; -1 where several have it."""
    most = np.maximum.reduceat(times, begins)[group] == times
    alone = np.add.reduceat(most, begins, dtype=np.int64) == 1
    return np.where(alone, np.add.reduceat(label * most, begins), -1)


def _confusions(ballots: _Ballots, rest: _Rest, classes: tuple[str, ...]) -> dict[int, dict[str, dict[str, int]]]:
    known, k = rest.favourite >= 0, ballots.classes
    cell = (ballots.annotator[known] * k + rest.favourite[known]) * k + ballots.label[known]
    confusions: dict[int, dict[str, dict[str, int]]] = {}
    for index, times in zip(*(values.tolist() for values in np.unique(cell, return_counts=True)), strict=True):
        who, others, own = index // (k * k), index // k % k, index % k
        confusions.setdefault(who, {}).setdefault(classes[others], {})[classes[own]] = times
    return confusions


def _copies(ballots: _Ballots, enough: NDArray[np.bool_]) -> dict[int, list[int]]:
    """Annotator -> those who seem to have the same votes. See RULES["copy"]."""
    copies: dict[int, list[int]] = {}
    if not (candidates := _alike(ballots, enough)):
        return copies
    by_annotator = np.argsort(ballots.annotator, kind="stable")
    ends = np.cumsum(ballots.given.sum(1))
    for first, second in candidates:
        rows = [by_annotator[(ends[who - 1] if who else 0) : ends[who]] for who in (first, second)]
        common, left, right = np.intersect1d(
            ballots.item[rows[0]], ballots.item[rows[1]], assume_unique=True, return_indices=True
        )
        labels = ballots.label[rows[0][left]], ballots.label[rows[1][right]]
        cell, begins = ballots.cells_of(common)
        group = np.repeat(np.arange(len(common)), np.diff(np.append(begins, len(cell))))
        label = ballots.cell_label[cell]
        times = ballots.cell_times[cell] - (label == labels[0][group]) - (label == labels[1][group])
        favourite = _favourites(label, times, begins, group)
        favourite[np.add.reduceat(times, begins) == 0] = -1  # nobody else voted
        differ = (favourite >= 0) & ((labels[0] != favourite) | (labels[1] != favourite))
        same = labels[0][differ] == labels[1][differ]
        if len(same) >= FEW_VOTES and same.mean() >= SAME:
            copies.setdefault(first, []).append(second)
            copies.setdefault(second, []).append(first)
    return copies


def _alike(ballots: _Ballots, enough: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Pairs of annotators who mostly gave the same label on the items they share: the candidates for copies.

    Where items have many votes, a random part of the items is looked at.
    """
    per_item, size = ballots.per_item, ballots.annotators
    order = np.argsort(random.uniform(0, "subsample", "copies", rows=np.arange(ballots.items)), kind="stable")
    looked_at = np.zeros(ballots.items, dtype=bool)
    looked_at[order[np.cumsum(per_item[order] ** 2) <= MOST_PAIRS]] = True
    kept = looked_at[ballots.item] & enough[ballots.annotator] & (per_item[ballots.item] > 2)
    item, label, annotator = ballots.item[kept], ballots.label[kept], ballots.annotator[kept]
    own = np.bincount(item)
    met = np.empty(int((own * (own - 1) // 2).sum()), dtype=np.int64)  # odd where both gave the same label
    filled = 0
    for first, second in _pairs_of_ballots(item):
        pair = annotator[first] * size + annotator[second]
        met[filled : filled + len(pair)] = pair * 2 + (label[first] == label[second])
        filled += len(pair)
    if not filled:
        return []
    met.sort()
    begins = np.flatnonzero(np.diff(met >> 1, prepend=-1))
    together = np.diff(begins, append=len(met))
    agreed = np.add.reduceat(met & 1, begins)
    alike = np.flatnonzero((together >= FEW_VOTES) & (agreed >= SAME * together))
    alike = alike[np.argsort(-agreed[alike], kind="stable")][:MOST_CANDIDATES]
    return [divmod(int(pair), size) for pair in met[begins[alike]] >> 1]


def _pairs_of_ballots(item: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The positions of every two ballots on the same item, the earlier one first; `item` is sorted."""
    cuts = np.unique([0, *np.searchsorted(item, item[VOTES_AT_ONCE::VOTES_AT_ONCE]), len(item)])
    for start, end in pairwise(cuts.tolist()):
        first = np.arange(start, end)
        for distance in range(1, end - start):
            first = first[first + distance < end]
            first = first[item[first] == item[first + distance]]
            if not len(first):
                break
            yield first, first + distance
