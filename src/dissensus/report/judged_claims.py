"""Claims: whether what a paper found holds in these runs, in a word and with the numbers that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Literal

from dissensus import stats
from dissensus.experiments.description import Claim, Manifest
from dissensus.report.behind import trained
from dissensus.report.comparisons import LEVEL, paired_test
from dissensus.report.exhibits import numbers_of, spoken
from dissensus.report.wording import counted, fixed, listed, p_value, signed, significant, title
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run

Word = Literal["holds", "does not hold", "not shown", "measured", "not told", "not finished"]

HOW_TO_READ = (
    f"A claim holds, or does not, where the {LEVEL:.0%} interval of a difference in pairs of equal seed, or of a mean "
    "against a threshold, lies on one side; each claim is judged alone, without a correction for their number. Not "
    "shown: the interval reaches to both sides. Two ask for less. At least as good: the mean is no worse, and the "
    "interval does not say otherwise. Cannot be told apart: 0 is in every interval, and no two differ in one direction "
    "in every pair."
)


@dataclass(frozen=True)
class Judged:
    """A claim, the word for it, and why."""

    claim: Claim
    word: Word
    why: str


@dataclass(frozen=True)
class _Group:
    """`runs` are the training runs that the values are of."""

    name: str
    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def said(self) -> str:
        return f"{self.name} {spoken(self.values)}"


def judged(manifest: Manifest, ledger: RunSource) -> tuple[Judged, ...]:
    """Every claim of the manifest; one whose runs are not all finished is judged by the pairs that are."""
    return tuple(_judged(claim, ledger) for claim in manifest.claims)


def _judged(claim: Claim, ledger: RunSource) -> Judged:
    runs = {name: [ledger.read(run) if run in ledger else None for run in ids] for name, ids in claim.groups.items()}
    by_value = [{name: numbers_of(of_group, path) for name, of_group in runs.items()} for path in claim.values]
    every = [values for numbers in by_value for values in numbers.values()]
    places = list(range(max(map(len, every))))
    if claim.test not in ("above", "below"):  # in pairs: only the places that every group has
        shared = range(min(map(len, every)))
        places = [place for place in shared if all(values[place] is not None for values in every)]
    groups = [[_group(name, runs[name], numbers[name], places, ledger) for name in runs] for numbers in by_value]
    if any(not group.values for of_value in groups for group in of_value):
        return Judged(claim, "not finished", "The runs that would decide it are not all in the ledger.")
    if claim.test == "remaining":
        return _remaining(claim, *groups)
    tests = {"lower": _lower, "not_higher": _not_higher, "alike": _alike, "rising": _rising}
    return tests.get(claim.test, _beyond)(claim, groups[0])


def _group(
    name: str, runs: Sequence[Run | None], values: Sequence[float | None], places: Sequence[int], ledger: RunSource
) -> _Group:
    at_places = ((runs[place], values[place]) for place in places if place < len(runs))
    kept = [(run, value) for run, value in at_places if run is not None and value is not None]
    behind = tuple(one for run, _ in kept for one in trained(run, ledger)[:1])
    return _Group(name, behind, tuple(value for _, value in kept))


def _difference(first: _Group, second: _Group) -> stats.TTest:
    return paired_test(first.values, second.values, first.runs)


def _between(first: _Group, second: _Group) -> str:
    return f"{first.said}, {second.said}: {_minus(first, second)}"


def _minus(first: _Group, second: _Group) -> str:
    """The difference in words, with its tests."""
    test = _difference(first, second)
    mean = fmean(first.values) - fmean(second.values)
    digits = 5 - min(4, len(f"{max(map(abs, (*first.values, *second.values))):.0f}"))  # 4 below 10, 1 from 1,000 on
    told = f"{first.name} minus {second.name} {signed(mean, digits)}"
    if test.low is None or test.high is None:
        return f"{told}, and with {counted(len(first.values), 'pair')} no test"
    below = sum(a < b for a, b in zip(first.values, second.values, strict=True))
    return (
        f"{told}, below 0 in {below} of {counted(len(first.values), 'pair')} "
        f"({LEVEL:.0%} interval {signed(test.low, digits)} to {signed(test.high, digits)}, {p_value(test.p)}; "
        f"exact Wilcoxon {p_value(stats.wilcoxon(first.values, second.values).p)})"
    )


def _all_said(groups: Sequence[_Group]) -> str:
    return ", ".join(group.said for group in groups)


def _reach(pairs: int) -> str:
    """What so many pairs could have shown by ranks alone."""
    reach = stats.power(pairs)
    if reach.can_be_significant:
        return ""
    return f" By ranks alone, two-sided, it takes {reach.seeds_needed} pairs to reach 5%."


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
    word: Word = "not shown"
    if test.low is not None:
        word = "does not hold" if test.low > 0 else "holds" if test.mean_difference <= 0 else "not shown"
    return Judged(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}")


def _alike(claim: Claim, groups: Sequence[_Group]) -> Judged:
    pairs = [(later, earlier) for earlier, later in combinations(groups, 2)]
    tests = [_difference(*pair) for pair in pairs]
    word: Word = "not shown"
    if all(test.low is not None and test.high is not None for test in tests):
        word = "holds" if all((t.low or 0.0) <= 0 <= (t.high or 0.0) for t in tests) else "does not hold"
    why = f"{_all_said(groups)}: {'; '.join(_minus(*pair) for pair in pairs)}"
    reach = _reach(len(groups[0].values))
    if word != "holds":
        return Judged(claim, word, f"{why}.{reach}")
    if one_way := [f"{first.name} against {second.name}" for first, second in pairs if _goes_one_way(first, second)]:
        told = f"One direction in every pair, which the t test does not look at: {listed(one_way)}."
        return Judged(claim, "not shown", f"{why}. {told}{reach}")
    widest = max(abs(end) for test in tests for end in (test.low, test.high) if end is not None)
    hidden = f"That 0 lies in every interval does not mean that there is no difference: {significant(widest)} could hide."
    return Judged(claim, word, f"{why}. {hidden}{reach}")


def _goes_one_way(first: _Group, second: _Group) -> bool:
    signs = {a < b for a, b in zip(first.values, second.values, strict=True)}
    return len(signs) == 1 and len(first.values) > 2 and first.values != second.values


def _beyond(claim: Claim, groups: Sequence[_Group]) -> Judged:
    assert claim.threshold is not None
    sign = 1 if claim.test == "above" else -1
    sides = [sign * _side(group, claim.threshold) for group in groups]
    word: Word = "holds" if min(sides) > 0 else "does not hold" if min(sides) < 0 else "not shown"
    every = [value for group in groups for value in group.values]
    agree = sum(sign * (value - claim.threshold) > 0 for value in every)
    said = "; ".join(f"{group.said}{_interval(group, claim.threshold)}" for group in groups)
    return Judged(claim, word, f"{said}; {agree} of {len(every)} runs are {claim.test} {claim.threshold:g}.")


def _side(group: _Group, threshold: float) -> int:
    """1 where the interval of the mean is above the threshold, -1 where it is below, 0 where that is open."""
    test = _from_threshold(group, threshold)
    return int((test.low or 0.0) > 0) - int((test.high or 0.0) < 0)


def _interval(group: _Group, threshold: float) -> str:
    """That of the mean, which decides."""
    test = _from_threshold(group, threshold)
    if test.low is None or test.high is None:
        return ""
    return f" ({LEVEL:.0%} interval {fixed(threshold + test.low)} to {fixed(threshold + test.high)})"


def _from_threshold(group: _Group, threshold: float) -> stats.TTest:
    return paired_test(group.values, [threshold] * len(group.values), group.runs)


def _rising(claim: Claim, groups: Sequence[_Group]) -> Judged:
    steps = [_difference(later, earlier) for earlier, later in pairwise(groups)]
    word: Word = "not shown"
    if all(step.low is not None and step.low > 0 for step in steps):
        word = "holds"
    elif any(step.high is not None and step.high < 0 for step in steps):
        word = "does not hold"
    seeds = counted(len(groups[0].values), "seed")
    each = sum(all(a < b for a, b in pairwise(of_seed)) for of_seed in zip(*(g.values for g in groups), strict=True))
    why = f"{_all_said(groups)}; in that order in {each} of {seeds}, each taken alone. Step by step: "
    why += "; ".join(_minus(later, earlier) for earlier, later in pairwise(groups))
    if len(groups) > 2:
        why += f". From {groups[0].name}: {'; '.join(_minus(later, groups[0]) for later in groups[2:])}"
    return Judged(claim, word, f"{why}.{_reach(len(groups[0].values))}")


def _remaining(claim: Claim, before: Sequence[_Group], after: Sequence[_Group]) -> Judged:
    (first, second), metric = before, title(claim.values[0].rsplit(".", 1)[-1])
    gap, left = ([a - b for a, b in zip(*(group.values for group in groups), strict=True)] for groups in (before, after))
    shown, pairs = _difference(first, second), counted(len(gap), "pair")
    told = f"{first.name} minus {second.name} in {metric}: {spoken(gap)} before, {spoken(left)} after ({pairs})"
    if shown.low is None or shown.high is None or shown.low <= 0 <= shown.high:
        return Judged(claim, "not told", f"{told}: a gap that could be none, so no share of it is told.")
    if fmean(gap) < 0:
        return Judged(claim, "not told", f"{told}: there is no gap to close, {first.name} is the lower.")
    return Judged(claim, "measured", f"{told}: {fmean(left) / fmean(gap):.0%} of the gap remains.")
