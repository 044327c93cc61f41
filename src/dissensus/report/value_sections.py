"""Exhibits of values read from runs, drawn: tables with or without a picture, curves, bars. From records alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypedDict

import numpy as np

from dissensus import stats
from dissensus.errors import InputError
from dissensus.experiments.description import BarChart, Curve, CurvePlot, Exhibit, Printed, Statistic, ValueTable
from dissensus.experiments.values import Value, as_type
from dissensus.report import png
from dissensus.report.charts import (
    Axis,
    DotAxis,
    Dots,
    Figure,
    Line,
    Panel,
    Path,
    Voice,
    bar_chart,
    dot_chart,
    mean_dots,
    plot,
)
from dissensus.report.comparison import LEVEL, paired_test, split_is_resampled
from dissensus.report.results_csv import CsvLine, spelled
from dissensus.report.sections import Grid, RunCells, Section, finished, numbers, read_cells
from dissensus.report.svg import Style, padded
from dissensus.report.training_sources import training_runs
from dissensus.report.wording import (
    MINUS,
    fixed,
    how_cells_are_tested,
    interval,
    mean_sd,
    paper_value,
    probability,
)
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run

Numbers = list[float | None]
Replicated = Mapping[str, Run | None]
CellKey = tuple[str, str, str]
"""(row, point, heading of the column)"""


def table_section(table: ValueTable[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """A row per series, a column per point and value; and the picture that it asks for."""
    cells = read_cells(table, runs)
    tested, how_tested = _tests(table, cells, runs)
    printed = {(number.row, number.point, number.value, number.statistic): number for number in table.printed}
    points = list(dict.fromkeys(point for row in cells.values() for point in row))
    headings = [f"{point}: {name}" if len(points) > 1 else name for point in points for name in table.columns]
    rows, lines = [], list[CsvLine]()
    for row, of_point in cells.items():
        texts: list[tuple[str, ...]] = [(row,)]
        for point in points:
            for heading, value in table.columns.items():
                replicates = of_point.get(point, {})
                cell = _Cell(table, printed, row, point, value)
                if words := _words(replicates, value):
                    texts.append((words, *cell.paper("mean")))
                    continue
                values = numbers(value, replicates)
                lines += csv_lines(table, row, point, value, values)
                base = numbers(value, cells.get(table.baseline, {}).get(point, {}))
                test = tested.get((row, point, heading), "")
                if table.picture == "differences" and (test_of_zero := from_zero(replicates, values, runs)) is not None:
                    test = f"{LEVEL:.0%} interval {interval(test_of_zero.low, test_of_zero.high)}"
                elif test:
                    test += "".join(f", {text.replace('paper', 'paper p')}" for text in cell.paper("p"))
                texts.append(
                    tuple(filter(None, (_mean(values), test, *cell.paper("mean"), *cell.statistics(values, base))))
                )
        rows.append(tuple(texts))
    known, missing = finished(cells)
    panels = list[Panel]()
    if table.picture == "differences":
        panels = _difference_panels(table, cells, styles, runs)
    elif table.picture != "none":
        panels = {"dots": _dot_panels, "lines": _line_panels}[table.picture](table, cells, styles)
    return Section(
        table,
        known,
        missing,
        tuple(lines),
        figures(table, panels),
        Grid(("", *headings), tuple(rows)),
        how_tested,
    )


@dataclass(frozen=True)
class _Cell:
    """A cell of a table, and what a paper prints of it."""

    table: ValueTable[str]
    printed: Mapping[tuple[str, str, str, Statistic], Printed]
    row: str
    point: str
    value: Value

    def paper(self, statistic: Statistic) -> tuple[str, ...]:
        printed = self.printed.get((self.row, self.point, self.value.name, statistic))
        return (f"paper {paper_value(printed.number)}",) if printed else ()

    def statistics(self, values: Mapping[str, float], base: Mapping[str, float]) -> Iterator[str]:
        """Those that the paper prints of a cell beside its mean, ours first."""
        below = {name: base[name] - value for name, value in values.items() if name in base}
        parts: tuple[tuple[Statistic, str, Mapping[str, float]], ...] = (
            ("lowest", "lowest", {"": min(values.values())} if values else {}),
            ("highest", "highest", {"": max(values.values())} if values else {}),
            ("below", f"below {self.table.baseline} by", below),  # with the paper's sign: negative where it is above
        )
        for statistic, words, ours in parts:
            for text in self.paper(statistic):
                yield f"{words} {_mean(ours)}, {text}"


def _mean(values: Mapping[str, float]) -> str:
    return spoken(list(values.values())) if values else "–"


def _words(replicates: Replicated, value: Value) -> str:
    """The different words that runs have for a value; empty where they have numbers."""
    contents = (value.read(run) for run in replicates.values() if run is not None)
    return " / ".join(dict.fromkeys(content for content in contents if isinstance(content, str)))


def spoken(values: Sequence[float]) -> str:
    """`0.412 ± 0.011`, with as many decimals as the size of the mean asks for.

    Numbers that are equal in every run are written once. Counts have one decimal in their mean, and none alone.

    >>> spoken([36.0, 36.0]), spoken([28.0, 29.0]), spoken([0.41, 0.43]), spoken([127509719040000.0, 127509719040000.0])
    ('36', '28.5 ± 0.7', '0.420 ± 0.014', '1.275e14')
    """
    summary = stats.mean_sd(values)
    mean, sd = summary.mean, summary.sd or None  # equal in every run: as if it were one
    if sd is None and abs(mean) >= 1e7:
        return f"{mean:.4g}".replace("e+", "e")
    if sd is None and mean.is_integer():
        return f"{mean:,.0f}".replace("-", MINUS)
    if max(abs(mean), sd or 0.0) >= 100:
        return (f"{mean:,.0f}" if sd is None else f"{mean:,.0f} ± {sd:,.0f}").replace("-", MINUS)
    if sd is not None and all(value.is_integer() for value in map(float, values)):
        return f"{fixed(mean, 1)} ± {fixed(sd, 1)}"
    if 0 < abs(mean) < 0.01:
        return (f"{mean:.2g}" if sd is None else f"{mean:.2g} ± {sd:.2g}").replace("-", MINUS)
    return mean_sd(mean, sd)


def csv_lines(
    exhibit: Exhibit[str], row: str, point: str, value: Value, values: Mapping[str, float]
) -> Iterator[CsvLine]:
    """The values of a cell, their mean and their sd."""

    def line(statistic: str, number: float, replicate: str = "") -> CsvLine:
        return CsvLine(exhibit.title, row, "", point, "", value.key, statistic, replicate, spelled(number))

    for replicate, number in values.items():
        yield line("value", number, replicate)
    if values:
        summary = stats.mean_sd(list(values.values()))
        yield line("mean", summary.mean)
        if summary.sd is not None:
            yield line("sd", summary.sd)


def _tests(table: ValueTable[str], cells: RunCells, runs: RunSource) -> tuple[dict[CellKey, str], str]:
    """Against the baseline, in pairs: the exact Wilcoxon test and a t test; and how to read them."""
    ranks, t_tests, resampled = dict[CellKey, float](), dict[CellKey, str](), False
    for row, of_point in cells.items() if table.baseline else ():
        if row == table.baseline:
            continue
        for point, replicates in of_point.items():
            for heading, value in table.columns.items():
                if _words(replicates, value):
                    continue
                ours, base = numbers(value, replicates), numbers(value, cells[table.baseline].get(point, {}))
                shared = [name for name in ours if name in base]
                if len(shared) < 2:
                    continue
                mine, theirs = [ours[name] for name in shared], [base[name] for name in shared]
                paired = [replicates[name] for name in shared]
                behind = [source for run in paired if run is not None for source in training_runs(run, runs)[:1]]
                resampled = resampled or split_is_resampled(behind)
                cell = row, point, heading
                ranks[cell] = stats.wilcoxon(mine, theirs, alternative=table.alternative).p
                t_tests[cell] = probability(paired_test(mine, theirs, behind, table.alternative).p)
    holm = dict(zip(ranks, stats.holm(list(ranks.values())), strict=True))
    words = {cell: f"p {probability(p)}, Holm {probability(holm[cell])}, t {t_tests[cell]}" for cell, p in ranks.items()}
    return words, how_cells_are_tested(table.baseline, table.alternative, resampled=resampled) if ranks else ""


def _dot_panels(table: ValueTable[str], cells: RunCells, styles: Mapping[str, Style]) -> list[Panel]:
    printed = {(p.row, p.point, p.value): p.number.mean for p in table.printed if p.statistic == "mean"}
    panels = []
    for heading, value in table.columns.items():
        rows = []
        for row, of_point in cells.items():
            for point, replicates in of_point.items():
                label = row if len(of_point) == 1 else f"{row}, {point}"
                if values := list(numbers(value, replicates).values()):
                    rows.append(mean_dots(label, styles[row], values, printed.get((row, point, value.name))))
        if rows:
            panels.append(dot_chart(heading, rows, DotAxis.of(rows)))
    return panels


def _difference_panels(
    table: ValueTable[str], cells: RunCells, styles: Mapping[str, Style], runs: RunSource
) -> list[Panel]:
    printed = {(p.row, p.point, p.value): p.number.mean for p in table.printed if p.statistic == "mean"}
    panels = []
    for heading, value in table.columns.items():
        rows = []
        for row, of_point in cells.items():
            for point, replicates in of_point.items():
                label = row if len(of_point) == 1 else f"{row}, {point}"
                values = numbers(value, replicates)
                if not values:
                    continue
                test = from_zero(replicates, values, runs)
                rows.append(difference_dots(label, styles[row], values, test, printed.get((row, point, value.name))))
        panels += difference_panel(heading, rows)
    return panels


def difference_dots(
    label: str, style: Style, values: Mapping[str, float], test: stats.TTest | None, printed: float | None = None
) -> Dots:
    """A mean of differences, with its interval where there is one."""
    mean = fmean(values.values())
    reach = None if test is None or test.high is None else test.high - mean
    return Dots(label, style, (), ((mean, reach, "mark"),), printed, label)


def difference_panel(heading: str, rows: Sequence[Dots]) -> list[Panel]:
    """Differences around a line at 0; nothing where there is none."""
    ends = [end for row in rows for end in (*row.ends, 0.0)]
    return [dot_chart(heading, rows, DotAxis(padded(ends)), ("no difference", 0.0))] if rows else []


def from_zero(replicates: Replicated, values: Mapping[str, float], runs: RunSource) -> stats.TTest | None:
    """The test of differences against 0; None where there are fewer than two."""
    if len(values) < 2:
        return None
    present = [replicates[name] for name in values]
    behind = [source for run in present if run is not None for source in training_runs(run, runs)[:1]]
    return paired_test(list(values.values()), [0.0] * len(values), behind)


def _line_panels(table: ValueTable[str], cells: RunCells, styles: Mapping[str, Style]) -> list[Panel]:
    panels = []
    for heading, value in table.columns.items():
        lines = []
        for row, of_point in cells.items():
            means = [(float(point), list(numbers(value, runs).values())) for point, runs in of_point.items()]
            path = [(x, fmean(values), stats.mean_sd(values).sd or 0.0) for x, values in means if values]
            lines.append(Line(row, styles[row], path))
        if any(line.path for line in lines):
            panels.append(plot(heading, lines, x=Axis(table.axes[0]), y=Axis(table.axes[1])))
    return panels


def curve_section(exhibit: CurvePlot[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """One panel per curve, one line per series and point."""
    cells = read_cells(exhibit, runs)
    panels, numbered = [], []
    for heading, curve in exhibit.curves.items():
        lines = []
        for row, of_point in cells.items():
            for point, replicates in of_point.items():
                path = _mean_curve([run for run in replicates.values() if run is not None], curve)
                label = row if len(of_point) == 1 else f"{row}, {point}"
                if path:
                    lines.append(Line(label, styles[row], path))
                    numbered += [
                        CsvLine(exhibit.title, row, "", point, "", curve.y.key, "mean", f"{x:g}", spelled(mean))
                        for x, mean, _ in path
                    ]
        if lines:
            panels.append(plot(heading, lines, x=Axis(exhibit.axes[0]), y=Axis(exhibit.axes[1])))
    known, missing = finished(cells)
    return Section(exhibit, known, missing, tuple(numbered), figures(exhibit, panels))


def _mean_curve(runs: Sequence[Run], curve: Curve) -> Path:
    """Over the points that every run has, None left out; without an x, points count from 1."""
    ys: list[Numbers] = [as_type(curve.y, run, Numbers | None) or [] for run in runs]
    xs: list[Numbers] = [
        [float(index) for index in range(1, len(y) + 1)]
        if curve.x is None
        else as_type(curve.x, run, Numbers | None) or []
        for run, y in zip(runs, ys, strict=True)
    ]
    shortest = min((min(len(x), len(y)) for x, y in zip(xs, ys, strict=True)), default=0)
    path = []
    for index in range(shortest):
        both = [(x[index], y[index]) for x, y in zip(xs, ys, strict=True)]
        points = [(x, y) for x, y in both if x is not None and y is not None]
        if points:
            values = [y for _, y in points]
            path.append((fmean(x for x, _ in points), fmean(values), stats.mean_sd(values).sd or 0.0))
    return path


class _BarItem(TypedDict):
    """What a bar chart shows of an item."""

    name: str
    said: str
    classes: list[str]
    shares: dict[str, list[float]]


def _bar_items(exhibit: BarChart[str], run: Run) -> Sequence[_BarItem]:
    items: list[_BarItem] = as_type(exhibit.items, run, list[_BarItem] | None) or []
    for item in items:
        parts = list(item["shares"].values())
        if not item["classes"] or not parts or any(len(shares) != len(item["classes"]) for shares in parts):
            raise InputError(f"{item['name']!r} has not one share per class", where=f"run {run.id}", state="")
        if not all(0 <= share < 1.001 for shares in parts for share in shares) or not any(map(any, parts)):
            raise InputError(f"{item['name']!r} has shares that are no shares", where=f"run {run.id}", state="")
    return items


def _pictures(run: Run | None, items: int, runs: RunSource) -> Sequence[str]:
    """An address per item; empty where the run kept no pictures of just these items."""
    arrays = None if run is None else runs.gallery(run.id)
    if arrays is None or arrays["x"].ndim != 4 or len(arrays["x"]) != items:
        return [""] * items
    return [png.data_uri(image) for image in arrays["x"]]


def bar_section(exhibit: BarChart[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """One panel per item, with its picture where the run kept those of its items."""
    cells = read_cells(exhibit, runs)
    panels, lines = [], []
    for row, of_point in cells.items():
        for point, replicates in of_point.items():
            first = next(iter(replicates.values()), None)
            items = _bar_items(exhibit, first) if first is not None else []
            pictures = _pictures(first, len(items), runs)
            for item, picture in zip(items, pictures, strict=True):
                voices = [
                    Voice(name, np.array(shares), styles.get(name, Style(index - 1)) if index else None)
                    for index, (name, shares) in enumerate(item["shares"].items())
                ]
                drawing = bar_chart(voices, item["classes"], item["name"], picture)
                panels.append(Panel(item["name"], drawing, item["said"]))
                lines += [
                    CsvLine(
                        exhibit.title, row, "", point, "", f"{item['name']}: {name}", "share", class_name, spelled(share)
                    )
                    for name, shares in item["shares"].items()
                    for class_name, share in zip(item["classes"], shares, strict=True)
                ]
    known, missing = finished(cells)
    return Section(exhibit, known, missing, tuple(lines), figures(exhibit, panels, "small"))


def figures(exhibit: Exhibit[str], panels: Sequence[Panel], shape: str = "wide") -> tuple[Figure, ...]:
    """Without a heading of its own: it stands alone in a section of that name."""
    return (Figure(f"{exhibit.key}-figure", "", exhibit.note, tuple(panels), shape),) if panels else ()
