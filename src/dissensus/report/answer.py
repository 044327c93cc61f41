"""The answer in sentences, computed from a comparison. It claims what the numbers carry, and says what they cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dissensus import stats
from dissensus.report.comparison import LEVEL, Comparison, Difference, MethodScores, ScoreBlock, Verdict
from dissensus.report.wording import (
    TO_VOTES,
    counted,
    direction,
    fixed,
    listed,
    p_value,
    probability,
    significant,
    title,
    unit,
)

NOT_EVIDENCE = "smoke scale: not evidence"


@dataclass(frozen=True)
class Answer:
    """The finding in one sentence, and the sentences that keep it honest."""

    headline: str
    details: tuple[str, ...]


def answer(comparison: Comparison) -> Answer:
    """What this table says about its primary metric, each method against the baseline."""
    if not any(method.runs for method in comparison.methods):
        return Answer("No run of this table is finished.", ())
    block = comparison.blocks[0]
    details = (*_after_tempering(comparison, block), *_truth(comparison), *_missing(comparison, block))
    base = block.row(comparison.baseline)
    if base is None or not base.cells[comparison.primary].values:
        return Answer(f"The baseline, {comparison.baseline}, is not finished: there is nothing to compare with.", details)
    compared = [row for row in block.rows if row.difference is not None]
    if not compared:
        return Answer(f"Only {comparison.baseline} has finished: there is nothing to compare it with.", details)
    if max(len(_difference(row).values) for row in compared) == 1:
        return Answer(_one_seed(comparison, block), details)
    return Answer(_headline(comparison, compared), (*_room(comparison, compared), *details))


def _headline(comparison: Comparison, rows: Sequence[MethodScores]) -> str:
    """Clear differences first, then those that only look so, then those without a clear difference."""
    by_verdict: dict[Verdict, list[MethodScores]] = {}
    for row in sorted(rows, key=lambda row: abs(_difference(row).mean)):
        by_verdict.setdefault(_difference(row).verdict, []).append(row)
    metric, baseline = comparison.primary, comparison.baseline
    parts: list[str] = []
    for verdict in ("worse", "better"):
        if clear := by_verdict.get(verdict, []):
            first, *others = reversed(clear)
            than = "" if parts else f" than {baseline}"
            gaps = [f"{first.method.label} is {verdict}{than} by {_gap(first, metric, in_full=True)}"]
            gaps += [f"{row.method.label} by {_gap(row, metric, in_full=False)}" for row in others]
            parts.append(listed(gaps))
    for row in by_verdict.get("suggestive", []):
        difference = _difference(row)
        leaning = "worse" if difference.mean * difference.worse > 0 else "better"
        than = "" if parts else f" than {baseline}"
        parts.append(
            f"{row.method.label} looks {leaning}{than} by {_gap(row, metric, in_full=not parts)}, but not once all rows "
            f"are accounted for (Holm {p_value(difference.p_holm)})"
        )
    most, replicate = _most_seeds(rows), comparison.table.replicate
    if same := [_with_fewer_seeds(row, most, replicate) for row in by_verdict.get("indistinguishable", [])]:
        parts.append(f"{listed(same)} {'shows' if len(same) == 1 else 'show'} no clear difference from {baseline}")
    if untested := [row.method.label for row in by_verdict.get("untested", [])]:
        parts.append(f"{listed(untested)} cannot be tested (one {replicate}, or differences that do not vary)")
    beaten = any(
        difference.mean * difference.worse < 0 for difference in map(_difference, rows) if _is_leaning(difference)
    )
    lead = f"In {title(metric)}" if beaten else f"No method is shown to beat {baseline} in {title(metric)}"
    return f"{lead}{', ' if beaten else ': '}{'; '.join(parts)}."


def _is_leaning(difference: Difference) -> bool:
    return difference.verdict in ("better", "worse", "suggestive")


def _most_seeds(rows: Sequence[MethodScores]) -> int:
    return max(len(_difference(row).values) for row in rows)


def _with_fewer_seeds(row: MethodScores, most: int, replicate: str) -> str:
    """The row's name, and how many seeds it has where others have more."""
    seeds = len(_difference(row).values)
    return row.method.label if seeds == most else f"{row.method.label} ({counted(seeds, replicate)})"


def _gap(row: MethodScores, metric: str, *, in_full: bool) -> str:
    """`0.21 nats (95% interval 0.18 to 0.24)`, or without the words; as many decimals as the interval supports."""
    difference = _difference(row)
    low, high = sorted(abs(end or 0.0) for end in (difference.low, difference.high))  # of one sign, or nothing is claimed
    widths = [-math.floor(math.log10(size)) for size in ((high - low) / 2, low) if size > 0]
    digits = max(1, *widths)  # low is never shown as 0
    size, interval = fixed(abs(difference.mean), digits), f"{fixed(low, digits)} to {fixed(high, digits)}"
    if not in_full:
        return f"{size} ({interval})"
    return f"{size}{f' {unit(metric)}' if unit(metric) else ''} ({LEVEL:.0%} interval {interval})"


def _room(comparison: Comparison, rows: Sequence[MethodScores]) -> list[str]:
    """What could hide behind "no clear difference", and what such a design could have shown at best."""
    sentences, seeds, replicate = [], _most_seeds(rows), comparison.table.replicate
    alike = [row for row in rows if _difference(row).verdict == "indistinguishable"]
    if alike:
        groups = [[row for row in alike if len(_difference(row).values) == size] for size in range(seeds, 0, -1)]
        hidden = [_hidden(comparison, group, seeds) for group in groups if group]
        sentences.append(
            f"No clear difference means that the {LEVEL:.0%} interval contains 0; a method may still differ from "
            f"{comparison.baseline} {'; '.join(hidden)}."
        )
    for way in ("worse", "better"):
        if one_way := [row.method.label for row in alike if _goes(row, way)]:
            verb = "is" if len(one_way) == 1 else "are"
            sentences.append(f"{listed(one_way)} {verb} {way} in every {replicate}, though not by enough to tell.")
    reach = stats.power(seeds, len(rows))
    if not reach.can_be_significant:
        sentences.append(
            f"These intervals rest on the t test. By ranks alone (exact Wilcoxon) nothing could be shown: "
            f"{counted(seeds, replicate)} reach {p_value(reach.best_p)} at best, and "
            f"{probability(reach.best_p_after_holm)} after Holm over {counted(len(rows), 'row')}. It would take "
            f"{reach.seeds_needed} {replicate}s."
        )
    return sentences


def _hidden(comparison: Comparison, rows: Sequence[MethodScores], most: int) -> str:
    """How large a difference the widest interval of these rows leaves room for."""
    widest = max(abs(end or 0.0) for row in rows for end in (_difference(row).low, _difference(row).high))
    size = f"{significant(widest)}{f' {unit(comparison.primary)}' if unit(comparison.primary) else ''}"
    seeds = len(_difference(rows[0]).values)
    return f"by up to {size}" if seeds == most else f"with {counted(seeds, comparison.table.replicate)} by up to {size}"


def _goes(row: MethodScores, way: str) -> bool:
    """Whether every seed says so; fewer than three agree too easily by chance."""
    difference, sign = _difference(row), {"worse": 1, "better": -1}[way]
    signs = [value * difference.worse * sign > 0 for value in difference.values.values()]
    return len(signs) > 2 and all(signs)


def _one_seed(comparison: Comparison, block: ScoreBlock) -> str:
    metric, replicate = comparison.primary, comparison.table.replicate
    known = [row for row in block.rows if row.cells[metric].values]
    means = ", ".join(f"{row.method.label} {fixed(row.cells[metric].mean)}" for row in known)
    superlative = "highest" if direction(metric) == "higher" else "lowest"
    leaders = [f"{label} has the {superlative} {title(metric)}" for label in sorted(block.best[metric])]
    if not leaders:  # rows with fewer seeds than another are no leaders
        return f"{means}: one pair of equal {replicate}s allows no test."
    return f"{listed(leaders)} ({means}), but one {replicate} allows no test: the order may be chance."


def _after_tempering(comparison: Comparison, block: ScoreBlock) -> list[str]:
    """The sceptic's first question: how much of a gap does one temperature close?"""
    tempered = comparison.block(TO_VOTES)
    if tempered is None:
        return []
    changes = []
    for row, after in zip(block.rows, tempered.rows, strict=True):
        if row.difference is None or after.difference is None or row.difference.verdict not in ("better", "worse"):
            continue
        gaps = (fixed(difference.mean * difference.worse) for difference in (row.difference, after.difference))
        alike = " (no clear difference)" if after.difference.verdict == "indistinguishable" else ""
        changes.append(f"{row.method.label} {' → '.join(gaps)}{alike}")
    if not changes:
        return []
    sentence = f"With one temperature per method, fitted to held-out votes, the gap to {comparison.baseline} becomes"
    return [f"{sentence}: {', '.join(changes)}."]


def _truth(comparison: Comparison) -> list[str]:
    """Where the crowd is simulated its true distribution is known, and the noise of the votes blurs nothing."""
    rows = [row for row in comparison.blocks[0].rows if "kl_to_truth" in row.cells]
    means = {row.method.label: row.cells["kl_to_truth"].mean for row in rows}
    known = sorted((mean, label) for label, mean in means.items() if mean is not None)
    if len(known) < 2:
        return []
    mean, label = known[0]
    base = means.get(comparison.baseline)
    beside = f" ({comparison.baseline}: {fixed(base)})" if base is not None and label != comparison.baseline else ""
    return [
        f"{label} comes closest to the true distribution, which is known because the crowd is simulated: KL "
        f"{fixed(mean)} nats{beside}."
    ]


def _missing(comparison: Comparison, block: ScoreBlock) -> list[str]:
    """What is not in the means, and why."""
    metric = comparison.primary
    infinite = [row.method.label for row in block.rows if row.cells[metric].infinite]
    sentences = []
    if infinite:
        sentences.append(
            f"The {title(metric)} of {listed(infinite)} is infinite on some items (a class that people chose has "
            "probability 0), so it has no mean and cannot be compared."
        )
    noun = comparison.table.replicate
    gaps = [
        f"{method.label} ({noun if len(method.missing) == 1 else f'{noun}s'} {', '.join(method.missing)})"
        for method in comparison.methods
        if method.missing
    ]
    return [*sentences, *([f"Not finished, and left out of every mean: {', '.join(gaps)}."] if gaps else [])]


def _difference(row: MethodScores) -> Difference:
    assert row.difference is not None
    return row.difference
