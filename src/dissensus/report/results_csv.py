"""results.csv and seeds.csv: every number once, in an order and a spelling that depend on nothing but the runs.

results.csv has one number per line: what tables, figures and claims show. seeds.csv has the scores of single runs, one
line per run, checkpoint and calibration, and a column per metric.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True)
class CsvLine:
    """One number. Floats read back as they were; a value that is infinite or undefined is empty.

    In a score table `statistic` is `mean` or `sd` over seeds, or, on the primary metric, a part of the paired comparison
    with the baseline: `difference`, `low`, `high`, `p`, `p_holm`; a run that is missing has one line, `not_finished`. In
    other exhibits it may be `value`, `checkpoint` is the point, and `seed` the replicate or the x of a curve.

    A text that a spreadsheet would compute, because it begins with = + - @ or a tab, has a ' before it, as one writes it
    in a spreadsheet; so has one that begins with a ', for a reader to take one off. Numbers are left alone.
    """

    table: str
    row: str
    method: str = ""
    checkpoint: str = ""
    calibration: str = ""
    metric: str = ""
    statistic: str = ""
    seed: str = ""
    value: str = ""


@dataclass(frozen=True)
class SeedLine:
    """All scores of one run of a score table, at one checkpoint and calibration; `temperature` where it was tempered."""

    table: str
    row: str
    checkpoint: str
    calibration: str
    seed: str
    scores: Mapping[str, float | int | None]


def text(lines: Iterable[CsvLine]) -> str:
    """The content of results.csv. It holds no time, path or host, so that two runs can be compared byte for byte."""
    names = [field.name for field in fields(CsvLine)]
    return _written(names, map(attrgetter(*names), lines))


def seeds_text(lines: Sequence[SeedLine]) -> str:
    """The content of seeds.csv; the same holds for it. A score that a run lacks, or that is undefined, is empty."""
    names = [field.name for field in fields(SeedLine) if field.name != "scores"]
    metrics = sorted({name for line in lines for name in line.scores})
    start = attrgetter(*names)
    rows = ((*start(line), *(spelled(line.scores.get(name)) for name in metrics)) for line in lines)
    return _written([*names, *metrics], rows)


def _written(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(defused, head))
    writer.writerows(map(defused, row) for row in rows)
    return out.getvalue()


def defused(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula.

    >>> [defused(cell) for cell in ("=1+1", "-0.5", "-soft", "Soft", "'a")]
    ["'=1+1", '-0.5', "'-soft", 'Soft', "''a"]
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "'")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def spelled(value: float | int | None) -> str:
    """A number so that it reads back as it was."""
    return "" if value is None else repr(value)
