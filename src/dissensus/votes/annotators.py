"""Each annotator beside the rest: how often they agree, what they confuse, and who is worth a second look.

Everything is counted with bincounts and sorted lists, never vote by vote in Python. Where somebody voted twice on an
item, the first vote counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dissensus import random
from dissensus.votes.votes import Floats, Ints, Votes

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
    cast = np.bincount(ballots.annotator, minlength=size)
    who = ballots.annotator[rest.judged]
    judged = np.bincount(who, minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        agreement, chance = (np.bincount(who, values[rest.judged], size) / judged for values in (rest.agree, rest.chance))
        excess = agreement - chance
        spread = np.bincount(who, ((rest.agree - rest.chance)[rest.judged] - excess[who]) ** 2, size) / (judged - 1)
        error = np.sqrt(spread / judged)
    enough = judged >= FEW_VOTES
    one_class = enough & (np.bincount(_distinct(ballots), minlength=size) == 1)
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
        item, label, annotator = votes.item, votes.label, votes.annotator
        _, first = np.unique(item * size + annotator, return_index=True)
        item, label, annotator = item[first], label[first], annotator[first]
        cell, times = np.unique(item * k + label, return_counts=True)
        starts = np.searchsorted(cell // k, np.arange(n + 1))
        return cls(item, label, annotator, n, k, size, starts, cell % k, times.astype(np.int64))

    @property
    def per_item(self) -> Ints:
        return np.bincount(self.item, minlength=self.items)

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
    size, k = ballots.annotators, ballots.classes
    said = np.bincount(ballots.annotator * k + ballots.label, minlength=size * k).reshape(size, k)
    habit = said / np.maximum(said.sum(1, keepdims=True), 1)  # how often each annotator gives each class
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
    divisor = np.maximum(others, 1)
    return _Rest(others > 0, agree / divisor, chance / divisor, np.where(others > 0, favourite, -1))


def _favourites(label: Ints, times: Ints, begins: Ints, group: Ints) -> Ints:
    """The label with the largest count of each group of cells; -1 where several have it."""
    most = np.maximum.reduceat(times, begins)[group] == times
    alone = np.add.reduceat(most, begins, dtype=np.int64) == 1
    return np.where(alone, np.add.reduceat(label * most, begins), -1)


def _distinct(ballots: _Ballots) -> Ints:
    """The annotator of each (annotator, class) pair that occurs."""
    pairs: Ints = np.unique(ballots.annotator * ballots.classes + ballots.label) // ballots.classes
    return pairs


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
    by_annotator = np.argsort(ballots.annotator, kind="stable")
    ends = np.cumsum(np.bincount(ballots.annotator, minlength=ballots.annotators))
    for first, second in _alike(ballots, enough):
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
    from scipy.sparse import csr_array

    per_item = ballots.per_item
    order = np.argsort(random.uniform(0, "subsample", "copies", rows=np.arange(ballots.items)), kind="stable")
    looked_at = np.zeros(ballots.items, dtype=bool)
    looked_at[order[np.cumsum(per_item[order] ** 2) <= MOST_PAIRS]] = True
    kept = looked_at[ballots.item] & enough[ballots.annotator] & (per_item[ballots.item] > 2)
    item, label, annotator = ballots.item[kept], ballots.label[kept], ballots.annotator[kept]
    if not len(item):
        return []

    def shared(row: Ints) -> csr_array:
        """[annotator, annotator]: how many rows both are in."""
        _, index = np.unique(row, return_inverse=True)
        shape = index.max() + 1, ballots.annotators
        matrix = csr_array((np.ones(len(index), dtype=np.int32), (index, annotator)), shape=shape)
        return (matrix.T @ matrix).tocoo()

    same = shared(item * ballots.classes + label)
    often = (same.row < same.col) & (same.data >= SAME * FEW_VOTES)
    pair, agreed = same.row[often].astype(np.int64) * ballots.annotators + same.col[often], same.data[often]
    together = shared(item)
    key = together.row.astype(np.int64) * ballots.annotators + together.col
    by_key = np.argsort(key)
    common = together.data[by_key[np.searchsorted(key, pair, sorter=by_key)]]
    alike = np.flatnonzero((common >= FEW_VOTES) & (agreed >= SAME * common))
    alike = alike[np.argsort(-agreed[alike], kind="stable")][:MOST_CANDIDATES]
    return [(int(index) // ballots.annotators, int(index) % ballots.annotators) for index in pair[alike]]
