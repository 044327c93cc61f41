"""Claims: whether what a paper found holds in these runs, in a word and with the numbers that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Literal

from dissensus import stats
from dissensus.experiment import Claim, Manifest
from dissensus.ledger import Ledger
from dissensus.report.exhibits import numbers_of, spoken
from dissensus.report.tables import LEVEL, paired_test
from dissensus.report.wording import counted, p_value, signed, title
from dissensus.runs import Run

Word = Literal["holds", "does not hold", "not shown", "measured", "not finished"]


@dataclass(frozen=True)
class Judged:
    """A claim, the word for it, and why."""

    claim: Claim
    word: Word
    why: str


@dataclass(frozen=True)
class _Group:
    name: str
    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def said(self) -> str:
        return f"{self.name} {spoken(self.values)}"


def judged(manifest: Manifest, ledger: Ledger) -> tuple[Judged, ...]:
    """Every claim of the manifest; one whose runs are not all finished is judged by the pairs that are."""
    return tuple(_judged(claim, ledger) for claim in manifest.claims)


def _judged(claim: Claim, ledger: Ledger) -> Judged:
    runs = {name: [ledger.read(run) if run in ledger else None for run in ids] for name, ids in claim.groups.items()}
    if claim.test == "remaining":
        return _remaining(claim, runs)
    (path,) = claim.values
    numbers = {name: numbers_of(of_group, path) for name, of_group in runs.items()}
    places = list(range(min(map(len, numbers.values()))))
    if claim.test not in ("above", "below"):  # in pairs: only the places that every group has
        places = [place for place in places if all(of[place] is not None for of in numbers.values())]
    groups = []
    for name, values in numbers.items():
        kept = [(runs[name][place], values[place]) for place in places if values[place] is not None]
        groups.append(_Group(name, tuple(r for r, _ in kept if r), tuple(v for _, v in kept if v is not None)))
    if any(not group.values for group in groups):
        return Judged(claim, "not finished", "The runs that would decide it are not all in the ledger.")
    if claim.test in ("above", "below"):
        return _beyond(claim, groups)
    return {"lower": _lower, "not_higher": _not_higher, "alike": _alike, "rising": _rising}[claim.test](claim, groups)


def _difference(first: _Group, second: _Group) -> stats.TTest:
    return paired_test(first.values, second.values, first.runs)


def _between(first: _Group, second: _Group) -> str:
    test = _difference(first, second)
    mean = fmean(first.values) - fmean(second.values)
    if test.low is None or test.high is None:
        return f"{first.said}, {second.said}: {signed(mean)}, and with {counted(len(first.values), 'pair')} no test"
    return (
        f"{first.said}, {second.said}: {signed(mean)} ({LEVEL:.0%} interval {signed(test.low)} to {signed(test.high)}, "
        f"{p_value(test.p)}, {counted(len(first.values), 'pair')}; exact Wilcoxon "
        f"{p_value(stats.wilcoxon(first.values, second.values).p)})"
    )


def _reach(pairs: int) -> str:
    """What so many pairs could have shown by ranks alone."""
    reach = stats.power(pairs)
    if reach.can_be_significant:
        return ""
    return f" By ranks alone {counted(pairs, 'pair')} could not reach 5%: it would take {reach.seeds_needed}."


def _lower(claim: Claim, groups: Sequence[_Group]) -> Judged:
    first, second = groups
    test = _difference(first, second)
    word: Word = "not shown"
    if test.low is not None and test.high is not None:
        word = "holds" if test.high < 0 else "does not hold" if test.low > 0 else "not shown"
    return Judged(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}")


def _not_higher(claim: Claim, groups: Sequence[_Group]) -> Judged:
    first, second = groups
    test = _difference(first, second)
    word: Word = "not shown" if test.low is None else "does not hold" if test.low > 0 else "holds"
    return Judged(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}")


def _alike(claim: Claim, groups: Sequence[_Group]) -> Judged:
    first, *others = groups
    tests = [_difference(other, first) for other in others]
    word: Word = "not shown"
    if all(test.low is not None and test.high is not None for test in tests):
        word = "holds" if all((t.low or 0.0) <= 0 <= (t.high or 0.0) for t in tests) else "does not hold"
    why = "; ".join(_between(other, first) for other in others)
    caution = " That 0 lies in an interval does not mean that there is no difference." if word == "holds" else ""
    return Judged(claim, word, f"{why}.{caution}")


def _beyond(claim: Claim, groups: Sequence[_Group]) -> Judged:
    assert claim.threshold is not None
    sign = 1 if claim.test == "above" else -1
    holds = all(sign * (fmean(group.values) - claim.threshold) > 0 for group in groups)
    every = [value for group in groups for value in group.values]
    agree = sum(sign * (value - claim.threshold) > 0 for value in every)
    said = "; ".join(group.said for group in groups)
    side = f"{claim.test} {claim.threshold:g}"
    return Judged(claim, "holds" if holds else "does not hold", f"{said}; {agree} of {len(every)} runs are {side}.")


def _rising(claim: Claim, groups: Sequence[_Group]) -> Judged:
    means = [fmean(group.values) for group in groups]
    rises = all(a <= b for a, b in pairwise(means))
    order = ", ".join(group.said for group in groups)
    each = sum(all(a <= b for a, b in pairwise(of_seed)) for of_seed in zip(*(g.values for g in groups), strict=True))
    seeds = counted(len(groups[0].values), "seed")
    word: Word = "holds" if rises else "does not hold"
    return Judged(claim, word, f"{order}; in that order in {each} of {seeds}, each taken alone.")


def _remaining(claim: Claim, runs: dict[str, list[Run | None]]) -> Judged:
    before, after = claim.values
    (name, first), (other, second) = runs.items()
    gaps = {}
    for path in (before, after):
        pairs = zip(numbers_of(first, path), numbers_of(second, path), strict=False)
        gaps[path] = [a - b for a, b in pairs if a is not None and b is not None]
    if not gaps[before] or not gaps[after]:
        return Judged(claim, "not finished", "The runs that would decide it are not all in the ledger.")
    shown = stats.paired_t(gaps[before], [0.0] * len(gaps[before]))
    if shown.low is None or shown.high is None or shown.low <= 0 <= shown.high:
        return Judged(claim, "not shown", f"{name} minus {other}: {spoken(gaps[before])}, which is no gap to speak of.")
    share = fmean(gaps[after]) / fmean(gaps[before])
    metric = title(before.rsplit(".", 1)[-1])
    return Judged(
        claim,
        "measured",
        f"{name} minus {other} in {metric}: {spoken(gaps[before])} before, {spoken(gaps[after])} after: {share:.0%} of "
        f"the gap remains ({counted(len(gaps[before]), 'pair')}).",
    )
