"""Whether what a paper found holds in these runs: a word, and the numbers that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean
from typing import Literal

from dissensus import stats
from dissensus.experiments.description import Claim, Experiment
from dissensus.report.comparison import LEVEL, paired_test
from dissensus.report.sections import numbers, read_replicates
from dissensus.report.training_sources import training_runs
from dissensus.report.value_sections import spoken
from dissensus.report.wording import counted, fixed, listed, p_value, signed, significant, title
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run

Word = Literal["holds", "does not hold", "not shown", "measured", "no gap shown", "not finished"]

HOW_TO_READ = (
    f"A claim holds, or does not hold, where the {LEVEL:.0%} interval decides it: the interval of a difference in pairs "
    "of equal seed, or of a mean against a threshold. Not shown: the interval lies on both sides. Each claim is judged "
    "alone, without a correction for their number. Two kinds of claim ask for less. At least as good: the mean is no "
    "worse, and the interval does not say otherwise. Cannot be told apart: 0 is in every interval, and no two differ in "
    "one direction in every pair."
)


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, the word for it, and why."""

    claim: Claim[str]
    word: Word
    why: str


@dataclass(frozen=True)
class _Group:
    """`runs` are the training runs that the values are of."""

    name: str
    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def words(self) -> str:
        return f"{self.name} {spoken(self.values)}"


def judge_claims(experiment: Experiment[str], runs: RunSource) -> tuple[JudgedClaim, ...]:
    """Every claim; one whose runs are not all finished is judged by the pairs that are."""
    return tuple(_judged(claim, runs) for claim in experiment.claims)


def _judged(claim: Claim[str], runs: RunSource) -> JudgedClaim:
    replicates = {name: read_replicates(ids, runs) for name, ids in claim.groups.items()}
    values = [{name: numbers(value, group) for name, group in replicates.items()} for value in claim.values]
    paired = claim.test not in ("above", "below")
    every = [of_group for of_value in values for of_group in of_value.values()]
    shared = [name for name in every[0] if all(name in of_group for of_group in every)]
    groups = [
        [
            _group(name, replicates[name], of_value[name], shared if paired else list(of_value[name]), runs)
            for name in claim.groups
        ]
        for of_value in values
    ]
    if any(not group.values for of_value in groups for group in of_value):
        return JudgedClaim(claim, "not finished", "The runs that would decide it are not all finished.")
    if claim.test == "remaining":
        return _remaining(claim, *groups)
    tests = {"lower": _lower, "not_higher": _not_higher, "alike": _alike, "rising": _rising}
    return tests.get(claim.test, _beyond)(claim, groups[0])


def _group(
    name: str, replicates: Mapping[str, Run | None], values: Mapping[str, float], names: Sequence[str], runs: RunSource
) -> _Group:
    present = [(run, values[key]) for key in names if (run := replicates[key]) is not None]
    behind = tuple(source for run, _ in present for source in training_runs(run, runs)[:1])
    return _Group(name, behind, tuple(value for _, value in present))


def _difference(first: _Group, second: _Group) -> stats.TTest:
    return paired_test(first.values, second.values, first.runs)


def _between(first: _Group, second: _Group) -> str:
    return f"{first.words}, {second.words}: {_minus(first, second)}"


def _minus(first: _Group, second: _Group) -> str:
    """The difference in words, with its tests."""
    test = _difference(first, second)
    mean = fmean(first.values) - fmean(second.values)
    digits = 5 - min(4, len(f"{max(map(abs, (*first.values, *second.values))):.0f}"))  # 4 below 10, 1 from 1,000 on
    difference = f"{first.name} minus {second.name} {signed(mean, digits)}"
    if test.low is None or test.high is None:
        return f"{difference}; {counted(len(first.values), 'pair')} allow no test"
    below = sum(a < b for a, b in zip(first.values, second.values, strict=True))
    return (
        f"{difference}, below 0 in {below} of {counted(len(first.values), 'pair')} "
        f"({LEVEL:.0%} interval {signed(test.low, digits)} to {signed(test.high, digits)}, {p_value(test.p)}; "
        f"exact Wilcoxon {p_value(stats.wilcoxon(first.values, second.values).p)})"
    )


def _all_words(groups: Sequence[_Group]) -> str:
    return ", ".join(group.words for group in groups)


def _reach(pairs: int) -> str:
    """What so many pairs could have shown by ranks alone."""
    reach = stats.power(pairs)
    if reach.can_be_significant:
        return ""
    return f" By ranks alone, two-sided, it takes {reach.seeds_needed} pairs to reach 5%."


def _lower(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    first, second = groups
    test = _difference(first, second)
    word: Word = "not shown"
    if test.low is not None and test.high is not None:
        word = "holds" if test.high < 0 else "does not hold" if test.low > 0 else "not shown"
    return JudgedClaim(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}")


def _not_higher(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    first, second = groups
    test = _difference(first, second)
    word: Word = "not shown"
    if test.low is not None:
        word = "does not hold" if test.low > 0 else "holds" if test.mean_difference <= 0 else "not shown"
    return JudgedClaim(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}")


def _alike(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    pairs = [(later, earlier) for earlier, later in combinations(groups, 2)]
    tests = [_difference(*pair) for pair in pairs]
    word: Word = "not shown"
    if all(test.low is not None and test.high is not None for test in tests):
        word = "holds" if all((t.low or 0.0) <= 0 <= (t.high or 0.0) for t in tests) else "does not hold"
    why = f"{_all_words(groups)}: {'; '.join(_minus(*pair) for pair in pairs)}"
    reach = _reach(len(groups[0].values))
    if word != "holds":
        return JudgedClaim(claim, word, f"{why}.{reach}")
    if one_way := [f"{first.name} against {second.name}" for first, second in pairs if _goes_one_way(first, second)]:
        sentence = f"The difference has one direction in every pair, which the t test does not see: {listed(one_way)}."
        return JudgedClaim(claim, "not shown", f"{why}. {sentence}{reach}")
    widest = max(abs(end) for test in tests for end in (test.low, test.high) if end is not None)
    hidden = f"This does not show that there is no difference: up to {significant(widest)} is possible."
    return JudgedClaim(claim, word, f"{why}. {hidden}{reach}")


def _goes_one_way(first: _Group, second: _Group) -> bool:
    signs = {a < b for a, b in zip(first.values, second.values, strict=True)}
    return len(signs) == 1 and len(first.values) > 2 and first.values != second.values


def _beyond(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    assert claim.threshold is not None
    sign = 1 if claim.test == "above" else -1
    sides = [sign * _side(group, claim.threshold) for group in groups]
    word: Word = "holds" if min(sides) > 0 else "does not hold" if min(sides) < 0 else "not shown"
    every = [value for group in groups for value in group.values]
    agree = sum(sign * (value - claim.threshold) > 0 for value in every)
    words = "; ".join(f"{group.words}{_interval(group, claim.threshold)}" for group in groups)
    return JudgedClaim(claim, word, f"{words}; {agree} of {len(every)} runs are {claim.test} {claim.threshold:g}.")


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


def _rising(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    steps = [_difference(later, earlier) for earlier, later in pairwise(groups)]
    word: Word = "not shown"
    if all(step.low is not None and step.low > 0 for step in steps):
        word = "holds"
    elif any(step.high is not None and step.high < 0 for step in steps):
        word = "does not hold"
    seeds = counted(len(groups[0].values), "seed")
    in_order = sum(all(a < b for a, b in pairwise(seed)) for seed in zip(*(g.values for g in groups), strict=True))
    why = f"{_all_words(groups)}; in that order in {in_order} of {seeds}, each taken alone. Step by step: "
    why += "; ".join(_minus(later, earlier) for earlier, later in pairwise(groups))
    if len(groups) > 2:
        why += f". From {groups[0].name}: {'; '.join(_minus(later, groups[0]) for later in groups[2:])}"
    return JudgedClaim(claim, word, f"{why}.{_reach(len(groups[0].values))}")


def _remaining(claim: Claim[str], before: Sequence[_Group], after: Sequence[_Group]) -> JudgedClaim:
    (first, second), metric = before, title(claim.values[0].name)
    gap, left = ([a - b for a, b in zip(*(group.values for group in groups), strict=True)] for groups in (before, after))
    test, pairs = _difference(first, second), counted(len(gap), "pair")
    numbers = f"{first.name} minus {second.name} in {metric} is {spoken(gap)} before and {spoken(left)} after ({pairs})"
    if test.low is None or test.high is None or test.low <= 0 <= test.high:
        return JudgedClaim(claim, "no gap shown", f"{numbers}. No gap is shown to begin with.")
    if fmean(gap) < 0:
        return JudgedClaim(claim, "no gap shown", f"{numbers}. There is no gap to close: {first.name} is the lower.")
    return JudgedClaim(claim, "measured", f"{fmean(left) / fmean(gap):.0%} of the gap remains: {numbers}.")
