"""The charts of a report, one function per kind: `plot` (lines, bands, dots of items), `dot_chart`, `bar_chart`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dissensus.report import svg
from dissensus.report.svg import Chart, Margins, Point, Style, group, tag
from dissensus.report.wording import MINUS, fixed, shortened, significant

Path = Sequence[tuple[float, float, float]]
"""(x, mean, sd)"""

LEGEND_LINE = 13.0  # height of a line of the legend
MANY_POINTS = 12  # a line with more has a marker at its end only
SHOWN_CLASSES = 12  # with more classes, the ones that anybody gives the largest share are drawn


@dataclass(frozen=True)
class Panel:
    """One drawing, its heading, and the method it is about, where it is about one."""

    heading: str
    drawing: Markup
    note: str = ""
    style: Style | None = None


@dataclass(frozen=True)
class Figure:
    """Drawings side by side under one caption. `shape` names the grid: `wide` or `small` panels."""

    anchor: str
    heading: str
    caption: str
    panels: tuple[Panel, ...]
    shape: str = "wide"


@dataclass(frozen=True)
class Line:
    """A line of a plot. `thin` is for a second line of the same method; `specks` are single items behind it."""

    label: str
    style: Style
    path: Path
    thin: bool = False
    markers: bool = True
    specks: Sequence[Point] = ()
    hill: Sequence[Point] = ()


@dataclass(frozen=True)
class Guide:
    """A dashed line that is no method: a limit, a diagonal."""

    label: str
    points: tuple[Point, Point]


@dataclass(frozen=True)
class Axis:
    """`bounds` and `ticks` are found from the data where they are not given; `labels` stand in place of numbers."""

    title: str = ""
    bounds: Point | None = None
    ticks: Sequence[float] | None = None
    labels: Sequence[str] | None = None


def plot(
    heading: str,
    lines: Sequence[Line],
    *,
    x: Axis = Axis(),  # noqa: B008 - frozen
    y: Axis = Axis(),  # noqa: B008
    guides: Sequence[Guide] = (),
    legend: bool = True,
    square: bool = False,
    label: str = "",
    note: str = "",
    style: Style | None = None,
    clip: str = "",
) -> Panel:
    """Lines through means, in bands of one standard deviation. `clip`, a name unique in the page, cuts them at the frame.

    The legend stands inside the drawing, so that a figure taken out of the page still says what its lines are.
    """
    points = [point for line in lines for point in line.path]
    own = sorted({at for at, _, _ in points})
    x_bounds = x.bounds or svg.padded(own, share=0.02)
    y_bounds = y.bounds or svg.padded([mean + sign * sd for _, mean, sd in points for sign in (-1, 1)])
    few = len(own) <= 6 and all(float(at).is_integer() for at in own)  # votes, epochs: their own places, not round ones
    x_ticks = x.ticks or (own if few else svg.nice_ticks(*x_bounds, 6))
    room = LEGEND_LINE * len(lines) if legend else 0.0
    width, height = (205.0, 205.0) if square else (400.0, 250.0)
    top = 20 if y.title else 8
    margins = Margins(26, 8, 8, 32) if square else Margins(44, 10, top, 34 + room)
    ends = "; ".join(f"{line.label} ends at {compact(line.path[-1][1])}" for line in lines if line.path)
    chart = Chart(width, height + room, x_bounds, y_bounds, margins, label or f"{heading}: {ends}")
    chart.y_axis(y.ticks or svg.nice_ticks(*y_bounds), y.title)
    chart.x_axis(x_ticks, "", x.labels)
    middle = (margins.left + width - margins.right) / 2
    chart.add(
        tag("text", x.title, x=middle, y=chart.height - room - (3 if square else 6), class_="axis", text_anchor="middle")
    )
    for guide in guides:
        chart.add(tag("g", tag("title", guide.label) + chart.line(guide.points, class_="limit")))
    side_by_side, drawn = len(own) == 1 and len(lines) > 1, list[Markup]()
    for index, line in enumerate(line for line in lines if line.path):
        path = line.path
        if side_by_side:
            shift = (index - (len(lines) - 1) / 2) * 0.05 * (x_bounds[1] - x_bounds[0])
            path = [(at + shift, mean, sd) for at, mean, sd in path]
        pieces = _line_pieces(chart, line, path)
        if legend:
            pieces += _legend_line(chart, index, len(lines), line)
        drawn.append(group(line.style, *pieces, tooltip=f"{line.label}: {compact(path[-1][1])} at the end"))
    if clip:
        frame = {"x": margins.left, "y": 4, "width": width - margins.left - 2, "height": height - margins.bottom - 2}
        chart.add(tag("clipPath", tag("rect", **frame), id=clip))
        drawn = [tag("g", Markup("").join(drawn), clip_path=f"url(#{clip})")]
    chart.add(*drawn)
    return Panel(heading, chart.render(), note, style)


def _line_pieces(chart: Chart, line: Line, path: Path) -> list[Markup]:
    pieces = []
    if line.hill:
        pieces.append(chart.area([(at, 0.0) for at, _ in line.hill], line.hill, class_="band"))
    if line.specks:
        pieces.append(tag("path", d=svg.specks(chart.at(*speck) for speck in line.specks), class_="specks"))
    if any(sd for _, _, sd in path):
        lower, upper = ([(at, mean + sign * sd) for at, mean, sd in path] for sign in (-1, 1))
        alone = len(path) == 1  # a band would have no width
        pieces.append(chart.line([*lower, *upper], class_="line") if alone else chart.area(lower, upper, class_="band"))
    means = [(at, mean) for at, mean, _ in path]
    dash = None if line.thin else line.style.dash if not line.specks and not line.hill else None
    pieces.append(chart.line(means, class_="line thin" if line.thin else "line", stroke_dasharray=dash))
    if line.markers:
        marked = means if len(means) <= MANY_POINTS else means[-1:]
        pieces += [svg.marker(chart.at(*point), line.style.shape, 3.5, class_="mark") for point in marked]
    return pieces


def _legend_line(chart: Chart, index: int, lines: int, line: Line) -> list[Markup]:
    y = chart.height - LEGEND_LINE * (lines - index) + 9
    stroke = tag("path", d=svg.path([(44, y - 4), (68, y - 4)]), class_="line", stroke_dasharray=line.style.dash)
    mark = svg.marker((56, y - 4), line.style.shape, 3.5, class_="mark")
    return [stroke, mark, tag("text", line.label, x=75, y=y, class_="tick")]


@dataclass(frozen=True)
class Dots:
    """A row of a dot chart: single runs as small dots, `means` as (mean, sd or None, look), and what a paper prints."""

    label: str
    style: Style
    runs: Sequence[float] = ()
    means: Sequence[tuple[float, float | None, Literal["mark", "hollow"]]] = ()
    printed: float | None = None
    tooltip: str = ""

    @property
    def ends(self) -> list[float]:
        """Every value that must fit on the axis."""
        whiskers = [mean + sign * (sd or 0.0) for mean, sd, _ in self.means for sign in (-1, 1)]
        return [*self.runs, *whiskers, *(() if self.printed is None else (self.printed,))]


@dataclass(frozen=True)
class DotAxis:
    """The shared scale of dot charts; logarithmic where a control would otherwise crowd all others into a corner."""

    bounds: Point
    logarithmic: bool = False
    title: str = ""

    @classmethod
    def of(cls, rows: Sequence[Dots], title: str = "", *, logarithmic: bool = False) -> DotAxis:
        """Wide enough for all rows; logarithmic if it may be and one mean is more than 8 times another."""
        means = [mean for row in rows for mean, _, _ in row.means]
        ends = [end for row in rows for end in row.ends]
        if logarithmic and min(means) > 0 and max(means) > 8 * min(means):
            least = min(means) / 2  # a whisker may reach 0, which has no logarithm
            return cls(svg.padded(math.log10(max(end, least)) for end in ends), True, title)
        return cls(svg.padded(ends), False, title)

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
        powers = range(math.floor(low), math.ceil(high) + 1)
        round_numbers = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
        inside = [number for number in round_numbers if low <= math.log10(number) <= high]
        return [math.log10(number) for number in inside], svg.tick_labels(inside)


def dot_chart(heading: str, rows: Sequence[Dots], axis: DotAxis, guide: tuple[str, float] | None = None) -> Panel:
    """One row per series: every run a small hollow dot, means larger, and a dashed bar where a paper prints its own."""
    margins = Margins(140, 14, 8, 34 if axis.title else 30)
    height = margins.top + 26.0 * len(rows) + margins.bottom
    means = "; ".join(f"{row.label} {compact(row.means[0][0]) if row.means else 'not finished'}" for row in rows)
    chart = Chart(440, height, axis.bounds, (len(rows), 0), margins, f"{heading}: {means}")
    ticks, labels = axis.ticks()
    chart.x_axis(ticks, axis.title, labels)
    if guide is not None and axis.place(guide[1]) > axis.bounds[0]:
        edge = axis.place(guide[1])
        title = tag("title", f"{guide[0]}: {fixed(guide[1])}")
        chart.add(tag("g", title + chart.line([(edge, 0), (edge, len(rows))], class_="limit")))
    for index, row in enumerate(rows):
        middle = index + 0.5
        _, y = chart.at(axis.bounds[0], middle)
        pieces = [tag("text", shortened(row.label, 21), x=margins.left - 8, y=y + 4, class_="name", text_anchor="end")]
        pieces += [svg.marker(chart.at(axis.place(value), middle), "circle", 2.6, class_="hollow") for value in row.runs]
        for mean, sd, look in reversed(row.means):
            if sd is not None and not row.runs:
                ends = [(axis.place(mean + sign * sd), middle) for sign in (-1, 1)]
                pieces.append(chart.line(ends, class_="whisker"))
            pieces.append(svg.marker(chart.at(axis.place(mean), middle), row.style.shape, 5, class_=look))
        if row.printed is not None:
            at = axis.place(row.printed)
            pieces.append(chart.line([(at, middle - 0.38), (at, middle + 0.38)], class_="limit"))
        if not row.means:
            pieces.append(tag("text", "not finished", x=margins.left + 6, y=y + 4, class_="tick"))
        grid = chart.line([(end, middle) for end in axis.bounds], class_="grid")
        chart.add(grid, group(row.style, *pieces, tooltip=row.tooltip or row.label))
    note = "dashed: the paper" if any(row.printed is not None for row in rows) else ""
    return Panel(heading, chart.render(), note)


@dataclass(frozen=True)
class Voice:
    """Somebody's distribution over the classes: the people's (no style), the truth's, or a method's."""

    name: str
    shares: NDArray[np.float64]
    style: Style | None = None
    css: str = "people"
    kl: float | None = None


@dataclass(frozen=True)
class _Strip:
    """Where the bars of one voice stand."""

    left: float
    ground: float
    step: float
    height: float

    def bars(self, shares: NDArray[np.float64]) -> str:
        """All bars as one path; bars of no visible height are left out."""
        gap, parts = min(2.0, self.step * 0.15), list[str]()
        for index, share in enumerate(shares):
            tall = float(share) * self.height
            if tall >= 0.05:
                up, across = svg.short(tall), svg.short(self.step - 2 * gap)
                start = f"{svg.short(self.left + index * self.step + gap)} {svg.short(self.ground)}"
                parts.append(f"M{start}v-{up}h{across}v{up}z")
        return "".join(parts)


def bar_chart(voices: Sequence[Voice], classes: Sequence[str], label: str, picture: str = "") -> Markup:
    """A strip of bars per voice, classes in the same columns; the outline in a method's strip is the people's.

    `picture`, the address of an image, is drawn below the voices' names.
    """
    shown = _largest_classes(voices, len(classes))
    names = [classes[index] for index in shown]
    upright = max(map(len, names)) <= 2
    pitch, top, width = 22.0, 4.0, 320.0
    margins = Margins(112, 34, top, 16 if upright else 52)
    aria = "; ".join(f"{voice.name}: {largest_shares(voice.shares, classes)}" for voice in voices)
    chart = Chart(width, top + pitch * len(voices) + margins.bottom, (0, len(shown)), (0, 1), margins, f"{label}. {aria}")
    step = (width - margins.left - margins.right) / len(shown)
    people, tallest = voices[0].shares[shown], max(float(voice.shares.max()) for voice in voices)
    for index, voice in enumerate(voices):
        strip = _Strip(margins.left, top + pitch * (index + 1) - 3, step, (pitch - 5) / tallest)
        ground = strip.ground
        pieces = [
            tag("text", shortened(voice.name, 17), x=margins.left - 7, y=ground - 3, class_="name", text_anchor="end"),
            tag("path", d=svg.path([(margins.left, ground), (width - margins.right, ground)]), class_="grid"),
            tag("path", d=strip.bars(voice.shares[shown]), class_="bar"),
        ]
        if voice.style is not None:
            pieces.append(tag("path", d=strip.bars(people), class_="ghost"))
        if voice.kl is not None:
            pieces.append(tag("text", fixed(voice.kl, 2), x=width, y=ground - 3, class_="tick", text_anchor="end"))
        tooltip = f"{voice.name}: {largest_shares(voice.shares, classes)}"
        if voice.style is None:
            chart.add(tag("g", tag("title", tooltip) + Markup("").join(pieces), class_=voice.css))
        else:
            chart.add(group(voice.style, *pieces, tooltip=tooltip))
    if picture:
        corner = top + pitch * len(voices) + 4
        chart.add(tag("image", href=picture, x=4, y=corner, width=46, height=46, image_rendering="pixelated"))
    for index, name in enumerate(names):
        x, y = margins.left + (index + 0.5) * step, top + pitch * len(voices) + 9
        if upright:
            chart.add(tag("text", name, x=x, y=y, class_="tick", text_anchor="middle"))
        else:
            turned = f"rotate(-55 {svg.short(x + 3)} {svg.short(y)})"
            chart.add(tag("text", shortened(name, 11), x=x + 3, y=y, class_="tick", text_anchor="end", transform=turned))
    return chart.render()


def largest_shares(shares: NDArray[np.float64], classes: Sequence[str]) -> str:
    """`4 52%, 9 40%, 7 8%`: the three largest."""
    largest = [index for index in np.argsort(-shares, kind="stable")[:3] if shares[index] > 0]
    return ", ".join(f"{classes[index]} {shares[index]:.0%}" for index in largest)


def _largest_classes(voices: Sequence[Voice], classes: int) -> list[int]:
    if classes <= SHOWN_CLASSES:
        return list(range(classes))
    largest = np.max([voice.shares for voice in voices], axis=0)
    return sorted(int(index) for index in np.argsort(-largest, kind="stable")[:SHOWN_CLASSES])


def compact(value: float) -> str:
    """Three significant digits, whatever the sign."""
    return (MINUS if value < 0 else "") + significant(abs(value), 3)


def swatch(style: Style) -> Markup:
    """A method's line and marker, for legends and the first column of tables."""
    line = tag("path", d="M1 6H29", class_="line", stroke_dasharray=style.dash)
    mark = svg.marker((15, 6), style.shape, 4, class_="mark")
    return tag("svg", line + mark, viewBox="0 0 30 12", class_=f"swatch {style.css}", aria_hidden="true")


def mean_dots(label: str, style: Style, runs: Sequence[float], printed: float | None) -> Dots:
    """The dots of a series: its runs and their mean."""
    mean = fmean(runs)
    beside = "" if printed is None else f" (paper: {printed:g})"
    return Dots(label, style, runs, ((mean, None, "mark"),), printed, f"{label}: {compact(mean)}{beside}")
