"""The answer in sentences, computed from a comparison. It claims what the numbers carry, and says what they cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dissensus import stats
from dissensus.report.comparisons import LEVEL, Block, Comparison, Difference, Line, Verdict
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


def answer(table: Comparison) -> Answer:
    """What this table says about its primary metric, each method against the baseline."""
    if not any(method.runs for method in table.methods):
        return Answer("No run of this table is finished.", ())
    block = table.blocks[0]
    details = [*_after_tempering(table, block), *_truth(table), *_missing(table, block)]
    base = block.line(table.baseline)
    if base is None or not base.cells[table.primary].values:
        return Answer(
            f"The baseline, {table.baseline}, is not finished: there is nothing to compare with.", tuple(details)
        )
    compared = [line for line in block.lines if line.difference is not None]
    if not compared:
        return Answer(f"Only {table.baseline} has finished: there is nothing to compare it with.", tuple(details))
    if max(len(_difference(line).values) for line in compared) == 1:
        return Answer(_one_seed(table, block), tuple(details))
    return Answer(_headline(table, compared), (*_room(table, compared), *details))


def _headline(table: Comparison, lines: Sequence[Line]) -> str:
    of: dict[Verdict, list[Line]] = {}
    for line in sorted(lines, key=lambda line: abs(_difference(line).mean)):
        of.setdefault(_difference(line).verdict, []).append(line)
    parts, most = [], _most_seeds(lines)
    if same := [_with_fewer_seeds(line, most) for line in of.get("indistinguishable", [])]:
        parts.append(f"{listed(same)} {'is' if len(same) == 1 else 'are'} indistinguishable from {table.baseline}")
    for verdict in ("better", "worse"):
        if clear := of.get(verdict, []):
            than = "" if parts else f" than {table.baseline}"
            first, *others = clear
            gaps = [f"{first.method.label} is {verdict}{than} by {_gap(first, table.primary, spelt_out=True)}"]
            gaps += [f"{line.method.label} by {_gap(line, table.primary, spelt_out=False)}" for line in others]
            parts.append(listed(gaps))
    for line in of.get("suggestive", []):
        one = _difference(line)
        leaning = "worse" if one.mean * one.worse > 0 else "better"
        than = "" if parts else f" than {table.baseline}"
        parts.append(
            f"{line.method.label} looks {leaning}{than} by {_gap(line, table.primary, spelt_out=not parts)}, but not "
            f"once all rows are accounted for (Holm {p_value(one.p_holm)})"
        )
    if untested := [line.method.label for line in of.get("untested", [])]:
        parts.append(f"{listed(untested)} cannot be tested (one seed, or differences that do not vary)")
    return f"On {title(table.primary)}, {'; '.join(parts)}."


def _most_seeds(lines: Sequence[Line]) -> int:
    return max(len(_difference(line).values) for line in lines)


def _with_fewer_seeds(line: Line, most: int) -> str:
    """The row's name, and how many seeds it has where others have more."""
    seeds = len(_difference(line).values)
    return line.method.label if seeds == most else f"{line.method.label} (of {counted(seeds, 'seed')})"


def _gap(line: Line, metric: str, *, spelt_out: bool) -> str:
    """`0.21 nats (95% interval 0.18 to 0.24)`, or without the words; as many decimals as the interval supports."""
    one = _difference(line)
    low, high = sorted(abs(end or 0.0) for end in (one.low, one.high))  # of one sign, or nothing would be claimed
    digits = max(
        1, *(-math.floor(math.log10(size)) for size in ((high - low) / 2, low) if size > 0)
    )  # low is never shown as 0
    size, interval = fixed(abs(one.mean), digits), f"{fixed(low, digits)} to {fixed(high, digits)}"
    if not spelt_out:
        return f"{size} ({interval})"
    return f"{size}{f' {unit(metric)}' if unit(metric) else ''} ({LEVEL:.0%} interval {interval})"


def _room(table: Comparison, lines: Sequence[Line]) -> list[str]:
    """What could hide behind an "indistinguishable", and what such a design could have shown at best."""
    sentences, seeds = [], _most_seeds(lines)
    alike = [line for line in lines if _difference(line).verdict == "indistinguishable"]
    if alike:
        groups = [[line for line in alike if len(_difference(line).values) == size] for size in range(seeds, 0, -1)]
        hidden = [_hidden(table, group, seeds) for group in groups if group]
        sentences.append(
            f"Indistinguishable means that the {LEVEL:.0%} interval holds 0, not that there is no difference: "
            f"{'; '.join(hidden)}."
        )
    for way in ("worse", "better"):
        if one_way := [line.method.label for line in alike if _goes(line, way)]:
            verb = "is" if len(one_way) == 1 else "are"
            sentences.append(f"{listed(one_way)} {verb} {way} in every seed, though not by enough to tell.")
    reach = stats.power(seeds, len(lines))
    if not reach.can_be_significant:
        sentences.append(
            "Without the t test's assumption of nearly normal differences nothing could be shown: by ranks alone (exact "
            f"Wilcoxon) {counted(seeds, 'seed')} reach {p_value(reach.best_p)} at best, and "
            f"{probability(reach.best_p_after_holm)} after Holm over {counted(len(lines), 'row')}. It would take "
            f"{reach.seeds_needed} seeds."
        )
    return sentences


def _hidden(table: Comparison, lines: Sequence[Line], most: int) -> str:
    """How large a difference the widest interval of these rows leaves room for."""
    widest = max(abs(end or 0.0) for line in lines for end in (_difference(line).low, _difference(line).high))
    size = f"{significant(widest)}{f' {unit(table.primary)}' if unit(table.primary) else ''}"
    seeds = len(_difference(lines[0]).values)
    return f"up to {size} could hide there" if seeds == most else f"with {counted(seeds, 'seed')} up to {size}"


def _goes(line: Line, way: str) -> bool:
    """Whether every seed says so; fewer than three are too easily of one mind."""
    one, sign = _difference(line), {"worse": 1, "better": -1}[way]
    return len(one.values) > 2 and all(value * one.worse * sign > 0 for value in one.values.values())


def _one_seed(table: Comparison, block: Block) -> str:
    known = [line for line in block.lines if line.cells[table.primary].values]
    means = ", ".join(f"{line.method.label} {fixed(line.cells[table.primary].mean)}" for line in known)
    superlative = "highest" if direction(table.primary) == "higher" else "lowest"
    leaders = [f"{label} has the {superlative} {title(table.primary)}" for label in sorted(block.best[table.primary])]
    if not leaders:  # rows with fewer seeds than another are no leaders
        return f"{means}: with one pair of equal seeds no test is possible."
    return f"{listed(leaders)} ({means}), but with one seed no test is possible: the order may be chance."


def _after_tempering(table: Comparison, block: Block) -> list[str]:
    """The sceptic's first question: how much of a gap does one temperature close?"""
    tempered = table.block(TO_VOTES)
    if tempered is None:
        return []
    changes = []
    for line, after in zip(block.lines, tempered.lines, strict=True):
        if line.difference is None or after.difference is None or line.difference.verdict not in ("better", "worse"):
            continue
        before, now = (fixed(one.mean * one.worse) for one in (line.difference, after.difference))
        alike = " (indistinguishable)" if after.difference.verdict == "indistinguishable" else ""
        changes.append(f"{line.method.label} {before} → {now}{alike}")
    if not changes:
        return []
    told = ", ".join(changes)
    return [f"What one temperature fitted to held-out votes does to the gaps, {table.baseline} tempered too: {told}."]


def _truth(table: Comparison) -> list[str]:
    """Where the crowd is simulated its true distribution is known, and the noise of the votes blurs nothing."""
    lines = [line for line in table.blocks[0].lines if "kl_to_truth" in line.cells]
    means = {line.method.label: line.cells["kl_to_truth"].mean for line in lines}
    known = sorted((mean, label) for label, mean in means.items() if mean is not None)
    if len(known) < 2:
        return []
    closest = f"{known[0][1]}, at a KL of {fixed(known[0][0])} nats"
    base = means.get(table.baseline)
    beside = f" ({table.baseline}: {fixed(base)})" if base is not None and known[0][1] != table.baseline else ""
    return [f"Closest to the true distribution, which is known because the crowd is simulated: {closest}{beside}."]


def _missing(table: Comparison, block: Block) -> list[str]:
    """What is not in the means, and why."""
    endless = [line.method.label for line in block.lines if line.cells[table.primary].infinite]
    sentences = []
    if endless:
        sentences.append(
            f"The {title(table.primary)} of {listed(endless)} is infinite on some items (a class that people chose has "
            "probability 0), so it has no mean and cannot be compared."
        )
    gaps = [
        f"{method.label} ({'seed' if len(method.missing) == 1 else 'seeds'} {', '.join(map(str, method.missing))})"
        for method in table.methods
        if method.missing
    ]
    return [*sentences, *([f"Not finished, and left out of every mean: {', '.join(gaps)}."] if gaps else [])]


def _difference(line: Line) -> Difference:
    assert line.difference is not None
    return line.difference
