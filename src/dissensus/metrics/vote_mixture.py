"""What may lie behind votes: each item's true distribution is drawn from a mixture of Dirichlet distributions.

Every item has a main class, any class with equal chance, and its distribution is drawn from a Dirichlet with parameter
b for every class and a more for the main one. The pairs (a, b) form a fixed grid; the weights of the pairs are fitted to
the votes by expectation maximisation (nonparametric maximum likelihood: Kiefer & Wolfowitz 1956, Laird 1978).

A few votes per item leave the weights undecided, and they then stay near where the fit starts. So there are four starts:
- "simple": each pair has the weight it deserves if it had to explain all votes alone;
- "alike": the same, but items that resemble each other are preferred;
- "split": items are either beyond doubt or open between a few classes;
- "apart": items are either beyond doubt or open between all classes.
Where the four fits agree, the votes decide.

Neither the order of the items nor that of the classes matters: rows are sorted, then counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from dissensus.metrics.row_blocks import blocks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Start = Literal["simple", "alike", "split", "apart"]

DISSENT = (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)  # mean share of all classes but the main one
CONCENTRATION = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)  # sum of a Dirichlet's parameters
CERTAIN = 1e-9  # b of the last pair, whose items are beyond doubt
EVIDENCE = 20  # items that the start "simple" learns from: it has to leave room for the fit
LEAST = 1e-6  # the smallest weight at a start: a weight of 0 can never rise
ITERATIONS = 500
MOST_ITEMS = 4000  # of more items, this many are taken at equal distances from the sorted list


class CountsByRow(Protocol):
    """Counts [N, K], to be read in slices: an array, a tensor, or what makes one as it is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""

    def __getitem__(self, rows: slice, /) -> Any:
        """These rows."""


def sample(counts: CountsByRow) -> Ints:
    """Rows with their largest class first, sorted, without columns that are 0 in all; at most `MOST_ITEMS` of them."""
    parts = []
    for block in blocks(counts.shape):
        rows = np.sort(np.asarray(counts[block]), 1)[:, ::-1]
        used = int((rows > 0).sum(1).max())
        parts.append(rows[:, :used].astype(np.min_scalar_type(rows.max())))  # short numbers are sorted much faster
    rows = np.zeros((counts.shape[0], max(part.shape[1] for part in parts)), np.result_type(*parts))
    for block, part in zip(blocks(counts.shape), parts, strict=True):
        rows[block, : part.shape[1]] = part
    order = np.lexsort(rows.T)
    if len(rows) > MOST_ITEMS:
        order = order[(np.arange(MOST_ITEMS) * len(rows)) // MOST_ITEMS]
    return rows[order].astype(np.int64)


@dataclass(frozen=True, eq=False)
class VoteMixture:
    """The mixture for counts of votes [N, K], K > 1. U different rows of counts remain after sorting; G is the grid.

    `width` is K where columns without votes were left out of `counts`, as `sample` does.
    """

    counts: Ints
    width: int | None = None

    @cached_property
    def classes(self) -> int:
        """K."""
        return int(self.counts.shape[1]) if self.width is None else self.width

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints]:
        """Rows with the largest class first, without classes that no item has a vote for, and how often each occurs."""
        rows = sample(self.counts)
        return np.unique(rows[:, : (rows > 0).sum(1).max()], axis=0, return_counts=True)

    @property
    def rows(self) -> Ints:
        """The different rows of sorted counts [U, S]; at least one item has S classes with votes."""
        return self._distinct[0]

    @property
    def repeats(self) -> Ints:
        """How many items have each row [U]."""
        return self._distinct[1]

    @property
    def items(self) -> int:
        """How many items there are, at most `MOST_ITEMS`."""
        return int(self.repeats.sum())

    @cached_property
    def row_of_item(self) -> Ints:
        """The row of each item [items]."""
        return np.repeat(np.arange(len(self.rows)), self.repeats)

    @cached_property
    def votes(self) -> Ints:
        """Votes of each row [U]."""
        votes: Ints = self.rows.sum(1)
        return votes

    @cached_property
    def _grid(self) -> tuple[Floats, Floats, Floats]:
        """a, b and the sum of the parameters of each pair [G]; the last pair is that of items beyond doubt."""
        others = self.classes - 1
        even = others / self.classes  # the dissent of a Dirichlet without a main class
        dissents = [share for share in DISSENT if share < 0.95 * even]
        b = np.array([total * share / others for share in (*dissents, even) for total in CONCENTRATION])
        total = np.tile(CONCENTRATION, len(dissents) + 1)
        a = np.where(np.arange(len(b)) < len(dissents) * len(CONCENTRATION), total - self.classes * b, 0.0)
        return np.append(a, 1.0), np.append(b, CERTAIN), np.append(total, 1.0)

    @cached_property
    def _number(self) -> Floats:
        """The numbers of votes that a class can have [T, 1]: what the tables below are for."""
        return np.unique(self.rows).astype(np.float64)[:, None]

    @cached_property
    def _index(self) -> Ints:
        """The row of the tables that belongs to each count [U, S]."""
        return np.searchsorted(self._number[:, 0], self.rows)

    @cached_property
    def _main(self) -> tuple[Floats, Floats, Floats]:
        """How much likelier a class is to be the main one for the votes it has: the log [T, G], its largest value in
        each row of counts [U, G], and the sum over all classes relative to that [U, G]."""
        a, b, _ = self._grid
        log_odds = _rising(self._number, a + b) - _rising(self._number, b)
        largest = log_odds[self._index[:, 0]]
        odds = (self.classes - self.rows.shape[1]) * np.exp(-largest)  # classes without votes
        for index in self._index.T:
            odds += np.exp(log_odds[index] - largest)
        return log_odds, largest, odds

    @cached_property
    def _log_likelihood(self) -> Floats:
        """Of each row under each pair [U, G]."""
        _, b, total = self._grid
        _, largest, odds = self._main
        log = largest + np.log(odds) - _rising(self.votes[:, None], total)
        table = _rising(self._number, b)
        for index in self._index.T:
            log += table[index]
        return log

    @cached_property
    def _likelihood(self) -> Floats:
        """The same relative to each row's best pair."""
        likelihood: Floats = np.exp(self._log_likelihood - self._log_likelihood.max(1, keepdims=True))
        return likelihood

    def fit(self) -> dict[Start, Floats]:
        """The weights of the pairs [G] that each start leads to."""
        a, b, total = self._grid
        alone = self.repeats @ self._log_likelihood / self.items
        alone = np.exp(EVIDENCE * (alone - alone.max()))
        certain, flat = b == CERTAIN, a == 0
        starts: dict[Start, Floats] = {
            "simple": alone,
            "alike": alone * total**2,
            "split": certain + flat * (total == min(CONCENTRATION)),
            "apart": certain + flat * (total == max(CONCENTRATION)),
        }
        weights = np.stack([np.maximum(start / start.sum(), LEAST) for start in starts.values()], 1)
        weights[certain, list(starts).index("alike")] = 0
        weights /= weights.sum(0)
        share = self.repeats[:, None] / self.items
        for _ in range(ITERATIONS):
            weights *= self._likelihood.T @ (share / (self._likelihood @ weights))
        # Rounded, so that sums taken in another order cannot reach a draw.
        return {start: np.round(column, 8) for start, column in zip(starts, weights.T, strict=True)}

    def _chances(self, weights: Floats) -> Floats:
        """The chance of each pair for each row, given its votes [U, G]."""
        joint = self._likelihood * weights
        chances: Floats = joint / joint.sum(1, keepdims=True)
        return chances

    def soft_nll(self, weights: Floats) -> float:
        """The mean over items of E[−Σ p̂ log p]: p̂ the shares of the votes, p the true distribution given the votes."""
        a, b, total = self._grid
        log_odds, largest, odds = self._main
        log_other, log_main = digamma(self._number + b), digamma(self._number + a + b)
        expected = digamma(self.votes[:, None] + total)
        for count, index in zip(self.rows.T, self._index.T, strict=True):
            is_main = np.exp(log_odds[index] - largest) / odds
            expected -= (count / self.votes)[:, None] * (log_other[index] + is_main * (log_main - log_other)[index])
        return float(self.repeats @ (self._chances(weights) * expected).sum(1) / self.items)

    def draw(self, weights: Floats, generator: np.random.Generator) -> Floats:
        """One true distribution per item given its votes [items, K]."""
        a, b, _ = self._grid
        row, every = self.row_of_item, np.arange(self.items)
        pair = _choose(self._chances(weights)[row], generator)
        log_odds, largest, _ = self._main
        seen = self.rows.shape[1]
        votes = np.zeros((self.items, self.classes))
        votes[:, :seen] = self.rows[row]
        odds = np.repeat(np.exp(-largest[row, pair])[:, None], self.classes, 1)
        odds[:, :seen] = np.exp(log_odds[self._index[row], pair[:, None]] - largest[row, pair][:, None])
        main = _choose(odds, generator)
        parameters = votes + b[pair][:, None]
        parameters[every, main] += a[pair]
        gammas = generator.standard_gamma(parameters)
        gammas[every, main] += np.finfo(np.float64).tiny  # all of them may underflow
        drawn: Floats = gammas / gammas.sum(1, keepdims=True)
        return drawn


def _rising(number: Floats | Ints, start: Floats) -> Floats:
    """log of start (start + 1) … (start + number − 1)."""
    log: Floats = gammaln(number + start) - gammaln(start)
    return log


def _choose(odds: Floats, generator: np.random.Generator) -> Ints:
    """One column per row [N], with these odds."""
    reached = odds.cumsum(1)
    point = generator.random(len(odds)) * reached[:, -1]
    column: Ints = np.minimum((reached <= point[:, None]).sum(1), odds.shape[1] - 1)
    return column
