"""Which of the compared methods to use, and how sure that is: a rule that a reader can follow in the table.

The simplest method is used unless another is shown to be better: its mean difference in the primary metric, as trained,
has a Holm-corrected p of at most 0.05 in the table. Of several that are shown to be better, the best counts, and a
simpler one of them takes its place where the two cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dissensus import stats
from dissensus.experiments.description import Candidates
from dissensus.report.comparison import LEVEL, Comparison, MethodScores, paired_test
from dissensus.report.sections import Section
from dissensus.report.wording import direction, fixed, listed, p_value, signed, significant, title, unit
from dissensus.store.spec import Json

CHANCE = 0.8  # with which a difference should be found


@dataclass(frozen=True)
class Contrast:
    """A row minus another: a positive difference is worse. `p_holm` is corrected for all rows so compared."""

    label: str
    difference: float
    low: float
    high: float
    p_holm: float

    @property
    def verdict(self) -> str:
        """`better` or `worse` where it is shown, else `not shown`."""
        if self.p_holm > 1 - LEVEL:
            return "not shown"
        return "worse" if self.difference > 0 else "better"

    @property
    def size(self) -> str:
        """`by 0.0220 (95% interval 0.0172 to 0.0258)`, without a sign: the verdict says which way."""
        low, high = sorted(abs(end) for end in (self.low, self.high))
        digits = 4 if abs(self.difference) < 0.1 else 3
        interval = f"{fixed(low, digits)} to {fixed(high, digits)}"
        return f"by {fixed(abs(self.difference), digits)} ({LEVEL:.0%} interval {interval})"


@dataclass(frozen=True)
class Recommendation:
    """The method to use and the command that trains with it; `reasons` are sentences, the most telling first.

    `unbeaten` are what knows nothing of an item, and yet the method is not shown to be better.
    """

    label: str
    command: str
    headline: str
    reasons: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    detectable: float | None
    metric: str
    unbeaten: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """For `recommendation.json`; differences are in the units of the metric, and positive is worse."""
        return {
            "use": self.label,
            "command": self.command,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "metric": self.metric,
            "detectable_difference": self.detectable,
            "not_shown_better_than": list(self.unbeaten),
            "compared_with": {
                contrast.label: {
                    "difference": contrast.difference,
                    "interval": [contrast.low, contrast.high],
                    "p_holm": contrast.p_holm,
                    "verdict": contrast.verdict,
                }
                for contrast in self.contrasts
            },
        }


def recommend(candidates: Candidates, sections: Sequence[Section]) -> Recommendation | None:
    """None where the simplest method has no finished run to compare with."""
    tables = {section.exhibit.key: section.scores.comparison for section in sections if section.scores}
    comparison, simplest = tables[candidates.table], next(iter(candidates.commands))
    rows = _finished_rows(comparison)
    if simplest not in rows:
        return None
    usable = [rows[label] for label in candidates.commands if label in rows and label != simplest]
    contrasts = _contrasts(usable, rows[simplest], comparison.primary)
    better = [contrast for contrast in contrasts if contrast.verdict == "better"]
    label = _simplest_of_best(better, rows, comparison.primary) if better else simplest
    detectable = _detectable(candidates, contrasts, rows, simplest, comparison.primary)
    references = [row for name, row in _finished_rows(tables[candidates.references]).items() if name != simplest]
    against = _contrasts(references, rows[label], comparison.primary)
    level = [contrast for contrast in against if contrast.label in candidates.blind and contrast.verdict != "worse"]
    behind = [contrast.label for contrast in level if contrast.difference <= 0]
    unbeaten = tuple(contrast.label for contrast in level)
    headline = _headline(label, contrasts, simplest, title(comparison.primary))
    reasons = (
        *([headline] if behind else []),
        *_against_the_blind(label, [name for name in unbeaten if name not in behind]),
        *_against_simplest(contrasts, simplest, comparison.primary),
        *_reach(detectable, comparison.primary),
        *_against_references(label, [contrast for contrast in against if contrast.label not in unbeaten]),
    )
    if behind:
        headline = (
            f"Look for other features first. {label} is no better than {listed(behind)}, which "
            f"{'knows' if len(behind) == 1 else 'know'} nothing of an item."
        )
    return Recommendation(
        label, candidates.commands[label], headline, reasons, contrasts, detectable, comparison.primary, unbeaten
    )


def _finished_rows(comparison: Comparison) -> dict[str, MethodScores]:
    """As trained, at the table's own checkpoint."""
    rows = comparison.blocks[0].rows if comparison.blocks else ()
    return {row.method.label: row for row in rows if row.cells[comparison.primary].values}


def _contrasts(rows: Sequence[MethodScores], base: MethodScores, metric: str) -> tuple[Contrast, ...]:
    """Each row minus the base, with Holm over these rows; a positive difference is worse, whatever the metric."""
    sign = -1 if direction(metric) == "higher" else 1
    tests = {}
    for row in rows:
        pairs = _pairs(row, base, metric)
        if len(pairs) > 1:
            mine, theirs = ([sign * pair[side] for pair in pairs] for side in (0, 1))
            test = paired_test(mine, theirs, [run for name, run in row.method.runs.items() if name in base.method.runs])
            if test.p is not None and test.low is not None and test.high is not None:
                tests[row.method.label] = test.mean_difference, test.low, test.high, test.p
    corrected = stats.holm([p for *_, p in tests.values()])
    return tuple(
        Contrast(label, difference, low, high, p_holm)
        for (label, (difference, low, high, _)), p_holm in zip(tests.items(), corrected, strict=True)
    )


def _pairs(row: MethodScores, base: MethodScores, metric: str) -> list[tuple[float, float]]:
    mine, theirs = row.cells[metric].values, base.cells[metric].values
    return [(value, theirs[name]) for name, value in mine.items() if name in theirs]


def _simplest_of_best(better: Sequence[Contrast], rows: Mapping[str, MethodScores], metric: str) -> str:
    """The first in the order of simplicity, which is that of `better`, that is not shown to be worse than the best."""
    best = min(better, key=lambda contrast: contrast.difference).label
    others = [rows[contrast.label] for contrast in better if contrast.label != best]
    worse = {contrast.label for contrast in _contrasts(others, rows[best], metric) if contrast.verdict == "worse"}
    return next(contrast.label for contrast in better if contrast.label not in worse)


def _detectable(
    candidates: Candidates,
    contrasts: Sequence[Contrast],
    rows: Mapping[str, MethodScores],
    simplest: str,
    metric: str,
) -> float | None:
    """The difference that these splits would have found, by the spread of those where none was shown; the largest."""
    undecided = [contrast for contrast in contrasts if contrast.verdict == "not shown"]
    if not undecided:
        return None
    pairs = [_pairs(rows[contrast.label], rows[simplest], metric) for contrast in undecided]
    spread = max(stats.mean_sd([a - b for a, b in of_row]).sd or 0.0 for of_row in pairs)
    splits = min(map(len, pairs))
    design = stats.sensitivity(splits, test_to_train=candidates.test_to_train, cells=len(contrasts), chance=CHANCE)
    return design.difference(spread)


def _headline(label: str, contrasts: Sequence[Contrast], simplest: str, metric: str) -> str:
    if label != simplest:
        gain = next(contrast for contrast in contrasts if contrast.label == label)
        return f"Use {label}. It is shown to be better in {metric} than {simplest}, the simplest method, {gain.size}."
    if any(contrast.verdict == "worse" for contrast in contrasts):
        return f"Use {label}. No method is shown to be better in {metric}, and it is the simplest."
    return f"Use {label}. No method is shown to differ from it in {metric}, and it is the simplest."


def _against_simplest(contrasts: Sequence[Contrast], simplest: str, metric: str) -> Iterator[str]:
    units = f" in {unit(metric)}," if unit(metric) else ""
    for verdict in ("better", "worse"):
        shown = sorted((c for c in contrasts if c.verdict == verdict), key=lambda contrast: -abs(contrast.difference))
        if shown:
            gaps = listed([f"{contrast.label} {contrast.size}" for contrast in shown])
            yield f"Shown to be {verdict} than {simplest}:{units} {gaps}."
    if undecided := [contrast for contrast in contrasts if contrast.verdict == "not shown"]:
        words = [
            f"{c.label} ({signed(c.difference)}, {LEVEL:.0%} interval {signed(c.low)} to {signed(c.high)}, "
            f"Holm {p_value(c.p_holm)})"
            for c in undecided
        ]
        yield f"No difference from {simplest} is shown for {listed(words)}."


def _reach(detectable: float | None, metric: str) -> Iterator[str]:
    if detectable is not None:
        size = f"{significant(detectable)}{f' {unit(metric)}' if unit(metric) else ''}"
        yield (
            f"Of these, a true difference of {size} would have been found with a probability of {CHANCE:.0%}; "
            "a smaller one may have been missed."
        )


def _against_the_blind(label: str, names: Sequence[str]) -> Iterator[str]:
    """What few items or splits leave open: whether the features say anything."""
    if names:
        yield (
            f"Look at this: {label} is better than {listed(names)} on average, and that is not shown. Whether these "
            "features say anything about the votes takes more items, or more --repeats, to tell."
        )


def _against_references(label: str, contrasts: Sequence[Contrast]) -> Iterator[str]:
    """What needs no network and no choice: whether the recommended head beats it, and what to do where it does not."""
    if ahead := [f"{contrast.label} {contrast.size}" for contrast in contrasts if contrast.verdict == "better"]:
        yield (
            f"Look at this: better than {label} is {listed(ahead)}. `dissensus fit` tries linear models too, and "
            "--head linear trains nothing else."
        )
    if level := [contrast.label for contrast in contrasts if contrast.verdict == "not shown"]:
        yield f"{label} is not shown to be better than {listed(level)}: a linear head (--head linear) may do as well."
    if behind := [contrast for contrast in contrasts if contrast.verdict == "worse"]:
        yield f"{label} beats {listed([f'{contrast.label} {contrast.size}' for contrast in behind])}."
