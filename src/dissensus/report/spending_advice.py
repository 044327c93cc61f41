"""What the next votes should be spent on, from measured learning curves, and the picture that shows it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dissensus import stats
from dissensus.experiments.description import Experiment, ValueTable, VoteBudget
from dissensus.experiments.vote_budget import (
    FARTHEST,
    LEAST_POINTS,
    CurveFit,
    Curves,
    Point,
    Spending,
    compared,
    gains,
    last_step,
)
from dissensus.report.charts import Axis, Figure, Line, Panel, plot
from dissensus.report.comparison import LEVEL
from dissensus.report.sections import Section
from dissensus.report.svg import Style
from dissensus.report.wording import counted, direction, fixed, signed, significant, title, unit
from dissensus.store.spec import Json

MORE_ITEMS, MORE_VOTES = "more items", "more votes per item"


@dataclass(frozen=True)
class MetricOutlook:
    """What the budget would improve in one metric, spent one way or the other: means and intervals over repeats."""

    metric: str
    more_items: stats.TTest
    more_votes: stats.TTest
    difference: stats.TTest
    fits: tuple[CurveFit, ...]

    @property
    def better(self) -> str:
        """The way that is shown to be better; empty where none is."""
        low, high = self.difference.low, self.difference.high
        return MORE_ITEMS if low is not None and low > 0 else MORE_VOTES if high is not None and high < 0 else ""

    @property
    def helps(self) -> bool:
        """Whether any way is shown to improve the metric at all."""
        return any(test.low is not None and test.low > 0 for test in (self.more_items, self.more_votes))

    @property
    def words(self) -> str:
        """Both gains with their intervals."""
        units = f" {unit(self.metric)}" if unit(self.metric) else ""
        return f"new items {_gain(self.more_items)}{units}, more votes per item {_gain(self.more_votes)}{units}"

    def to_json(self) -> Json:
        """Gains are positive where the metric gets better."""
        parts = {"more_items": self.more_items, "more_votes": self.more_votes, "difference": self.difference}
        return {
            "better": self.better or None,
            **{name: {"mean": test.mean_difference, "interval": [test.low, test.high]} for name, test in parts.items()},
            "fits": [
                {"c": fit.c, "a": fit.a, "b": fit.b, "alpha": fit.alpha, "residual": fit.residual} for fit in self.fits
            ],
        }


@dataclass(frozen=True)
class SpendingAdvice:
    """The advice in one sentence, the sentences that keep it honest, and the picture."""

    headline: str
    reasons: tuple[str, ...]
    outlooks: Mapping[str, MetricOutlook]
    picture: Figure
    command: str = ""

    def to_json(self) -> Json:
        """For `recommendation.json`."""
        return {
            "headline": self.headline,
            "reasons": list(self.reasons),
            "metrics": {metric: outlook.to_json() for metric, outlook in self.outlooks.items()},
        }


def advise(
    experiment: Experiment[str], sections: Sequence[Section], styles: Mapping[str, Style]
) -> SpendingAdvice | None:
    """None where too few points are finished."""
    budget = experiment.budget
    section = next((section for section in sections if budget and section.exhibit.key == budget.table), None)
    if budget is None or section is None or not isinstance(section.exhibit, ValueTable):
        return None
    spending = Spending(budget.items, budget.votes, budget.budget)
    curves = {value.name: complete(_curves(section, value.name)) for value in section.exhibit.columns.values()}
    known = {metric: of_metric for metric, of_metric in curves.items() if len(of_metric) > 1}
    if not known:
        return None
    outlooks = {metric: outlook(metric, of_metric, spending, budget.test_to_train) for metric, of_metric in known.items()}
    primary = next(iter(outlooks.values()))
    reasons = (
        *_gain_sentences(outlooks, spending),
        *_check(primary.metric, known[primary.metric]),
        _formula(primary),
    )
    return SpendingAdvice(
        _headline(primary, spending), reasons, outlooks, _picture(known, outlooks, spending, budget, styles)
    )


def outlook(metric: str, curves: Curves, spending: Spending, test_to_train: float) -> MetricOutlook:
    """What these curves say about spending a budget."""
    gained = gains(curves, spending, _sign(metric))
    tests = compared(gained, test_to_train)
    return MetricOutlook(metric, tests["more_items"], tests["more_votes"], tests["difference"], gained.fits)


def _curves(section: Section, metric: str) -> dict[str, dict[Point, float]]:
    curves: dict[str, dict[Point, float]] = {}
    for run in section.runs:
        settings, score = run.spec.settings, run.scores.get(metric)
        if score is not None:
            curves.setdefault(str(settings["seed"]), {})[settings["items"], settings["votes"]] = float(score)
    return curves


def complete(curves: Curves) -> Curves:
    """The repeats that have every point: others would be fitted to something else."""
    most = max(map(len, curves.values()), default=0)
    return {repeat: curves[repeat] for repeat in sorted(curves, key=int) if len(curves[repeat]) == most}


def _sign(metric: str) -> int:
    return -1 if direction(metric) == "higher" else 1


def _gain(test: stats.TTest) -> str:
    """`+0.0041 (+0.0012 to +0.0070)`."""
    if test.low is None or test.high is None:
        return signed(test.mean_difference)
    return f"{signed(test.mean_difference)} ({signed(test.low)} to {signed(test.high)})"


def _headline(primary: MetricOutlook, spending: Spending) -> str:
    votes = f"the next {counted(spending.budget, 'vote')}"
    metric = title(primary.metric)
    if not primary.helps:
        return f"More labels are not shown to help: neither way of spending {votes} is expected to improve {metric}."
    if primary.better == MORE_ITEMS:
        return f"Spend {votes} on new items: they are expected to improve {metric} more than further votes on these."
    if primary.better == MORE_VOTES:
        return f"Spend {votes} on the items you have: they are expected to improve {metric} more than new items."
    return f"Spend {votes} either way: no difference in {metric} is shown between new items and more votes on these."


def _gain_sentences(outlooks: Mapping[str, MetricOutlook], spending: Spending) -> Iterator[str]:
    yield (
        f"{spending.budget:,} votes are {significant(spending.new_items, 3)} new items with "
        f"{significant(spending.votes, 3)} votes each, or {significant(spending.extra_votes)} more votes for "
        f"each of your {spending.items:,} items."
    )
    for metric, expected in outlooks.items():
        verdict = f"{expected.better} are better" if expected.better else "no difference is shown"
        yield f"Expected improvement of {title(metric)} ({LEVEL:.0%} intervals): {expected.words}; {verdict}."


def _check(metric: str, curves: Curves) -> Iterator[str]:
    """What the formula, fitted without the largest number of items, expected of it."""
    points = list(next(iter(curves.values())))
    *_, before, largest = sorted({items for items, _ in points})
    smaller = [point for point in points if point[0] < largest]
    if len({items for items, _ in smaller}) < 2 or len(smaller) < LEAST_POINTS:
        return
    expected, measured = last_step(curves, _sign(metric))
    sentence = (
        f"Check: fitted without the largest number of items, the formula expected an improvement of {signed(expected)} "
        f"from {before:,} to {largest:,} items; measured {signed(measured)}."
    )
    if abs(expected - measured) > abs(measured) / 2:
        sentence += " It is off by more than half of that, so read the sizes of the gains as rough."
    yield sentence


def _formula(primary: MetricOutlook) -> str:
    fits = primary.fits
    c, a, b, alpha = (fmean(getattr(fit, name) for fit in fits) for name in ("c", "a", "b", "alpha"))
    return (
        f"The formula, fitted in {len(fits)} repeats: {title(primary.metric)} = c + (a + b / votes) · items^(−α), on "
        f"average c = {fixed(c)}, a = {significant(a, 3)}, b = {significant(b, 3)}, α = {fixed(alpha, 2)}. "
        f"Nothing is said beyond {FARTHEST:g} times the items or votes that you have."
    )


def _picture(
    curves: Mapping[str, Curves],
    outlooks: Mapping[str, MetricOutlook],
    spending: Spending,
    budget: VoteBudget,
    styles: Mapping[str, Style],
) -> Figure:
    """Scores over all votes that were spent, one line per number of votes per item, and where the budget leads."""
    caption = (
        "Across: all votes that training saw, items times votes per item. Each line has as many votes per item as its "
        "name says; where one line is better than another at the same place, its way of spending the same votes is "
        f"better. Thin: what the formula expects of your {spending.items:,} items, and of {budget.budget:,} votes on "
        "top of them."
    )
    panels = tuple(_panel(metric, of_metric, outlooks[metric], spending, styles) for metric, of_metric in curves.items())
    return Figure("picture", "What votes have bought, and would buy", caption, panels)


def _panel(
    metric: str, curves: Curves, expected: MetricOutlook, spending: Spending, styles: Mapping[str, Style]
) -> Panel:
    points = sorted({point for scores in curves.values() for point in scores})
    means = {point: fmean(scores[point] for scores in curves.values()) for point in points}
    lines = [
        Line(
            label,
            styles[label],
            [(math.log10(items * votes), means[items, votes], 0.0) for items, votes in points if votes == count],
        )
        for count, label in zip(sorted({votes for _, votes in points}), styles, strict=False)
    ]
    now = spending.items * spending.votes
    ends = {
        MORE_ITEMS: (spending.items + spending.new_items, spending.votes),
        MORE_VOTES: (spending.items, spending.votes + spending.extra_votes),
    }

    def mean_at(items: float, votes: float) -> float:
        return fmean(fit.at(items, votes) for fit in expected.fits)

    start = math.log10(now), mean_at(spending.items, spending.votes), 0.0
    lines += [
        Line(
            f"expected: {way}",
            Style(len(styles) + index),
            [start, (math.log10(now + spending.budget), mean_at(*end), 0.0)],
            thin=True,
        )
        for index, (way, end) in enumerate(ends.items())
    ]
    powers = range(math.floor(min(at for line in lines for at, *_ in line.path)), 1 + math.ceil(start[0]))
    ticks = [math.log10(factor) + power for power in powers for factor in (1, 3)]
    low, high = min(at for line in lines for at, *_ in line.path), math.log10(now + spending.budget)
    ticks = [tick for tick in ticks if low <= tick <= high]
    labels = [f"{round(10**tick, 1 - math.floor(tick)):,.0f}" for tick in ticks]
    bounds = low - 0.03 * (high - low), high + 0.03 * (high - low)
    return plot(title(metric), lines, x=Axis("votes in all", bounds, ticks, labels), y=Axis())
