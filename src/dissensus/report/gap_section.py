"""Gaps between two methods, one row per situation, in pairs and drawn with intervals. From records alone."""

from __future__ import annotations

from collections.abc import Mapping

from dissensus.experiments.description import GapTable
from dissensus.report.comparison import LEVEL
from dissensus.report.results_csv import CsvLine
from dissensus.report.sections import Grid, Section, finished, numbers, read_cells
from dissensus.report.svg import Style
from dissensus.report.value_sections import csv_lines, difference_dots, difference_panel, figures, from_zero, spoken
from dissensus.report.wording import interval
from dissensus.store.run_source import RunSource


def gap_section(table: GapTable[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """A row per situation, a column per value: the gap, its interval, and the two means behind it."""
    cells = read_cells(table, runs)
    base, other = table.compared
    grid, lines = {row: [(row,)] for row in cells}, list[CsvLine]()
    panels = []
    for heading, value in table.columns.items():
        drawn = []
        for row, of_point in cells.items():
            values = {point: numbers(value, replicates) for point, replicates in of_point.items()}
            for point, of_runs in values.items():
                lines += csv_lines(table, row, point, value, of_runs)
            gap = {name: number - values[base][name] for name, number in values[other].items() if name in values[base]}
            if not gap:
                grid[row].append(("–",))
                continue
            test = from_zero(of_point[other], gap, runs)
            lines += csv_lines(table, row, f"{other} minus {base}", value, gap)
            reach = () if test is None else (f"{LEVEL:.0%} interval {interval(test.low, test.high)}",)
            means = ", ".join(f"{point} {spoken([values[point][name] for name in gap])}" for point in (base, other))
            pairs = f"{len(gap)} pair{'s' if len(gap) > 1 else ''}"
            grid[row].append((spoken(list(gap.values())), *reach, means, pairs))
            drawn.append(difference_dots(row, styles[row], gap, test))
        panels += difference_panel(heading, drawn)
    known, missing = finished(cells)
    rows = tuple(tuple(row) for row in grid.values())
    head = ("", *table.columns)
    return Section(table, known, missing, tuple(lines), figures(table, panels), Grid(head, rows))
