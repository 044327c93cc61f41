"""Exhibits: tables and figures of what was measured in runs, drawn from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dissensus import stats
from dissensus.experiments.description import Exhibit, Manifest, Printed
from dissensus.report.behind import trained
from dissensus.report.comparisons import Comparison, paired_test, split_is_resampled
from dissensus.report.drawing import Path, bars, dot_rows, lines
from dissensus.report.panels import Figure
from dissensus.report.svg import Style
from dissensus.report.wording import MINUS, how_cells_are_tested, mean_sd, paper_value, probability, title
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run

Runs = Mapping[str, Mapping[str, tuple[Run | None, ...]]]
"""series -> point -> its runs, None where one is not finished"""


@dataclass(frozen=True)
class Grid:
    """The numbers of an exhibit as text; a cell may have several lines."""

    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True)
class Number:
    """One number of an exhibit, for results.csv."""

    series: str
    point: str
    value: str
    statistic: str
    of: str
    number: float


@dataclass(frozen=True)
class Shown:
    """An exhibit, drawn. `missing` counts runs that are not finished; `how_tested` explains p, where there is one."""

    anchor: str
    exhibit: Exhibit
    figure: Figure | None
    grid: Grid | None
    numbers: tuple[Number, ...]
    runs: tuple[Run, ...]
    missing: int
    printed: tuple[Printed, ...]
    how_tested: str


def shown(manifest: Manifest, ledger: RunSource, styles: Mapping[str, Style]) -> tuple[Shown, ...]:
    """Every exhibit of the manifest, from the runs that are finished."""
    numbered = enumerate(manifest.exhibits, start=1)
    return tuple(_shown(f"x{number}", one, manifest.printed, ledger, styles) for number, one in numbered)


def _shown(
    anchor: str, exhibit: Exhibit, printed: Sequence[Printed], ledger: RunSource, styles: Mapping[str, Style]
) -> Shown:
    cells: Runs = {
        series: {
            point: tuple(ledger.read(run) if run in ledger else None for run in runs) for point, runs in points.items()
        }
        for series, points in exhibit.cells.items()
    }
    every = [run for points in cells.values() for runs in points.values() for run in runs]
    beside = _beside(exhibit, printed)
    tested, how_tested = _tests(exhibit, cells, beside, ledger)
    draw = {"table": _table, "dots": _dots, "lines": _lines, "curves": _curves, "bars": _bars}[exhibit.show]
    figure, grid, numbers = draw(anchor, exhibit, cells, _Look(styles, beside, tested))
    finished = {run.id: run for run in every if run is not None}
    return Shown(
        anchor,
        exhibit,
        figure,
        grid,
        tuple(numbers),
        tuple(finished.values()),
        sum(run is None for run in every),
        tuple(beside.values()),
        how_tested,
    )


def unplaced(manifest: Manifest, tables: Iterable[Comparison], exhibits: Iterable[Shown]) -> list[Printed]:
    """Printed numbers that have no cell to stand beside: reports list them, so that none is lost in silence."""
    placed = {id(one) for table in tables for one in table.printed.values()}
    placed |= {id(one) for exhibit in exhibits for one in exhibit.printed}
    return [one for one in manifest.printed if id(one) not in placed]


Beside = Mapping[tuple[str, str, str], Printed]
"""(series, point, last part of a value's path) -> what the paper prints there

A paper may print another statistic than the mean: `v:p` is the p of the test against the baseline, `v:lowest` and
`v:highest` are over the runs, `v:below` is how far the row lies below the baseline, in the mean of pairs.
"""


def _beside(exhibit: Exhibit, printed: Sequence[Printed]) -> Beside:
    """A printed number belongs to `title`, or to `title / point` where there are several points."""
    leaves = {value.rsplit(".", 1)[-1] for value in exhibit.values}
    found: dict[tuple[str, str, str], Printed] = {}
    for series, points in exhibit.cells.items():
        for point in points:
            place = exhibit.title if len(points) == 1 else f"{exhibit.title} / {point}"
            found.update(
                ((series, point, one.column), one)
                for one in printed
                if (one.panel, one.row) == (place, series) and one.column.partition(":")[0] in leaves
            )
    return found


def value_of(run: Run | None, path: str) -> Any:
    """What stands at a path of a record: in its scores, or, if it says so, in `facts` or `curve`; None where nothing."""
    if run is None:
        return None
    first, *rest = path.split(".")
    found: Any = {"facts": run.facts, "curve": run.curve}.get(first)
    for name in rest if found is not None else (first, *rest):
        found = (run.scores if found is None and name == first else found or {}).get(name)
    return found


def numbers_of(runs: Iterable[Run | None], path: str) -> list[float | None]:
    """A value of each run, in order; None where there is none."""
    return [None if (found := value_of(run, path)) is None else float(found) for run in runs]


Drawn = tuple[Figure | None, Grid | None, list[Number]]
Tested = Mapping[tuple[str, str, str], str]
"""(series, point, path) -> the p-values of a cell, in words"""


@dataclass(frozen=True)
class _Look:
    """What drawing needs beside the numbers."""

    styles: Mapping[str, Style]
    beside: Beside
    tested: Tested


def _table(anchor: str, exhibit: Exhibit, cells: Runs, look: _Look) -> Drawn:  # noqa: ARG001
    points = list(dict.fromkeys(point for row in cells.values() for point in row))
    names = _names(exhibit)
    head = ("", *(f"{point}: {name}" if len(points) > 1 else name for point in points for name in names))
    rows, numbers = [], list[Number]()
    for series, row in cells.items():
        texts: list[tuple[str, ...]] = [(series,)]
        for point in points:
            for path in exhibit.values:
                printed = look.beside.get((series, point, _leaf(path)))
                if words := _words(row.get(point, ()), path):
                    texts.append((words, *_paper(printed)))
                    continue
                values = numbers_of(row.get(point, ()), path)
                numbers += _numbers(series, point, path, values)
                base = numbers_of(cells.get(exhibit.baseline, {}).get(point, ()), path)
                told = (look.tested.get((series, point, path), ""), *_paper(printed))
                more = _statistics(values, base, exhibit.baseline, look.beside, (series, point, _leaf(path)))
                texts.append((_mean(values), *filter(None, told), *more))
        rows.append(tuple(texts))
    return None, Grid(head, tuple(rows)), numbers


def _mean(values: Sequence[float | None]) -> str:
    present = [value for value in values if value is not None]
    return spoken(present) if present else "–"


def _statistics(
    values: Sequence[float | None],
    base: Sequence[float | None],
    baseline: str,
    beside: Beside,
    cell: tuple[str, str, str],
) -> Iterator[str]:
    """Those that the paper prints of a cell beside its mean, ours first."""
    present = [value for value in values if value is not None]
    below = [b - a for a, b in zip(values, base, strict=False) if a is not None and b is not None]
    side = "below" if fmean(below or [0.0]) >= 0 else "above"
    series, point, leaf = cell
    for statistic, words, ours in (
        ("lowest", "lowest", [min(present)] if present else []),
        ("highest", "highest", [max(present)] if present else []),
        ("below", f"{side} {baseline} by", below if side == "below" else [-by for by in below]),
    ):
        printed = beside.get((series, point, f"{leaf}:{statistic}"))
        if printed is not None:
            yield f"{words} {_mean(ours)}, {_paper(printed)[0]}"


def _paper(printed: Printed | None) -> tuple[str, ...]:
    return (f"paper {paper_value(printed)}",) if printed else ()


def _words(runs: Iterable[Run | None], path: str) -> str:
    """The different words that runs have at a path; empty where they have numbers."""
    found = (value_of(run, path) for run in runs)
    return " / ".join(dict.fromkeys(one for one in found if isinstance(one, str)))


def spoken(values: Sequence[float]) -> str:
    """`0.412 ± 0.011`, with as many decimals as the size of the mean asks for; a single whole number has none."""
    told = stats.mean_sd(values)
    if told.sd is None and told.mean.is_integer():
        return f"{told.mean:,.0f}"
    if max(abs(told.mean), told.sd or 0.0) >= 100:
        return f"{told.mean:,.0f}" if told.sd is None else f"{told.mean:,.0f} ± {told.sd:,.0f}"
    if 0 < abs(told.mean) < 0.01:
        text = f"{told.mean:.2g}" if told.sd is None else f"{told.mean:.2g} ± {told.sd:.2g}"
        return text.replace("-", MINUS)
    return mean_sd(told.mean, told.sd)


def _tests(exhibit: Exhibit, cells: Runs, beside: Beside, ledger: RunSource) -> tuple[Tested, str]:
    """Against the baseline, in pairs: the exact Wilcoxon test, as 003 tests, and a t test; and how to read them."""
    ranks, t_tests, resampled = dict[tuple[str, str, str], float](), dict[tuple[str, str, str], str](), False
    for series, row in cells.items() if exhibit.baseline else ():
        for point, runs in row.items():
            for path in exhibit.values:
                base = numbers_of(cells[exhibit.baseline].get(point, ()), path)
                both = zip(numbers_of(runs, path), base, runs, strict=False)
                pairs = [(a, b, run) for a, b, run in both if a is not None and b is not None and run is not None]
                if series == exhibit.baseline or len(pairs) < 2:
                    continue
                mine, theirs, of = zip(*pairs, strict=True)
                behind = [one for run in of for one in trained(run, ledger)[:1]]
                resampled = resampled or split_is_resampled(behind)
                cell = series, point, path
                ranks[cell] = stats.wilcoxon(mine, theirs, alternative=exhibit.alternative).p
                t_tests[cell] = probability(paired_test(mine, theirs, behind, exhibit.alternative).p)
    holm = dict(zip(ranks, stats.holm(list(ranks.values())), strict=True))
    told = {cell: f"p {probability(p)}, Holm {probability(holm[cell])}, t {t_tests[cell]}" for cell, p in ranks.items()}
    for series, point, path in ranks:
        for printed in _paper(beside.get((series, point, f"{_leaf(path)}:p"))):
            told[series, point, path] += f", {printed.replace('paper', 'paper p')}"
    return told, how_cells_are_tested(exhibit.baseline, exhibit.alternative, resampled=resampled) if ranks else ""


def _dots(anchor: str, exhibit: Exhibit, cells: Runs, look: _Look) -> Drawn:
    _, grid, numbers = _table(anchor, exhibit, cells, look)
    panels = []
    for path, name in zip(exhibit.values, _names(exhibit), strict=True):
        rows = []
        for series, row in cells.items():
            for point, runs in row.items():
                present = [value for value in numbers_of(runs, path) if value is not None]
                printed = look.beside.get((series, point, _leaf(path)))
                label = series if len(row) == 1 else f"{series}, {point}"
                if present:
                    rows.append((label, look.styles[series], present, None if printed is None else printed.mean))
        if rows:
            panels.append(dot_rows(name, rows))
    return _figure(anchor, exhibit, panels), grid, numbers


def _lines(anchor: str, exhibit: Exhibit, cells: Runs, look: _Look) -> Drawn:
    _, grid, numbers = _table(anchor, exhibit, cells, look)
    panels = []
    for path, name in zip(exhibit.values, _names(exhibit), strict=True):
        paths: dict[str, Path] = {}
        for series, row in cells.items():
            at = [(float(point), [v for v in numbers_of(runs, path) if v is not None]) for point, runs in row.items()]
            paths[series] = [(x, fmean(values), stats.mean_sd(values).sd or 0.0) for x, values in at if values]
        if any(paths.values()):
            styled = {series: (look.styles[series], one) for series, one in paths.items()}
            panels.append(lines(name, styled, exhibit.axes))
    return _figure(anchor, exhibit, panels), grid, numbers


def _curves(anchor: str, exhibit: Exhibit, cells: Runs, look: _Look) -> Drawn:
    panels, numbers = [], []
    for place, name in enumerate(_names(exhibit)):
        x_path, y_path = exhibit.values[2 * place : 2 * place + 2]
        paths: dict[str, tuple[Style, Path]] = {}
        for series, row in cells.items():
            for point, runs in row.items():
                path = _mean_curve(runs, x_path, y_path)
                label = series if len(row) == 1 else f"{series}, {point}"
                if path:
                    paths[label] = look.styles[series], path
                    numbers += [Number(series, point, y_path, "mean", f"{x:g}", mean) for x, mean, _ in path]
        if paths:
            panels.append(lines(name, paths, exhibit.axes))
    return _figure(anchor, exhibit, panels), None, numbers


def _mean_curve(runs: Sequence[Run | None], x_path: str, y_path: str) -> Path:
    """Over the places that every finished run has, None left out; without a path for x, places count from 1."""
    finished = [run for run in runs if run is not None]
    ys = [value_of(run, y_path) or [] for run in finished]
    shortest = min(map(len, ys), default=0)
    xs = [value_of(run, x_path) if x_path else range(1, shortest + 1) for run in finished]
    path = []
    for place in range(shortest):
        points = [(x[place], y[place]) for x, y in zip(xs, ys, strict=True) if y[place] is not None]
        if points:
            values = [y for _, y in points]
            path.append((fmean(x for x, _ in points), fmean(values), stats.mean_sd(values).sd or 0.0))
    return path


def _bars(anchor: str, exhibit: Exhibit, cells: Runs, look: _Look) -> Drawn:
    """Each run's list of items: {"name", "said", "classes", "shares": {who: [share of each class]}}."""
    panels, numbers = [], []
    (path,) = exhibit.values
    for series, row in cells.items():
        for point, runs in row.items():
            for run in runs[:1]:
                for item in value_of(run, path) or []:
                    panels.append(bars(item, look.styles))
                    numbers += [
                        Number(series, point, f"{item['name']}: {who}", "share", of_class, share)
                        for who, shares in item["shares"].items()
                        for of_class, share in zip(item["classes"], shares, strict=True)
                    ]
    return _figure(anchor, exhibit, panels, "small"), None, numbers


def _figure(anchor: str, exhibit: Exhibit, panels: Sequence[Any], shape: str = "wide") -> Figure | None:
    """Without a heading of its own: it stands alone in a section of that name."""
    return Figure(anchor, "", exhibit.note, tuple(panels), shape) if panels else None


def _numbers(series: str, point: str, path: str, values: Sequence[float | None]) -> Iterator[Number]:
    present = [value for value in values if value is not None]
    for place, value in enumerate(values):
        if value is not None:
            yield Number(series, point, path, "value", str(place), value)
    if present:
        told = stats.mean_sd(present)
        yield Number(series, point, path, "mean", "", told.mean)
        if told.sd is not None:
            yield Number(series, point, path, "sd", "", told.sd)


def _names(exhibit: Exhibit) -> tuple[str, ...]:
    return exhibit.names or tuple(title(_leaf(path)) for path in exhibit.values)


def _leaf(path: str) -> str:
    return path.rsplit(".", 1)[-1]
