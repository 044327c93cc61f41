"""Methods × tables on one metric, as dots: the picture to remember."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dissensus.report import svg
from dissensus.report.comparisons import Cell, Comparison
from dissensus.report.panels import Figure, Panel, limit_line, raw_and_tempered
from dissensus.report.svg import Chart, Margins, Point, group, tag
from dissensus.report.wording import capital, direction, fixed, mean_sd, shortened, title, unit


def dots(tables: Sequence[Comparison], metric: str) -> Figure | None:
    """Methods × tables on one metric: the picture to remember."""
    shown = [table for table in tables if any(raw_and_tempered(method, metric)[0] for method in table.methods)]
    cells = [
        cell
        for table in shown
        for method in table.methods
        for cell in raw_and_tempered(method, metric)
        if cell is not None
    ]
    if not cells:
        return None
    axis = _Axis.of([cell.mean or 0.0 for cell in cells], [end for cell in cells for end in _ends(cell)])
    panels = tuple(Panel(table.title, _dot_panel(table, metric, axis)) for table in shown)
    better = {"lower": "Further left is better.", "higher": "Further right is better."}.get(direction(metric), "")
    caption = (
        f"{title(metric)}{f', in {unit(metric)}' if unit(metric) else ''}: mean over seeds, one standard deviation to "
        f"each side. Filled: as trained. Hollow: with one temperature fitted to held-out votes. {better}"
        f"{' The scale is logarithmic.' if axis.logarithmic else ''}"
    )
    return Figure("picture", f"{capital(title(metric))} at a glance", caption, panels)


@dataclass(frozen=True)
class _Axis:
    """The shared scale of a dot plot; logarithmic where a control would otherwise crowd all others into a corner."""

    bounds: Point
    logarithmic: bool

    @classmethod
    def of(cls, means: Sequence[float], ends: Sequence[float]) -> _Axis:
        if min(means) > 0 and max(means) > 8 * min(means):
            least = min(means) / 2  # a whisker may reach 0, which has no logarithm
            return cls(svg.padded(math.log10(max(end, least)) for end in ends), True)
        return cls(svg.padded(ends), False)

    def place(self, value: float) -> float:
        """In the units of `bounds`, and within them."""
        low, high = self.bounds
        if not self.logarithmic:
            return min(max(value, low), high)
        return min(max(math.log10(value), low), high) if value > 0 else low

    def ticks(self) -> tuple[list[float], list[str]]:
        """Where, and what stands there."""
        low, high = self.bounds
        if not self.logarithmic:
            ticks = svg.nice_ticks(low, high)
            return ticks, svg.tick_labels(ticks)
        round_numbers = [
            float(f"{factor}e{power}") for power in range(math.floor(low), math.ceil(high) + 1) for factor in (1, 2, 5)
        ]
        inside = [number for number in round_numbers if low <= math.log10(number) <= high]
        return [math.log10(number) for number in inside], svg.tick_labels(inside)


def _dot_panel(table: Comparison, metric: str, axis: _Axis) -> Markup:
    pitch, margins, rows = 26.0, Margins(126, 12, 8, 34), len(table.methods)
    height = margins.top + pitch * rows + margins.bottom
    said = ", ".join(
        f"{method.label} {fixed(method.cell(method.checkpoint, 'raw', metric).mean)}" for method in table.methods
    )
    chart = Chart(440, height, axis.bounds, (rows, 0), margins, f"{title(metric)}, {table.title}: {said}")
    ticks, labels = axis.ticks()
    chart.x_axis(ticks, title(metric), labels)
    limit = table.limit(metric)
    if limit is not None:
        edge = limit.cells[metric].mean or 0.0
        if axis.place(edge) > axis.bounds[0]:
            chart.add(limit_line(chart, limit.label, edge, [(axis.place(edge), 0), (axis.place(edge), rows)]))
    for index, method in enumerate(table.methods):
        _, y = chart.at(axis.bounds[0], index + 0.5)
        pieces = [tag("text", shortened(method.label, 18), x=margins.left - 8, y=y + 4, class_="name", text_anchor="end")]
        told: list[str] = []
        for cell, css, name in zip(
            raw_and_tempered(method, metric), ("mark", "hollow"), ("as trained", "tempered"), strict=True
        ):
            if cell is None:
                continue
            told.insert(0, f"{name} {mean_sd(cell.mean, cell.sd)}")
            whisker = chart.line([(axis.place(end), index + 0.5) for end in _ends(cell)], class_="whisker")
            pieces[1:1] = [
                whisker,
                svg.marker(chart.at(axis.place(cell.mean or 0.0), index + 0.5), method.style.shape, 5, class_=css),
            ]
        if told:
            chart.add(chart.line([(end, index + 0.5) for end in axis.bounds], class_="grid"))
        else:
            pieces.append(tag("text", "not finished", x=margins.left + 6, y=y + 4, class_="tick"))
        chart.add(group(method.style, *pieces, tooltip=f"{method.label}: {' · '.join(told) or 'not finished'}"))
    return chart.render()


def _ends(cell: Cell) -> Point:
    mean, sd = cell.mean or 0.0, cell.sd or 0.0
    return mean - sd, mean + sd
