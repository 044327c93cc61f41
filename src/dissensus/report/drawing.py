"""The drawings of exhibits: lines with bands, rows of dots, bars of distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from dissensus.report import svg
from dissensus.report.panels import Panel
from dissensus.report.svg import Chart, Margins, Style, group, tag
from dissensus.report.wording import fixed, shortened, significant

Path = list[tuple[float, float, float]]
"""(x, mean, sd)"""


def lines(heading: str, paths: Mapping[str, tuple[Style, Path]], axes: tuple[str, str]) -> Panel:
    """A line a series through its means, in a band of one standard deviation, and their names beside the last points."""
    points = [point for _, path in paths.values() for point in path]
    x = svg.padded([x for x, _, _ in points], share=0.02)
    y = svg.padded([mean + sign * sd for _, mean, sd in points for sign in (-1, 1)])
    room = 13.0 * len(paths)
    said = "; ".join(f"{label} ends at {significant_or_zero(path[-1][1])}" for label, (_, path) in paths.items() if path)
    chart = Chart(400, 250 + room, x, y, Margins(44, 10, 20 if axes[1] else 8, 34 + room), f"{heading}: {said}")
    chart.y_axis(svg.nice_ticks(*y), axes[1])
    own = sorted({x for x, _, _ in points})
    few = len(own) <= 6 and all(float(at).is_integer() for at in own)  # K, epochs: their own places, not round ones
    chart.x_axis(own if few else svg.nice_ticks(*x, 6), "")
    chart.add(tag("text", axes[0], x=217.0, y=chart.height - room - 6, class_="axis", text_anchor="middle"))
    for place, (label, (style, path)) in enumerate(paths.items()):
        if not path:
            continue
        if len(own) == 1:  # all at one place: side by side
            path = [(at + (place - (len(paths) - 1) / 2) * 0.05 * (x[1] - x[0]), mean, sd) for at, mean, sd in path]
        pieces = []
        if any(sd for _, _, sd in path):
            lower, upper = ([(at, mean + sign * sd) for at, mean, sd in path] for sign in (-1, 1))
            alone = len(path) == 1  # a band would have no width
            pieces.append(
                chart.line([*lower, *upper], class_="line") if alone else chart.area(lower, upper, class_="band")
            )
        means = [(at, mean) for at, mean, _ in path]
        pieces.append(chart.line(means, class_="line", stroke_dasharray=style.dash))
        marked = means if len(means) <= 12 else means[-1:]
        pieces += [svg.marker(chart.at(*point), style.shape, 3.5, class_="mark") for point in marked]
        pieces += _key(chart, place, len(paths), label, style)
        chart.add(group(style, *pieces, tooltip=f"{label}: {significant_or_zero(path[-1][1])} at the end"))
    return Panel(heading, chart.render())


def _key(chart: Chart, place: int, of: int, label: str, style: Style) -> list[Markup]:
    """The legend inside the drawing, so that a figure that is taken out of the page still says what its lines are."""
    y = chart.height - 13.0 * (of - place) + 9
    line = tag("path", d=svg.path([(44, y - 4), (68, y - 4)]), class_="line", stroke_dasharray=style.dash)
    return [line, svg.marker((56, y - 4), style.shape, 3.5, class_="mark"), tag("text", label, x=75, y=y, class_="tick")]


def dot_rows(heading: str, rows: Sequence[tuple[str, Style, Sequence[float], float | None]]) -> Panel:
    """A row a series: every run a hollow dot, their mean a filled one, and a bar where a paper prints its mean."""
    values = [value for _, _, of_run, printed in rows for value in (*of_run, *(() if printed is None else (printed,)))]
    bounds = svg.padded(values)
    margins = Margins(140, 14, 8, 30)
    said = "; ".join(f"{label} {significant_or_zero(fmean(of_run))}" for label, _, of_run, _ in rows)
    chart = Chart(
        440, margins.top + 26.0 * len(rows) + margins.bottom, bounds, (len(rows), 0), margins, f"{heading}: {said}"
    )
    chart.x_axis(svg.nice_ticks(*bounds), "")
    for place, (label, style, of_run, printed) in enumerate(rows):
        middle = place + 0.5
        _, y = chart.at(bounds[0], middle)
        pieces = [tag("text", shortened(label, 21), x=margins.left - 8, y=y + 4, class_="name", text_anchor="end")]
        pieces += [svg.marker(chart.at(value, middle), "circle", 2.6, class_="hollow") for value in of_run]
        pieces.append(svg.marker(chart.at(fmean(of_run), middle), style.shape, 5, class_="mark"))
        tooltip = f"{label}: {significant_or_zero(fmean(of_run))}"
        if printed is not None:
            pieces.append(chart.line([(printed, middle - 0.38), (printed, middle + 0.38)], class_="limit"))
            tooltip += f" (paper: {printed:g})"
        chart.add(chart.line([(end, middle) for end in bounds], class_="grid"), group(style, *pieces, tooltip=tooltip))
    note = "dashed: the paper" if any(printed is not None for *_, printed in rows) else ""
    return Panel(heading, chart.render(), note)


def bars(item: Mapping[str, Any], styles: Mapping[str, Style]) -> Panel:
    """One item: for each voice a row of bars, a bar a class. The first voice is the people's, and dark."""
    classes, voices = item["classes"], item["shares"]
    pitch, width, letter = 46.0, 240.0, 5.4
    step = (width - 66 - 8) / len(classes)
    longest = letter * max(map(len, classes))
    upright = longest > step and step < 30  # then names are written upwards; in more room they are shortened
    margins = Margins(66, 8, 6, 14 + min(longest, 60) if upright else 30)
    chart = Chart(
        width, margins.top + pitch * len(voices) + margins.bottom, (0, len(classes)), (0, 1), margins, item["said"]
    )
    for row, (who, shares) in enumerate(voices.items()):
        ground = margins.top + pitch * (row + 1) - 6
        pieces = [tag("text", shortened(who, 11), x=margins.left - 6, y=ground - 8, class_="name", text_anchor="end")]
        pieces.append(tag("path", d=svg.path([(margins.left, ground), (width - margins.right, ground)]), class_="grid"))
        for place, share in enumerate(shares):
            left, height = margins.left + place * step + 0.12 * step, share * (pitch - 10)
            pieces.append(tag("rect", x=left, y=ground - height, width=0.76 * step, height=height, class_="bar"))
        told = ", ".join(f"{name} {fixed(share, 2)}" for name, share in zip(classes, shares, strict=True))
        if row:
            chart.add(group(styles.get(who, Style(row - 1)), *pieces, tooltip=f"{who}: {told}"))
        else:
            chart.add(tag("g", tag("title", f"{who}: {told}") + Markup("").join(pieces), class_="people"))
    for place, name in enumerate(classes):
        across, under = margins.left + (place + 0.5) * step, margins.top + pitch * len(voices)
        if upright:
            turned = {"transform": f"rotate(-90 {across + 3.5:.1f} {under:.1f})", "text_anchor": "end"}
            chart.add(tag("text", shortened(name, 12), x=across + 3.5, y=under, class_="tick", **turned))
        else:
            text = shortened(name, max(3, int(step / letter)))
            chart.add(tag("text", text, x=across, y=under + 14, class_="tick", text_anchor="middle"))
    return Panel(item["name"], chart.render(), item["said"])


def significant_or_zero(value: float) -> str:
    """Three significant digits, whatever the sign."""
    return ("−" if value < 0 else "") + significant(abs(value), 3)
