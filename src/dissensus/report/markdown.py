"""results.md: the tables and the answer as Markdown. The documentation's result pages are these files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dissensus.experiments.description import Manifest, Printed
from dissensus.report.answer import NOT_EVIDENCE, answer
from dissensus.report.comparisons import Block, Cell, Comparison, Limit, Line, how_tested
from dissensus.report.exhibits import Shown, unplaced
from dissensus.report.judged_claims import HOW_TO_READ, Judged
from dissensus.report.method_notes import Setup
from dissensus.report.panels import Panel
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
    manifest: Manifest,
    tables: Sequence[Comparison],
    exhibits: Sequence[Shown],
    claims: Sequence[Judged],
    done: Setup,
) -> str:
    """The file's content; it names no time, path or host, so that equal runs give equal text."""
    parts = [f"# {escaped(manifest.title)}"]
    if manifest.scale == "smoke":
        parts.append(f"> **{NOT_EVIDENCE}**")
    parts += [f"*{escaped(manifest.question)}*", *(escaped(note) for note in (*manifest.notes, *done.notes))]
    if claims:
        parts += ["## Claims", HOW_TO_READ, "\n".join(map(_claim, claims))]
    for table in tables:
        said = answer(table)
        parts += [f"## {escaped(table.title)}", *([escaped(table.note)] if table.note else [])]
        parts += [f"**{escaped(said.headline)}** {escaped(' '.join(said.details))}".strip()]
        for block in table.blocks:
            parts += [f"### {capital(block.name)}", _table(table, block), escaped(block.note)]
    for one in exhibits:
        parts += _exhibit(one)
    if apart := unplaced(manifest, tables, exhibits):
        parts += ["## Printed, without a cell of ours", "\n".join(map(_apart, apart))]
    if tables:
        parts += ["## How to read this", *_notes(tables)]
    parts += ["## Set-up", _list(done.common), _rows(done)]
    if done.analyses:
        parts += ["### How finished runs were looked at", _list(done.analyses)]
    if done.sizes:
        parts.append(f"Sizes: {escaped('; '.join(done.sizes))}.")
    if done.mixed:
        parts.append(f"**Mixed provenance**: {escaped('; '.join(done.mixed))}.")
    parts += [f"Computed with: {escaped(', '.join(f'{name} {value}' for name, value in done.versions))}."]
    parts += [f"Made by:\n\n```\n{manifest.command}\n```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def pictures(one: Shown) -> Iterator[tuple[str, Panel]]:
    """The drawings of an exhibit and the files they are written to."""
    for number, panel in enumerate(one.figure.panels if one.figure else (), start=1):
        yield f"figures/{one.anchor}-{number}.svg", panel


def _exhibit(one: Shown) -> list[str]:
    parts = [f"## {escaped(one.exhibit.title)}", escaped(one.exhibit.note)]
    parts.append("\n".join(f"![{escaped(panel.heading)}]({name})" for name, panel in pictures(one)))
    if one.missing:
        parts.append(f"*{counted(one.missing, 'run')} of this exhibit not finished.*")
    if one.grid is not None:
        ruler = tuple((":---" if place == 0 else "---:",) for place in range(len(one.grid.head)))
        rows = [tuple((name,) for name in one.grid.head), ruler, *one.grid.rows]
        parts.append("\n".join("| " + " | ".join("<br>".join(map(escaped, cell)) for cell in row) + " |" for row in rows))
        parts.append(escaped(one.how_tested))
    return parts


def _apart(one: Printed) -> str:
    where = escaped(", ".join(filter(None, (one.panel, one.row, title(one.column)))))
    return f"- {where}: {paper_value(one)} ({escaped(one.source)})"


def _claim(one: Judged) -> str:
    source = f" ({escaped(one.claim.source)})" if one.claim.source else ""
    return f"- **{capital(one.word)}**: {escaped(one.claim.text)}{source} {escaped(one.why)}"


def escaped(words: str) -> str:
    r"""Text that Markdown shows as it is.

    >>> print(escaped("a|b *c* <d>"))
    a\|b \*c\* \<d\>
    """
    return re.sub(r"([\\`*_\[\]<>|#&~$])", r"\\\1", " ".join(words.split()))


def _table(table: Comparison, block: Block) -> str:
    has_temperature = any(line.temperature is not None for line in block.lines)
    arrows = {"lower": " ↓", "higher": " ↑"}
    head = ["method", "seeds", *(f"{title(name)}{arrows.get(direction(name), '')}" for name in table.columns)]
    head += ["T"] if has_temperature else []
    head += [f"Δ {title(table.primary)}", "95% interval", "p", "Holm p"]
    rows = [_line(table, block, line, has_temperature=has_temperature) for line in block.lines]
    rows += [_limit(table, limit, len(head)) for limit in table.limits]
    ruler = [":---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ruler, *rows])


def _line(table: Comparison, block: Block, line: Line, *, has_temperature: bool) -> list[str]:
    method, seeds = line.method, f"{len(line.method.runs)}"
    if method.missing:
        seeds += f" of {len(method.seeds)}"
    cells = [escaped(method.label), seeds]
    for name in table.columns:
        shown = _cell(line.cells[name])
        shown = f"**{shown}**" if method.label in block.best[name] else shown
        printed = table.printed.get((method.label, name))
        cells.append(f"{shown}<br>paper {paper_value(printed)}" if printed and block.calibration == "raw" else shown)
    if has_temperature:
        cells.append(fixed(line.temperature.mean, 2) if line.temperature else "–")
    if line.difference is None:
        return [*cells, "baseline" if method.label == table.baseline else "–", "", "", ""]
    one = line.difference
    return [*cells, signed(one.mean), interval(one.low, one.high), probability(one.p), probability(one.p_holm)]


def _limit(table: Comparison, limit: Limit, width: int) -> list[str]:
    cells = [f"*{limit.label}*", "", *(_cell(limit.cells[name]) if name in limit.cells else "" for name in table.columns)]
    return cells + [""] * (width - len(cells))


def _cell(cell: Cell) -> str:
    if cell.infinite or cell.is_zero:
        return "∞" if cell.infinite else "0"
    return mean_sd(cell.mean, cell.sd)


def _notes(tables: Sequence[Comparison]) -> list[str]:
    limits = {limit.label: limit.meaning for table in tables for limit in table.limits}
    tests = [("Δ", test) for test in how_tested(tables)]
    return [_list([("Mean ± sd", FINISHED_NOTE), *tests, *limits.items()])]


def _rows(done: Setup) -> str:
    told = (
        (f"{table}: {label}", "; ".join(f"{name} {value}" for name, value in what)) for table, label, what in done.rows
    )
    return _list((name, value) for name, value in told if value)


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- **{escaped(name)}**: {escaped(value)}" for name, value in pairs)
