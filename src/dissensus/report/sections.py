"""What a report shows of one exhibit, whatever its kind: the common shape that the page and the Markdown print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dissensus.experiments.description import Exhibit
from dissensus.experiments.values import Value, number
from dissensus.report.answer import Answer
from dissensus.report.charts import Figure
from dissensus.report.comparison import Comparison
from dissensus.report.gallery import Gallery
from dissensus.report.results_csv import CsvLine, SeedLine
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run


@dataclass(frozen=True)
class Grid:
    """The numbers of an exhibit as text; a cell may have several lines."""

    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], ...], ...]


@dataclass(frozen=True)
class Scores:
    """What a score table has beside its figures. `left_out` says what the figures leave out, and why.

    `seed_lines` are the scores of its single runs.
    """

    comparison: Comparison
    answer: Answer
    gallery: Gallery | None
    left_out: str
    seed_lines: tuple[SeedLine, ...] = ()


@dataclass(frozen=True)
class Section:
    """An exhibit, computed and drawn. `missing` counts runs that are not finished; `how_tested` explains p."""

    exhibit: Exhibit[str]
    runs: tuple[Run, ...]
    missing: int
    lines: tuple[CsvLine, ...]
    figures: tuple[Figure, ...] = ()
    grid: Grid | None = None
    how_tested: str = ""
    scores: Scores | None = None


RunCells = Mapping[str, Mapping[str, Mapping[str, Run | None]]]
"""row -> point -> replicate -> its run, None where it is not finished"""


def read_cells(exhibit: Exhibit[str], runs: RunSource) -> RunCells:
    """The runs of an exhibit's cells."""
    return {
        row: {point: read_replicates(replicates, runs) for point, replicates in points.items()}
        for row, points in exhibit.cells.items()
    }


def read_replicates(replicates: Mapping[str, str], runs: RunSource) -> dict[str, Run | None]:
    """The runs of a cell or a group; None where one is not finished."""
    return {name: runs.read(run_id) if run_id in runs else None for name, run_id in replicates.items()}


def numbers(value: Value, replicates: Mapping[str, Run | None]) -> dict[str, float]:
    """The value of each replicate that has one."""
    read = {name: number(value, run) for name, run in replicates.items()}
    return {name: content for name, content in read.items() if content is not None}


def finished(cells: RunCells) -> tuple[tuple[Run, ...], int]:
    """The runs that are there, each once; and how many cells' runs are not."""
    every: list[Run | None] = [run for points in cells.values() for runs in points.values() for run in runs.values()]
    return tuple({run.id: run for run in every if run is not None}.values()), sum(run is None for run in every)


def all_runs(sections: Iterable[Section]) -> tuple[Run, ...]:
    """Every finished run that is shown, each once."""
    return tuple({run.id: run for section in sections for run in section.runs}.values())
