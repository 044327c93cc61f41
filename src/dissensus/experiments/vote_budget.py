"""From learning curves to advice: should the next votes go to items that have some, or to new items?

The formula, fitted by least squares:

    loss(n, k) = c + (a + b / k) · n^(−α),    a ≥ 0, b ≥ 0, 0.1 ≤ α ≤ 1.5

n items with k votes each. c is what no amount of labels improves for this model and these features; a is what too few
items cost; b / k is the noise of the votes, whose variance falls with their number. Both are averaged away by more items.
A score of which more is better is taken with its sign changed. Points with fewer items say less about what comes next and
weigh less: as n. The exponent is fitted to the mean of all repeats, c, a and b to each repeat on its own: their spread
says how sure the answer is.

Nothing is said beyond `FARTHEST` times the items or votes that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dissensus import stats
from dissensus.errors import InputError

FARTHEST = 2.0
EXPONENTS = tuple(np.linspace(0.1, 1.5, 57).tolist())
LEAST_POINTS = 5

Point = tuple[int, int]
"""(items, votes per item)"""

Curves = Mapping[str, Mapping[Point, float]]
"""repeat -> point -> score; every repeat has the same points"""


@dataclass(frozen=True)
class CurveFit:
    """The formula with its numbers; `sign` is −1 for a score of which more is better. `residual` is the rms misfit."""

    c: float
    a: float
    b: float
    alpha: float
    sign: int
    residual: float

    def at(self, items: float, votes: float) -> float:
        """The score there, in its own units and with its own sign."""
        return float(self.sign * (self.c + (self.a + self.b / votes) * items**-self.alpha))


def fit_curves(curves: Curves, sign: int = 1) -> tuple[CurveFit, ...]:
    """The formula for each repeat, with the exponent that is best for their mean."""
    points = list(next(iter(curves.values())))
    mean = {point: fmean(scores[point] for scores in curves.values()) for point in points}
    alpha = fit_curve(mean, sign).alpha
    return tuple(fit_curve(scores, sign, exponents=(alpha,)) for scores in curves.values())


def fit_curve(scores: Mapping[Point, float], sign: int = 1, exponents: Sequence[float] = EXPONENTS) -> CurveFit:
    """The formula that is closest to these scores. Both items and votes must vary."""
    points = np.array(list(scores), dtype=np.float64).reshape(-1, 2)
    if len(points) < LEAST_POINTS or any(len(set(points[:, side])) < 2 for side in (0, 1)):
        raise InputError(
            f"{len(points)} points of a learning curve are too few",
            where="learning curve",
            hint=f"Measure at least {LEAST_POINTS}, with two numbers of items and two of votes",
            state="",
        )
    items, votes = points.T
    losses = sign * np.array(list(scores.values()))
    weights = np.sqrt(items / items.max())
    fits = []
    for alpha in exponents:
        falling = items**-alpha
        columns = np.stack([np.ones_like(items), -np.ones_like(items), falling, falling / votes], 1)
        solution, misfit = nnls(columns * weights[:, None], losses * weights)
        fits.append((float(misfit), alpha, solution))
    misfit, alpha, (above, below, a, b) = min(fits, key=lambda fit: fit[0])
    residual = misfit / float(np.sqrt(weights.dot(weights)))
    return CurveFit(float(above - below), float(a), float(b), float(alpha), sign, residual)


@dataclass(frozen=True)
class Gains:
    """What a budget is expected to improve in each repeat, spent one way or the other; positive is better."""

    more_items: tuple[float, ...]
    more_votes: tuple[float, ...]
    fits: tuple[CurveFit, ...]


@dataclass(frozen=True)
class Spending:
    """What there is now, and what may be spent: `budget` votes on top of `items` items with `votes` each."""

    items: int
    votes: float
    budget: int

    def __post_init__(self) -> None:
        farthest = self.largest_budget
        if not 0 < self.budget <= farthest:
            raise InputError(
                f"{self.budget:,} votes on top of {self.items * self.votes:,.0f} are beyond what the curves can say",
                where="--budget",
                hint=f"Ask for at most {farthest:,} ({FARTHEST:g} times what there is), and again later",
            )

    @property
    def largest_budget(self) -> int:
        """The most that can be asked: it doubles either the items or their votes."""
        return int((FARTHEST - 1) * self.items * self.votes)

    @property
    def new_items(self) -> float:
        """How many new items the budget pays for, with as many votes each as the others have."""
        return self.budget / self.votes

    @property
    def extra_votes(self) -> float:
        """How many more votes each item gets instead."""
        return self.budget / self.items


def gains(curves: Curves, spending: Spending, sign: int = 1) -> Gains:
    """What the formula expects of a budget, in each repeat."""
    fits = fit_curves(curves, sign)

    def improvement(items: float, votes: float) -> tuple[float, ...]:
        return tuple(sign * (fit.at(spending.items, spending.votes) - fit.at(items, votes)) for fit in fits)

    return Gains(
        more_items=improvement(spending.items + spending.new_items, spending.votes),
        more_votes=improvement(spending.items, spending.votes + spending.extra_votes),
        fits=fits,
    )


def last_step(curves: Curves, sign: int = 1) -> tuple[float, float]:
    """A check of the formula: fitted without the most items, what it expects of the last step, and what was measured.

    The improvement from the second largest number of items to the largest, with the most votes; means over repeats.
    """
    points = list(next(iter(curves.values())))
    *_, before, largest = sorted({items for items, _ in points})
    votes = max(votes for _, votes in points)
    smaller = {
        repeat: {point: score for point, score in scores.items() if point[0] < largest}
        for repeat, scores in curves.items()
    }
    expected = [sign * (fit.at(before, votes) - fit.at(largest, votes)) for fit in fit_curves(smaller, sign)]
    measured = [sign * (scores[before, votes] - scores[largest, votes]) for scores in curves.values()]
    return fmean(expected), fmean(measured)


def compared(gained: Gains, test_to_train: float) -> dict[str, stats.TTest]:
    """Intervals over repeats, whose training items overlap: of each gain, and of more items minus more votes."""
    nothing = [0.0] * len(gained.fits)
    pairs: dict[str, tuple[Iterable[float], Iterable[float]]] = {
        "more_items": (gained.more_items, nothing),
        "more_votes": (gained.more_votes, nothing),
        "difference": (gained.more_items, gained.more_votes),
    }
    return {
        name: stats.corrected_t(list(first), list(second), test_to_train=test_to_train)
        for name, (first, second) in pairs.items()
    }


def grid_of(values: Iterable[int], most: int) -> list[int]:
    """Those below `most`, unless they are nearly as large, and `most` itself.

    >>> grid_of((1, 2, 5, 10, 20), 12)
    [1, 2, 5, 12]
    """
    return [value for value in values if value * 1.3 < most] + [most]


def next_vote_values(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """How much the next vote on each item is expected to tell, [N], and the strength of the prior, in votes.

    The share of each class among all people has, before anybody voted, a Dirichlet distribution around the mean opinion m
    with a strength s, which is fitted to the votes by maximum likelihood. After v votes, the posterior has mean p and
    variance (1 − Σ p²) / (v + s + 1), summed over classes; one more vote lowers it by (1 − Σ p²) / (v + s + 1)² on
    average.
    """
    votes = counts.sum(1)
    mean = (counts / votes[:, None]).mean(0)
    mean = (mean + 1e-6) / (mean + 1e-6).sum()
    strength = _strength(counts, mean)
    posterior = (counts + strength * mean) / (votes + strength)[:, None]
    values: NDArray[np.float64] = (1 - np.square(posterior).sum(1)) / (votes + strength + 1) ** 2
    return values, strength


def _strength(counts: NDArray[np.int64], mean: NDArray[np.float64]) -> float:
    """Of the Dirichlet–multinomial distribution, by golden section over its logarithm from 0.01 to 1,000 votes."""
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    votes = counts.sum(1)

    def loss(logarithm: float) -> float:
        strength = float(np.exp(logarithm))
        by_class = gammaln(counts + strength * mean) - gammaln(strength * mean)
        return -float((gammaln(strength) - gammaln(votes + strength)).sum() + by_class.sum())

    found = minimize_scalar(loss, bounds=(np.log(0.01), np.log(1000.0)), method="bounded")
    return float(np.exp(found.x))
