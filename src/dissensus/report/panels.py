"""The figures of the page, from a comparison and the predictions its runs kept. One look a method, in all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from dissensus import metrics
from dissensus.metrics import temperature as calibrate
from dissensus.report import svg
from dissensus.report.comparisons import Cell, Comparison, Method
from dissensus.report.svg import Chart, Margins, Point, Style, group, tag
from dissensus.report.wording import TO_VOTES, fixed
from dissensus.store.run_source import Arrays, RunSource

SPECKS = 400  # items drawn one by one in a scatter; the means are over all of them

Predictions = Mapping[str, Mapping[int, Arrays]]
"""label -> seed -> the arrays that run kept"""


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


def predictions_of(table: Comparison, ledger: RunSource) -> Predictions:
    """The predictions that this table's finished runs kept; committed records have none."""
    found: dict[str, dict[int, Arrays]] = {}
    for method in table.methods:
        kept: dict[int, Arrays] = {}
        for seed, run in method.runs.items():
            arrays = ledger.predictions(run.id, method.checkpoint)
            if arrays is not None:
                kept[seed] = arrays
        if kept:
            found[method.label] = kept
    return found


def swatch(style: Style) -> Markup:
    """A method's line and marker, for legends and the first column of tables."""
    line = tag("path", d="M1 6H29", class_="line", stroke_dasharray=style.dash)
    mark = svg.marker((15, 6), style.shape, 4, class_="mark")
    return tag("svg", line + mark, viewBox="0 0 30 12", class_=f"swatch {style.css}", aria_hidden="true")


def limit_line(chart: Chart, label: str, value: float, points: Sequence[Point]) -> Markup:
    """A dashed line at what the votes allow, with its name as a tooltip."""
    return tag("g", tag("title", f"{label}: {fixed(value)}") + chart.line(points, class_="limit"))


def raw_and_tempered(method: Method, metric: str) -> tuple[Cell | None, Cell | None]:
    """A metric as trained and tempered to votes, at the table's checkpoint; None where no run has it."""
    cells = (method.cell(method.checkpoint, name, metric) for name in ("raw", TO_VOTES))
    raw, tempered = (cell if cell.mean is not None else None for cell in cells)
    return raw, tempered


def reliability(table: Comparison, predictions: Predictions) -> Figure | None:
    """One panel a method: how often items of a confidence are right, smoothed as in smooth ECE, all seeds together."""
    panels = []
    for method in table.methods:
        if method.label not in predictions:
            continue
        means = [fixed(cell.mean) for cell in raw_and_tempered(method, "smooth_ece") if cell is not None]
        said = f"smooth ECE {' → '.join(means)}" if means else ""
        chart = _square((0, 1), f"Reliability of {method.label}. {said}")
        chart.x_axis([0, 0.5, 1], "confidence")
        chart.y_axis([0, 0.5, 1])
        chart.add(chart.line([(0, 0), (1, 1)], class_="limit"))
        raw, tempered = _confidences(predictions[method.label])
        curve = metrics.smooth_reliability(*raw)
        hills = [
            (float(x), 0.22 * float(d) / float(curve.density.max()))
            for x, d in zip(curve.grid, curve.density, strict=True)
        ]
        pieces = (
            chart.area([(x, 0.0) for x, _ in hills], hills, class_="band"),
            chart.line(_where_items_are(metrics.smooth_reliability(*tempered), len(tempered[0])), class_="line thin"),
            chart.line(_where_items_are(curve, len(raw[0])), class_="line"),
        )
        chart.add(group(method.style, *pieces, tooltip=f"{method.label}. {said}"))
        panels.append(Panel(method.label, chart.render(), said, method.style))
    if not panels:
        return None
    caption = (
        "How often the top class is right, given how sure the model was: a calibrated model follows the dashed diagonal, "
        "an over-confident one runs below it. Smoothed with the kernel of smooth ECE, drawn where there are items; the "
        "hill at the bottom is the density of the confidences. Solid: as trained. Thin and dashed, and behind the arrow: "
        "tempered to votes. All finished seeds together."
    )
    return Figure(f"{table.anchor}-reliability", "Reliability", caption, tuple(panels), "small")


Events = tuple[torch.Tensor, torch.Tensor]
"""Confidence of each item, and whether its top class is right."""


def _confidences(of_seed: Mapping[int, Arrays]) -> tuple[Events, Events]:
    """As trained, and tempered to votes exactly as the run itself was judged; all seeds one after another."""
    raw, tempered = [], []
    for seed, one in of_seed.items():
        logits, rows, labels = (torch.from_numpy(one[name]) for name in ("logits", "rows", "labels"))
        fitted = calibrate.cross_fit(logits, _people(one), strata=labels, rows=rows, seed=seed)
        raw.append(metrics.top_label(_log_probs(one), labels))
        tempered.append(metrics.top_label(fitted.log_probs, labels))
    return _joined(raw), _joined(tempered)


def _joined(parts: Sequence[Events]) -> Events:
    confidence, correct = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return confidence, correct


def _where_items_are(curve: metrics.SmoothReliability, items: int) -> list[Point]:
    """The curve without the stretches where fewer than about ten items lie under the kernel: there it is noise."""
    enough = curve.density * items * curve.sigma * math.sqrt(2 * math.pi) >= 10
    return [(float(x), float(y)) for x, y, ok in zip(curve.grid, curve.accuracy, enough, strict=True) if ok]


def entropies(table: Comparison, predictions: Predictions) -> Figure | None:
    """One panel a method: the model's entropy against the people's, items of the first seed and means over all seeds."""
    panels = []
    kept = [one for of_seed in predictions.values() for one in of_seed.values()]
    if not kept:
        return None
    most = max(float(metrics.entropy(part).max()) for one in kept for part in (_people(one), _log_probs(one).exp()))
    bounds = 0.0, most * 1.04 or 1.0
    for method in table.methods:
        if method.label not in predictions:
            continue
        pairs = [
            (metrics.entropy(_people(one)).numpy(), metrics.entropy(_log_probs(one).exp()).numpy())
            for one in predictions[method.label].values()
        ]
        people, model = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        agreement = _named(method, "entropy_spearman")
        said = f"Spearman {agreement}" if agreement else ""
        chart = _square(bounds, f"Entropy of {method.label} against that of the people. {said}")
        ticks = svg.nice_ticks(*bounds, 3)
        chart.x_axis(ticks, "people, nats")
        chart.y_axis(ticks)
        chart.add(chart.line([(0, 0), (bounds[1], bounds[1])], class_="limit"))
        first = [chart.at(float(a), float(b)) for a, b in zip(*pairs[0], strict=True)]
        means = _binned_means(people, model)
        pieces = [
            tag("path", d=svg.specks(first[:: max(1, math.ceil(len(first) / SPECKS))]), class_="specks"),
            chart.line(means, class_="line"),
            *(svg.marker(chart.at(*point), method.style.shape, 3, class_="mark") for point in means),
        ]
        chart.add(group(method.style, *pieces, tooltip=f"{method.label}. {said}"))
        panels.append(Panel(method.label, chart.render(), said, method.style))
    caption = (
        "Is the model in doubt where people are? Across: entropy of the people's votes. Up: entropy of the model, as "
        f"trained. Specks: items of the first seed (at most {SPECKS}). Line: means in bins, all seeds; the first bin is "
        "the unanimous items. On the dashed diagonal the model doubts as much as the people do."
    )
    ceiling = table.limit("entropy_spearman")
    if ceiling is not None:
        caption += f" With these votes, true entropies would reach {fixed(ceiling.cells['entropy_spearman'].mean)}."
    return Figure(f"{table.anchor}-entropy", "Entropy against entropy", caption, tuple(panels), "small")


def _binned_means(people: NDArray[Any], model: NDArray[Any], bins: int = 7) -> list[Point]:
    """Mean entropies of the unanimous items, then of bins with equally many items."""
    order = np.argsort(people, kind="stable")
    unanimous = int((people == 0).sum())
    parts = [order[:unanimous], *np.array_split(order[unanimous:], bins)]
    return [(float(people[rows].mean()), float(model[rows].mean())) for rows in parts if len(rows)]


def _named(method: Method, metric: str) -> str:
    mean = method.cell(method.checkpoint, "raw", metric).mean
    return "" if mean is None else fixed(mean)


def _square(bounds: Point, label: str) -> Chart:
    return Chart(205, 205, bounds, bounds, Margins(26, 8, 8, 32), label)


def _log_probs(arrays: Arrays) -> torch.Tensor:
    return torch.log_softmax(torch.from_numpy(arrays["logits"]).double(), -1)


def _people(arrays: Arrays) -> torch.Tensor:
    return torch.from_numpy(arrays["people"]).double()
