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
    "alone, without a correction for their number. Alike: the whole interval of the difference is within a margin that "
    "was fixed beforehand, from at least five pairs, so that few runs cannot make it hold. Two kinds of claim ask for "
    "less. At least as good: the mean is no worse, and the interval does not say otherwise. A count of cells, as papers "
    "print it (12 of 12), is compared with the paper's as it is, without a test, from at least three pairs in each cell "
    "and where no missing cell can change it. That no cell is significant holds only where one could have been."
)

LEAST_TO_COUNT = 3
"""Fewer pairs in a cell say too little about its direction to be counted."""

LEAST_PAIRS = 5
"""Fewer pairs cannot show that two groups are alike."""


@dataclass(frozen=True)
class Effect:
    """The number that a claim is decided by, its interval, and how many runs or pairs it is of."""

    mean: float
    low: float | None
    high: float | None
    runs: int


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, the word for it, and why. `effect` is absent where several numbers decide, or none."""

    claim: Claim[str]
    word: Word
    why: str
    effect: Effect | None = None


@dataclass(frozen=True)
class _Group:
    """`runs` are the training runs that the values are of."""

    name: str
    runs: tuple[Run, ...]
    values: tuple[float, ...]

    @property
    def words(self) -> str:
        return f"{self.name} {spoken(self.values)}"


def decided_and_waiting(claims: Sequence[JudgedClaim]) -> tuple[list[JudgedClaim], list[JudgedClaim]]:
    """The claims that were judged, and those that wait for runs."""
    waiting = [judged for judged in claims if judged.word == "not finished"]
    return [judged for judged in claims if judged.word != "not finished"], waiting


def waiting_in_words(waiting: Sequence[JudgedClaim]) -> str:
    """`3 claims are not finished: the runs that would decide them are missing.`"""
    claims = "1 claim is" if len(waiting) == 1 else f"{len(waiting):,} claims are"
    return f"{claims} not finished: runs that would decide {'it' if len(waiting) == 1 else 'them'} are missing."


def judge_claims(experiment: Experiment[str], runs: RunSource) -> tuple[JudgedClaim, ...]:
    """Every claim; one whose runs are not all finished is judged by the pairs that are."""
    return tuple(_judged(claim, runs) for claim in experiment.claims)


def _judged(claim: Claim[str], runs: RunSource) -> JudgedClaim:
    if claim.test.startswith("cells_"):
        return _counted(claim, runs)
    replicates = {name: read_replicates(ids, runs) for name, ids in claim.groups.items()}
    values = [{name: numbers(value, group) for name, group in replicates.items()} for value in claim.values]
    paired = claim.test not in ("above", "below", "between")
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
    tests = {"lower": _lower, "not_higher": _not_higher, "alike": _alike, "rising": _rising, "between": _between_bounds}
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
        pairs = counted(len(first.values), "pair")
        return f"{difference}; no test with {pairs}{', all with the same difference' * (len(first.values) > 1)}"
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
    test, by = _difference(first, second), claim.threshold or 0.0
    word: Word = "not shown"
    if test.low is not None and test.high is not None:
        word = "holds" if test.high < -by else "does not hold" if test.low > -by else "not shown"
    return JudgedClaim(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}", _effect(test))


def _not_higher(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    first, second = groups
    test = _difference(first, second)
    word: Word = "not shown"
    if test.low is not None:
        word = "does not hold" if test.low > 0 else "holds" if test.mean_difference <= 0 else "not shown"
    return JudgedClaim(claim, word, f"{_between(first, second)}.{_reach(len(first.values))}", _effect(test))


def _alike(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    """An equivalence test: the interval decides against the margin, not against 0."""
    assert claim.margin is not None
    margin = claim.margin
    pairs = [(later, earlier) for earlier, later in combinations(groups, 2)]
    tests = [_difference(*pair) for pair in pairs]
    ends = [(test.low, test.high) for test in tests if test.low is not None and test.high is not None]
    word: Word = "not shown"
    if any(low > margin or high < -margin for low, high in ends):
        word = "does not hold"
    elif len(ends) == len(tests) and all(-margin <= low and high <= margin for low, high in ends):
        word = "holds" if len(groups[0].values) >= LEAST_PAIRS else "not shown"
    why = f"{_all_words(groups)}: {'; '.join(_minus(*pair) for pair in pairs)}. The margin is ±{significant(margin)}."
    if len(groups[0].values) < LEAST_PAIRS and word == "not shown":
        why += f" Fewer than {LEAST_PAIRS} pairs show no equivalence."
    return JudgedClaim(claim, word, why, _effect(tests[0]) if len(tests) == 1 else None)


def _effect(test: stats.TTest) -> Effect:
    return Effect(test.mean_difference, test.low, test.high, test.n)


def _between_bounds(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    assert claim.threshold is not None
    assert claim.upper is not None
    low, high = claim.threshold, claim.upper
    above = [_side(group, low) for group in groups]
    below = [-_side(group, high) for group in groups]
    word: Word = "holds" if min(above + below) > 0 else "does not hold" if min(above + below) < 0 else "not shown"
    every = [value for group in groups for value in group.values]
    inside = sum(low <= value <= high for value in every)
    words = "; ".join(f"{group.words}{_interval(group, low)}" for group in groups)
    why = f"{words}; {inside} of {len(every)} runs are between {low:g} and {high:g}."
    return JudgedClaim(claim, word, why, _mean_effect(groups))


def _mean_effect(groups: Sequence[_Group]) -> Effect | None:
    return _effect(_from_threshold(groups[0], 0.0)) if len(groups) == 1 else None


def _counted(claim: Claim[str], runs: RunSource) -> JudgedClaim:
    """How many cells are in the claimed direction, and whether those without a finished pair can change the answer."""
    assert claim.threshold is not None
    names = list(claim.groups)
    cells = list(zip(names[::2], names[1::2], strict=True))
    values = claim.values if len(claim.values) > 1 else claim.values * len(cells)
    finished = list[tuple[_Group, _Group]]()
    for (first, second), value in zip(cells, values, strict=True):
        replicates = [read_replicates(claim.groups[name], runs) for name in (first, second)]
        of_runs = [numbers(value, group) for group in replicates]
        shared = [key for key in of_runs[0] if key in of_runs[1]]
        if shared:
            ours, theirs = (
                _group(name, group, of_run, shared, runs)
                for name, group, of_run in zip((first, second), replicates, of_runs, strict=True)
            )
            finished.append((ours, theirs))
    if not finished:
        return JudgedClaim(claim, "not finished", "The runs that would decide it are not all finished.")
    missing = len(cells) - len(finished)
    p_values = [stats.wilcoxon(a.values, b.values, alternative="less").p for a, b in finished]
    counts = {
        "cells_lower": [fmean(a.values) < fmean(b.values) for a, b in finished],
        "cells_unanimous": [all(x < y for x, y in zip(a.values, b.values, strict=True)) for a, b in finished],
        "cells_significant": [p <= 1 - LEVEL for p in stats.holm([*p_values, *[1.0] * missing])[: len(finished)]],
    }
    counted_cells, total = counts[claim.test], len(finished)
    least, most = sum(counted_cells) / len(cells), (sum(counted_cells) + missing) / len(cells)
    reach = stats.power(min(len(a.values) for a, _ in finished), len(cells), alternative="less")
    word: Word = "not finished"  # as long as the missing cells can change it
    if claim.test == "cells_significant":
        if least > claim.threshold:
            word = "does not hold"
        elif not missing:
            word = "holds" if reach.can_be_significant else "not shown"
    elif least >= claim.threshold:
        word = "holds"
    elif most < claim.threshold:
        word = "does not hold"
    what = {
        "cells_lower": "have the lower mean",
        "cells_unanimous": "are lower in every pair of runs",
        "cells_significant": "are lower after Holm's correction (exact one-sided Wilcoxon)",
    }[claim.test]
    why = f"{sum(counted_cells)} of {total} cells {what}"
    if exceptions := [a.name for (a, _), is_so in zip(finished, counted_cells, strict=True) if not is_so]:
        why += f"; not: {listed(exceptions)}" if claim.test != "cells_significant" and len(exceptions) < total else ""
    if missing:
        why += f"; {missing} of {len(cells)} cells are not finished"
    if claim.test == "cells_significant":
        why += f". {reach.sentence}"
    if min(len(a.values) for a, _ in finished) < LEAST_TO_COUNT:
        word, why = "not shown", f"{why.removesuffix('.')}. Fewer than {LEAST_TO_COUNT} pairs in a cell decide no count"
    return JudgedClaim(claim, word, why.removesuffix(".") + ".")


def _beyond(claim: Claim[str], groups: Sequence[_Group]) -> JudgedClaim:
    assert claim.threshold is not None
    sign = 1 if claim.test == "above" else -1
    sides = [sign * _side(group, claim.threshold) for group in groups]
    word: Word = "holds" if min(sides) > 0 else "does not hold" if min(sides) < 0 else "not shown"
    every = [value for group in groups for value in group.values]
    agree = sum(sign * (value - claim.threshold) > 0 for value in every)
    words = "; ".join(f"{group.words}{_interval(group, claim.threshold)}" for group in groups)
    why = f"{words}; {agree} of {len(every)} runs are {claim.test} {claim.threshold:g}."
    return JudgedClaim(claim, word, why, _mean_effect(groups))


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
