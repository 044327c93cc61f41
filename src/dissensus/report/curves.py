"""Learning curves: what every epoch did, each method as a mean over seeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

import numpy as np
from markupsafe import Markup

from dissensus import stats
from dissensus.report import svg
from dissensus.report.comparisons import Comparison, Method
from dissensus.report.panels import Figure, Panel, limit_line
from dissensus.report.svg import Chart, Margins, group, tag
from dissensus.report.wording import fixed, listed, title

CURVES = ("soft_nll", "kl_to_truth", "accuracy", "validation_loss", "train_loss")
CURVE_TITLES = {"train_loss": "training loss, to its own target", "validation_loss": "validation loss, to its own target"}


def curves(table: Comparison) -> Figure | None:
    """Each column of the curves over epochs: the mean over seeds, in a band of one standard deviation."""
    panels = []
    caption = (
        "After each epoch, on the evaluation items; losses to a method's own target have heights that compare nothing. "
        "Line: mean over seeds; band: one standard deviation. The first epochs may lie outside the frame."
    )
    if table.resampled:
        caption += " Each seed has its own evaluation items, so bands overlap where differences in pairs are clear."
    for name in CURVES:
        paths = {method.label: _over_seeds(method, name) for method in table.methods}
        paths = {label: path for label, path in paths.items() if path}
        if not paths:
            continue
        framed = _in_frame({label: path[-1][1] for label, path in paths.items()})
        panels.append(_panel(table, name, paths, framed))
        if outside := [label for label in paths if label not in framed]:
            caption += f" Outside the frame of {panels[-1].heading}: {listed(outside)}."
    return Figure(f"{table.anchor}-curves", "Over the epochs", caption, tuple(panels)) if panels else None


Path = list[tuple[int, float, float]]
"""(epoch, mean, sd)"""


def _panel(table: Comparison, name: str, paths: Mapping[str, Path], framed: Collection[str]) -> Panel:
    settled = [mean for label in framed for epoch, mean, _ in paths[label] if epoch > 0.2 * paths[label][-1][0]]
    limit = table.limit(name)
    edge = limit.cells[name].mean if limit is not None else None
    bounds = svg.padded([*settled, *(() if edge is None else (edge,))])
    if name == "accuracy":
        bounds = bounds[0], min(bounds[1], 1.0)
    last = max(path[-1][0] for path in paths.values())
    heading = CURVE_TITLES.get(name, title(name))
    ends = ", ".join(f"{label} {fixed(path[-1][1])}" for label, path in paths.items())
    chart = Chart(370, 240, (0, last), bounds, Margins(36, 8, 8, 34), f"{heading} over epochs; at the end {ends}")
    chart.y_axis(svg.nice_ticks(*bounds))
    chart.x_axis(svg.nice_ticks(0, last, 6) if last > 6 else list(range(last + 1)), "epoch")
    if edge is not None and limit is not None:
        chart.add(limit_line(chart, limit.label, edge, [(0, edge), (last, edge)]))
    inside: list[Markup] = []
    for method in table.methods:
        if method.label not in framed:
            continue
        path = paths[method.label]
        pieces = []
        if any(sd for _, _, sd in path):
            lower, upper = ([(epoch, mean + sign * sd) for epoch, mean, sd in path] for sign in (-1, 1))
            pieces.append(chart.area(lower, upper, class_="band"))
        means = [(epoch, mean) for epoch, mean, _ in path]
        pieces.append(chart.line(means, class_="line", stroke_dasharray=method.style.dash))
        pieces.append(svg.marker(chart.at(*path[-1][:2]), method.style.shape, 4, class_="mark"))
        inside.append(group(method.style, *pieces, tooltip=f"{method.label}: {fixed(path[-1][1])} at the end"))
    clip = f"{table.anchor}-{name}-frame"
    frame = tag("clipPath", tag("rect", x=36, y=4, width=332, height=204), id=clip)
    chart.add(frame, tag("g", Markup("").join(inside), clip_path=f"url(#{clip})"))
    return Panel(heading, chart.render())


def _over_seeds(method: Method, name: str) -> Path:
    """For the epochs that every finished run of the method has: no mean changes its members midway."""
    columns = [run.curve.get(name) or [] for run in method.runs.values()]
    if not columns or not all(columns):
        return []
    rows = []
    for epoch, values in enumerate(zip(*columns, strict=False), start=1):
        present = [value for value in values if value is not None]
        if len(present) == len(columns):
            rows.append((epoch, fmean(present), stats.mean_sd(present).sd or 0.0))
    return rows


def _in_frame(finals: Mapping[str, float]) -> list[str]:
    """The labels to fit into a frame: one lost control must not flatten all other lines.

    The value furthest from the median is left out while that shrinks the range to less than a fifth of what it was.
    """
    kept = dict(finals)
    while len(kept) > 3:
        middle = float(np.median(list(kept.values())))
        furthest = max(kept, key=lambda label: abs(kept[label] - middle))
        rest = {label: value for label, value in kept.items() if label != furthest}
        if np.ptp(list(rest.values())) >= 0.2 * np.ptp(list(kept.values())):
            break
        kept = rest
    return list(kept)
