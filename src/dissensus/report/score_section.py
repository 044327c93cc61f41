"""A score table, drawn: its blocks, the answer, learning curves, reliability, entropies, gallery."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dissensus import metrics, stats
from dissensus.experiments.description import ScoreTable
from dissensus.metrics import temperature
from dissensus.report import svg
from dissensus.report.answer import answer
from dissensus.report.charts import Axis, DotAxis, Dots, Figure, Guide, Line, Panel, Path, dot_chart, plot
from dissensus.report.comparison import (
    LEVEL,
    Comparison,
    Difference,
    Method,
    MethodScores,
    ScoreBlock,
    SeedValues,
    compare,
)
from dissensus.report.gallery import Predictions, gallery
from dissensus.report.results_csv import CsvLine, SeedLine, spelled
from dissensus.report.sections import Scores, Section, finished, read_cells
from dissensus.report.svg import Point, Style
from dissensus.report.wording import (
    TO_VOTES,
    capital,
    direction,
    fixed,
    interval,
    listed,
    mean_sd,
    signed,
    title,
    unit,
)
from dissensus.store.run_source import RunSource, check_predictions

CURVES = {
    "soft_nll": title("soft_nll"),
    "kl_to_truth": title("kl_to_truth"),
    "accuracy": title("accuracy"),
    "validation_loss": "validation loss, to its own target",
    "train_loss": "training loss, to its own target",
}
MOST_DRAWN = 24  # methods in a figure: nobody tells more lines apart, and each is one panel of some figures
SPECKS = 400  # items drawn one by one in a scatter; the means are over all of them

Arrays = Mapping[str, NDArray[Any]]


def score_section(table: ScoreTable[str], runs: RunSource, styles: Mapping[str, Style]) -> Section:
    """The table and all that belongs to it."""
    comparison = compare(table, runs, styles)
    in_figures, left_out = _in_figures(comparison)
    predictions = _predictions(in_figures, runs)
    silent = [method.label for method in in_figures.methods if method.runs and method.label not in predictions]
    if silent:
        left_out += f" The predictions of {listed(silent)} were not kept, so figures that need them leave them out."
    drawn = (_curves(in_figures), _reliability(in_figures, predictions), _entropies(in_figures, predictions))
    known, missing = finished(read_cells(table, runs))
    return Section(
        table,
        known,
        missing,
        tuple(_csv_lines(comparison)),
        tuple(figure for figure in drawn if figure is not None),
        scores=Scores(
            comparison,
            answer(comparison),
            gallery(in_figures, predictions, runs),
            left_out.strip(),
            tuple(_seed_lines(comparison)),
        ),
    )


def _in_figures(comparison: Comparison) -> tuple[Comparison, str]:
    """The comparison with as many methods as a figure can show, and a sentence where that leaves some out."""
    if len(comparison.methods) <= MOST_DRAWN or not comparison.blocks:
        return comparison, ""
    metric, worse = comparison.primary, -1 if direction(comparison.primary) == "higher" else 1
    means = {row.method.label: row.cells[metric].mean for row in comparison.blocks[0].rows}
    ranked = sorted((mean * worse, place, label) for place, (label, mean) in enumerate(means.items()) if mean is not None)
    chosen = {comparison.baseline, *(label for _, _, label in ranked[: MOST_DRAWN - 1])}
    methods = tuple(method for method in comparison.methods if method.label in chosen)
    sentence = (
        f"The figures below the tables show {len(methods)} of {len(comparison.methods)} rows: {comparison.baseline} and "
        f"those with the best {title(metric)}. The tables, results.csv and seeds.csv have all of them."
    )
    return replace(comparison, methods=methods), sentence


def _predictions(comparison: Comparison, runs: RunSource) -> Predictions:
    """The predictions that the finished runs kept; committed records have none."""
    kept: dict[str, dict[str, Arrays]] = {}
    for method in comparison.methods:
        for seed, run in method.runs.items():
            arrays = runs.predictions(run.id, method.checkpoint)
            if arrays is not None:
                check_predictions(arrays, run.id)
                kept.setdefault(method.label, {})[seed] = arrays
    return kept


def picture(comparisons: Sequence[Comparison], metric: str) -> Figure | None:
    """Methods × tables on one metric: the picture to remember."""
    rows = {comparison.table.key: [_dots(method, metric) for method in comparison.methods] for comparison in comparisons}
    shown = [comparison for comparison in comparisons if any(row.means for row in rows[comparison.table.key])]
    if not shown:
        return None
    every = [row for comparison in shown for row in rows[comparison.table.key] if row.means]
    axis = DotAxis.of(every, title(metric), logarithmic=True)
    panels = []
    for comparison in shown:
        limit = comparison.limit(metric)
        guide = None if limit is None else (limit.label, limit.cells[metric].mean or 0.0)
        panels.append(dot_chart(comparison.table.title, rows[comparison.table.key], axis, guide))
    better = {"lower": "Further left is better.", "higher": "Further right is better."}.get(direction(metric), "")
    caption = (
        f"{title(metric)}{f', in {unit(metric)}' if unit(metric) else ''}: mean over seeds, one standard deviation to "
        f"each side. Filled: as trained. Hollow: with one temperature fitted to held-out votes. {better}"
        f"{' The scale is logarithmic.' if axis.logarithmic else ''}"
    )
    return Figure("picture", f"{capital(title(metric))} at a glance", caption, tuple(panels))


def difference_picture(comparison: Comparison) -> Figure | None:
    """Every row minus the baseline, with its interval: what the scores of single splits, which vary together, hide."""
    metric, blocks = comparison.primary, [comparison.block(name) for name in ("raw", TO_VOTES)]
    rows = []
    for method in comparison.methods:
        found = [(block.row(method.label), look) for block, look in zip(blocks, ("mark", "hollow"), strict=True) if block]
        gaps = [(row.difference, look) for row, look in found if row is not None and row.difference is not None]
        means = tuple((gap.mean, _half_width(gap), look) for gap, look in gaps)
        words = " · ".join(
            f"{name} {signed(gap.mean)} ({interval(gap.low, gap.high)})"
            for (gap, _), name in zip(gaps, ("as trained", "tempered"), strict=False)
        )
        rows.append(Dots(method.label, method.style, (), means, None, f"{method.label}: {words or 'the baseline'}"))  # type: ignore[arg-type]
    rows = [row for row in rows if row.means]
    if not rows:
        return None
    axis = DotAxis.of(rows, f"{title(metric)} minus that of {comparison.baseline}")
    better = {"lower": "Left of the dashed line is better", "higher": "Right of the dashed line is better"}
    caption = (
        f"{capital(title(metric))} of each row minus that of {comparison.baseline}"
        f"{f', in {unit(metric)}' if unit(metric) else ''}, in pairs of equal {comparison.table.replicate}: mean and "
        f"{LEVEL:.0%} interval. {better.get(direction(metric), 'The dashed line is no difference')}. Filled: as trained. "
        "Hollow: both with one temperature fitted to held-out votes."
    )
    panel = dot_chart(comparison.table.title, rows, axis, (comparison.baseline, 0.0))
    return Figure("picture", f"Against {comparison.baseline}", caption, (panel,))


def _half_width(difference: Difference) -> float | None:
    """Of the interval, which is symmetric; None where there is none."""
    return None if difference.low is None or difference.high is None else (difference.high - difference.low) / 2


def _dots(method: Method, metric: str) -> Dots:
    raw, tempered = _raw_and_tempered(method, metric)
    parts = [
        (cell, look, name) for cell, look, name in ((raw, "mark", "as trained"), (tempered, "hollow", "tempered")) if cell
    ]
    means = tuple((cell.mean or 0.0, cell.sd, look) for cell, look, _ in parts)
    words = " · ".join(f"{name} {mean_sd(cell.mean, cell.sd)}" for cell, _, name in parts)
    return Dots(method.label, method.style, (), means, None, f"{method.label}: {words or 'not finished'}")  # type: ignore[arg-type]


def _raw_and_tempered(method: Method, metric: str) -> tuple[SeedValues | None, SeedValues | None]:
    """A metric as trained and tempered to votes, at the table's checkpoint; None where no run has it."""
    cells = (method.cell(method.checkpoint, name, metric) for name in ("raw", TO_VOTES))
    raw, tempered = (cell if cell.mean is not None else None for cell in cells)
    return raw, tempered


def _curves(comparison: Comparison) -> Figure | None:
    """Each column of the curves over epochs: the mean over seeds, in a band of one standard deviation."""
    caption = (
        "After each epoch, on the evaluation items. A method's training and validation losses are to its own target, so "
        "methods cannot be compared by them. "
        "Line: mean over seeds; band: one standard deviation. The first epochs may lie outside the frame."
    )
    if comparison.resampled:
        caption += " Each seed has its own evaluation items, so bands overlap where differences in pairs are clear."
    panels = []
    for name, heading in CURVES.items():
        lines = [Line(method.label, method.style, _over_seeds(method, name)) for method in comparison.methods]
        lines = [line for line in lines if line.path]
        if not lines:
            continue
        framed = _in_frame({line.label: line.path[-1][1] for line in lines})
        panels.append(_curve_panel(comparison, name, heading, [line for line in lines if line.label in framed]))
        if outside := [line.label for line in lines if line.label not in framed]:
            caption += f" Outside the frame of {heading}: {listed(outside)}."
    return Figure(f"{comparison.table.key}-curves", "Over the epochs", caption, tuple(panels)) if panels else None


def _curve_panel(comparison: Comparison, name: str, heading: str, lines: Sequence[Line]) -> Panel:
    settled = [mean for line in lines for epoch, mean, _ in line.path if epoch > 0.2 * line.path[-1][0]]
    limit = comparison.limit(name)
    edge = limit.cells[name].mean if limit is not None else None
    bounds = svg.padded([*settled, *(() if edge is None else (edge,))])
    if name == "accuracy":
        bounds = bounds[0], min(bounds[1], 1.0)
    last = max(line.path[-1][0] for line in lines)
    ticks = svg.nice_ticks(0, last, 6) if last > 6 else [float(epoch) for epoch in range(int(last) + 1)]
    guides = []
    if edge is not None and limit is not None:
        guides.append(Guide(f"{limit.label}: {fixed(edge)}", ((0, edge), (last, edge))))
    return plot(
        heading,
        lines,
        x=Axis("epoch", (0, last), ticks),
        y=Axis(bounds=bounds),
        guides=guides,
        legend=False,
        clip=f"{comparison.table.key}-{name}-frame",
    )


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


def _reliability(comparison: Comparison, predictions: Predictions) -> Figure | None:
    """One panel per method: how often items of a confidence are right, smoothed as in smooth ECE, all seeds together."""
    panels = []
    for method in comparison.methods:
        if method.label not in predictions:
            continue
        means = [fixed(cell.mean) for cell in _raw_and_tempered(method, "smooth_ece") if cell is not None]
        note = f"smooth ECE {' → '.join(means)}" if means else ""
        raw, tempered = _confidences(predictions[method.label])
        curve = metrics.smooth_reliability(*raw)
        hill = [
            (float(x), 0.22 * float(density) / float(curve.density.max()))
            for x, density in zip(curve.grid, curve.density, strict=True)
        ]
        lines = [
            Line(method.label, method.style, _supported(metrics.smooth_reliability(*tempered)), thin=True, markers=False),
            Line(method.label, method.style, _supported(curve), markers=False, hill=hill),
        ]
        axis = Axis(bounds=(0, 1), ticks=[0, 0.5, 1])
        panels.append(
            plot(
                method.label,
                [line for line in lines if line.path],
                x=Axis("confidence", (0, 1), [0, 0.5, 1]),
                y=axis,
                guides=[Guide("calibrated", ((0, 0), (1, 1)))],
                legend=False,
                square=True,
                label=f"Reliability of {method.label}. {note}",
                note=note,
                style=method.style,
            )
        )
    caption = (
        "How often the top class is right, given how sure the model was: a calibrated model follows the dashed diagonal, "
        "an over-confident one runs below it. Smoothed with the kernel of smooth ECE, drawn where there are items; the "
        "hill at the bottom is the density of the confidences. Solid: as trained. Thin and dashed, and behind the arrow: "
        "tempered to votes. All finished seeds together."
    )
    return (
        Figure(f"{comparison.table.key}-reliability", "Reliability", caption, tuple(panels), "small") if panels else None
    )


Events = tuple[torch.Tensor, torch.Tensor]
"""Confidence of each item, and whether its top class is right."""


def _confidences(of_seed: Mapping[str, Arrays]) -> tuple[Events, Events]:
    """As trained, and tempered to votes exactly as the run itself was judged; all seeds one after another."""
    raw, tempered = [], []
    for seed, arrays in of_seed.items():
        logits, rows, labels = (torch.from_numpy(arrays[name]) for name in ("logits", "rows", "labels"))
        fitted = temperature.cross_fit(logits, _people(arrays), strata=labels, rows=rows, seed=int(seed))
        raw.append(metrics.top_label(_log_probs(arrays), labels))
        tempered.append(metrics.top_label(fitted.log_probs, labels))
    return _joined(raw), _joined(tempered)


def _joined(parts: Sequence[Events]) -> Events:
    confidence, correct = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return confidence, correct


def _supported(curve: metrics.SmoothReliability) -> Path:
    """The curve where enough items lie under the kernel."""
    points = zip(curve.grid, curve.accuracy, curve.is_supported, strict=True)
    return [(float(x), float(y), 0.0) for x, y, supported in points if supported]


def _entropies(comparison: Comparison, predictions: Predictions) -> Figure | None:
    """One panel per method: the model's entropy against the people's; items of the first seed, means over all."""
    kept = [arrays for of_seed in predictions.values() for arrays in of_seed.values()]
    if not kept:
        return None
    parts = [part for arrays in kept for part in (_people(arrays), _log_probs(arrays).exp())]
    bounds = 0.0, max(float(metrics.entropy(part).max()) for part in parts) * 1.04 or 1.0
    panels = []
    for method in comparison.methods:
        if method.label not in predictions:
            continue
        pairs = [
            (metrics.entropy(_people(arrays)).numpy(), metrics.entropy(_log_probs(arrays).exp()).numpy())
            for arrays in predictions[method.label].values()
        ]
        people, model = (np.concatenate(halves) for halves in zip(*pairs, strict=True))
        agreement = method.cell(method.checkpoint, "raw", "entropy_spearman").mean
        note = "" if agreement is None else f"Spearman {fixed(agreement)}"
        every = max(1, math.ceil(len(pairs[0][0]) / SPECKS))
        specks: list[Point] = [(float(a), float(b)) for a, b in zip(*pairs[0], strict=True)][::every]
        means = metrics.zero_then_equal_mass(people, model, 7)
        path = [(x, y, 0.0) for x, y in zip(means["x"], means["y"], strict=True) if x is not None]
        ticks = svg.nice_ticks(*bounds, 3)
        panels.append(
            plot(
                method.label,
                [Line(method.label, method.style, path, specks=specks)],
                x=Axis("people, nats", bounds, ticks),
                y=Axis(bounds=bounds, ticks=ticks),
                guides=[Guide("as much doubt as people", ((0, 0), (bounds[1], bounds[1])))],
                legend=False,
                square=True,
                label=f"Entropy of {method.label} against that of the people. {note}",
                note=note,
                style=method.style,
            )
        )
    caption = (
        "Is the model in doubt where people are? Across: entropy of the people's votes. Up: entropy of the model, as "
        f"trained. Specks: items of the first seed (at most {SPECKS}). Line: means in bins, all seeds; the first bin is "
        "the unanimous items. On the dashed diagonal the model doubts as much as the people do."
    )
    limit = comparison.limit("entropy_spearman")
    if limit is not None:
        caption += f" {limit.label}: {fixed(limit.cells['entropy_spearman'].mean)}."
    return Figure(f"{comparison.table.key}-entropy", "Entropy against entropy", caption, tuple(panels), "small")


def _log_probs(arrays: Arrays) -> torch.Tensor:
    return torch.log_softmax(torch.from_numpy(arrays["logits"]).double(), -1)


def _people(arrays: Arrays) -> torch.Tensor:
    return torch.from_numpy(arrays["people"]).double()


def _csv_lines(comparison: Comparison) -> Iterator[CsvLine]:
    name = comparison.table.title
    for method in comparison.methods:
        for seed in method.missing:
            yield CsvLine(name, method.label, method.words, statistic="not_finished", seed=seed)
    for block in comparison.blocks:
        for row in block.rows:
            start = name, row.method.label, row.method.words, block.checkpoint, block.calibration
            for metric, statistic, seed, value in (*_metric_numbers(block, row), *_difference_numbers(comparison, row)):
                yield CsvLine(*start, metric, statistic, seed, spelled(value))


Numbered = Iterator[tuple[str, str, str, float | int | None]]
"""(metric, statistic, seed, value)"""


def _metric_numbers(block: ScoreBlock, row: MethodScores) -> Numbered:
    of_seed = row.method.scores(block.checkpoint, block.calibration)
    names = sorted({name for scores in of_seed.values() for name, value in scores.items() if not isinstance(value, str)})
    for name in names:
        cell = row.method.cell(block.checkpoint, block.calibration, name)
        for statistic, value in (("mean", cell.mean), ("sd", cell.sd)):
            if value is not None:
                yield name, statistic, "", value


def _seed_lines(comparison: Comparison) -> Iterator[SeedLine]:
    for block in comparison.blocks:
        for row in block.rows:
            temperatures = {} if row.temperature is None else row.temperature.values
            for seed, scores in row.method.scores(block.checkpoint, block.calibration).items():
                numbers = {name: value for name, value in scores.items() if not isinstance(value, str)}
                if seed in temperatures:
                    numbers["temperature"] = temperatures[seed]
                start = comparison.table.title, row.method.label, block.checkpoint, block.calibration, seed
                yield SeedLine(*start, numbers)


def _difference_numbers(comparison: Comparison, row: MethodScores) -> Numbered:
    if row.difference is not None:
        for statistic in ("mean", "low", "high", "p", "p_holm"):
            value = getattr(row.difference, statistic)
            if value is not None:
                yield comparison.primary, "difference" if statistic == "mean" else statistic, "", value
