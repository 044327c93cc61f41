"""results.md: the tables and the answer as Markdown. The documentation's result pages are these files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dissensus.experiments.description import Experiment, PaperNumber
from dissensus.report.answer import NOT_EVIDENCE
from dissensus.report.charts import Panel
from dissensus.report.comparison import Comparison, Limit, MethodScores, ScoreBlock, SeedValues, how_tested
from dissensus.report.judged_claims import HOW_TO_READ, JudgedClaim, decided_and_waiting, waiting_in_words
from dissensus.report.method_notes import MethodNotes
from dissensus.report.recommendation import Recommendation
from dissensus.report.sections import Scores, Section
from dissensus.report.spending_advice import SpendingAdvice
from dissensus.report.wording import (
    FINISHED_NOTE,
    capital,
    counted,
    direction,
    fixed,
    interval,
    mean_sd,
    paper_value,
    probability,
    signed,
    title,
)


def text(
    experiment: Experiment[str],
    sections: Sequence[Section],
    claims: Sequence[JudgedClaim],
    notes: MethodNotes,
    recommended: Recommendation | SpendingAdvice | None = None,
) -> str:
    """The file's content; it names no time, path or host, so that equal runs give equal text."""
    parts = [f"# {escaped(experiment.title)}"]
    if experiment.scale == "smoke":
        parts.append(f"> **{NOT_EVIDENCE}**")
    parts += [f"*{escaped(experiment.question)}*", *(escaped(note) for note in (*experiment.notes, *notes.notes))]
    if recommended is not None:
        parts += ["## Recommendation", f"**{escaped(recommended.headline)}** {escaped(' '.join(recommended.reasons))}"]
        if recommended.command:
            parts.append(f"```sh\n{recommended.command}\n```")
        if isinstance(recommended, SpendingAdvice):
            parts.append("\n".join(f"![{escaped(p.heading)}]({name})" for name, p in advice_pictures(recommended)))
            parts.append(escaped(recommended.picture.caption))
    if claims:
        decided, waiting = decided_and_waiting(claims)
        parts += ["## Claims", HOW_TO_READ]
        if decided:
            parts.append("\n".join(map(_claim, decided)))
        if waiting:
            texts = "\n".join(f"- {escaped(judged.claim.text)}" for judged in waiting)
            parts.append(f"<details><summary>{waiting_in_words(waiting)}</summary>\n\n{texts}\n\n</details>")
    for section in sections:
        parts += _score_section(section, section.scores) if section.scores else _section(section)
    if experiment.apart:
        parts += ["## Printed in the paper, without a cell here", "\n".join(map(_apart, experiment.apart))]
    comparisons = [section.scores.comparison for section in sections if section.scores]
    if comparisons:
        parts += ["## How to read this", *_reading_notes(comparisons)]
    parts += ["## Set-up", _list(notes.common), _rows(notes)]
    if notes.measures:
        parts += ["### How finished runs were measured", _list(notes.measures)]
    if notes.sizes:
        parts.append(f"Sizes: {escaped('; '.join(notes.sizes))}.")
    if notes.mixed:
        parts.append(f"**Mixed provenance**: {escaped('; '.join(notes.mixed))}.")
    parts.append(escaped(notes.rescored))
    parts += [f"Computed with: {escaped(', '.join(f'{name} {value}' for name, value in notes.versions))}."]
    parts += [f"Made by:\n\n{_code(experiment.command)}"]
    return "\n\n".join(part for part in parts if part) + "\n"


def pictures(section: Section) -> Iterator[tuple[str, Panel]]:
    """The drawings of an exhibit and the files they are written to; those of a score table are on the page alone."""
    panels = [] if section.scores else [panel for figure in section.figures for panel in figure.panels]
    for number, panel in enumerate(panels, start=1):
        yield f"figures/{section.exhibit.key}-{number}.svg", panel


def advice_pictures(advice: SpendingAdvice) -> Iterator[tuple[str, Panel]]:
    """The drawings that an advice stands on, and the files they are written to."""
    for number, panel in enumerate(advice.picture.panels, start=1):
        yield f"figures/advice-{number}.svg", panel


def _score_section(section: Section, scores: Scores) -> Iterator[str]:
    yield f"## {escaped(section.exhibit.title)}"
    yield escaped(section.exhibit.note)
    yield f"**{escaped(scores.answer.headline)}** {escaped(' '.join(scores.answer.details))}".strip()
    for block in scores.comparison.blocks:
        yield from (f"### {capital(block.name)}", _table(scores.comparison, block), escaped(block.note))


def _section(section: Section) -> Iterator[str]:
    yield f"## {escaped(section.exhibit.title)}"
    yield escaped(section.exhibit.note)
    yield "\n".join(f"![{escaped(panel.heading)}]({name})" for name, panel in pictures(section))
    if section.missing:
        yield f"*{counted(section.missing, 'run')} of this exhibit not finished.*"
    if section.grid is not None:
        ruler = tuple((":---" if index == 0 else "---:",) for index in range(len(section.grid.head)))
        rows = [tuple((name,) for name in section.grid.head), ruler, *section.grid.rows]
        yield "\n".join("| " + " | ".join("<br>".join(map(escaped, cell)) for cell in row) + " |" for row in rows)
        yield escaped(section.how_tested)


def _apart(number: PaperNumber) -> str:
    cell = escaped(", ".join(filter(None, (number.part, number.row, title(number.column)))))
    return f"- {cell}: {escaped(paper_value(number))} ({escaped(number.source)})"


def _claim(judged: JudgedClaim) -> str:
    source = f" ({escaped(judged.claim.source)})" if judged.claim.source else ""
    return f"- **{capital(judged.word)}**: {escaped(judged.claim.text)}{source} {escaped(judged.why)}"


def escaped(words: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escaped("a|b *c* <d>"))
    a\|b \*c\* \<d\>
    """
    text = "".join(letter if letter.isprintable() else " " for letter in " ".join(words.split()))
    text = re.sub(r"([\\`*_\[\]<>|#&~$@])", r"\\\1", text)
    text = re.sub(r"(?<=[A-Za-z]):(?=//)|(?<=\bwww)\.", r"\\\g<0>", text)  # else it becomes a link of itself
    return re.sub(r"^([-+](?=\s|$)|-(?=[-\s]+$)|=(?==*$)|\d+(?=[.)](?:\s|$)))", _at_the_start, text)


def _at_the_start(found: re.Match[str]) -> str:
    """A paragraph that would be a list or a line: `- a`, `1. a`, `---`."""
    return f"{found[1]}\\" if found[1].isdecimal() else f"\\{found[1]}"


def _code(text: str) -> str:
    """A block that nothing in it can close."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _table(comparison: Comparison, block: ScoreBlock) -> str:
    has_temperature = any(row.temperature is not None for row in block.rows)
    arrows = {"lower": " ↓", "higher": " ↑"}
    head = [
        "method",
        f"{comparison.table.replicate}s",
        *(f"{escaped(title(name))}{arrows.get(direction(name), '')}" for name in comparison.columns),
    ]
    head += ["T"] if has_temperature else []
    head += [f"Δ {escaped(title(comparison.primary))}", "95% interval", "p", "Holm p"]
    rows = [_row(comparison, block, row, has_temperature=has_temperature) for row in block.rows]
    rows += [_limit(comparison, limit, len(head)) for limit in comparison.limits]
    ruler = [":---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows])


def _row(comparison: Comparison, block: ScoreBlock, row: MethodScores, *, has_temperature: bool) -> list[str]:
    method, seeds = row.method, f"{len(row.method.runs)}"
    if method.missing:
        seeds += f" of {len(method.seeds)}"
    cells = [escaped(method.label), seeds]
    for name in comparison.columns:
        shown = _cell(row.cells[name])
        shown = f"**{shown}**" if method.label in block.best[name] else shown
        printed = comparison.printed.get((method.label, name)) if block.calibration == "raw" else None
        cells.append(f"{shown}<br>paper {escaped(paper_value(printed.number))}" if printed else shown)
    if has_temperature:
        cells.append(fixed(row.temperature.mean, 2) if row.temperature else "–")
    difference = row.difference
    if difference is None:
        return [*cells, "baseline" if method.label == comparison.baseline else "–", "", "", ""]
    tested = interval(difference.low, difference.high), probability(difference.p), probability(difference.p_holm)
    return [*cells, signed(difference.mean), *tested]


def _limit(comparison: Comparison, limit: Limit, width: int) -> list[str]:
    shown = []
    for name in comparison.columns:
        text = _cell(limit.cells[name]) if name in limit.cells else ""
        if text and name in limit.ranges:
            text += "<br>{} to {}".format(*map(fixed, limit.ranges[name]))
        shown.append(text)
    cells = [f"*{limit.label}*", "", *shown]
    return cells + [""] * (width - len(cells))


def _cell(cell: SeedValues) -> str:
    if cell.infinite or cell.is_zero:
        return "∞" if cell.infinite else "0"
    return mean_sd(cell.mean, cell.sd)


def _reading_notes(comparisons: Sequence[Comparison]) -> list[str]:
    limits = {limit.label: limit.meaning for comparison in comparisons for limit in comparison.limits}
    tests = [("Δ", test) for test in how_tested(comparisons)]
    return [_list([("Mean ± sd", FINISHED_NOTE), *tests, *limits.items()])]


def _rows(notes: MethodNotes) -> str:
    rows = (
        (f"{table}: {label}", "; ".join(f"{name} {value}" for name, value in settings))
        for table, label, settings in notes.rows
    )
    return _list((name, value) for name, value in rows if value)


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in pairs)
