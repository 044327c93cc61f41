"""results.csv: every number once, one line each, in an order and a spelling that depend on nothing but the runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True)
class CsvLine:
    """One number. Floats read back as they were; a value that is infinite or undefined is empty.

    In a score table `statistic` is `value` (of one seed), `mean`, `sd`, or, on the primary metric, a part of the paired
    comparison with the baseline: `difference`, `low`, `high`, `p`, `p_holm`; a run that is missing has one line,
    `not_finished`. In other exhibits `checkpoint` is the point, and `seed` the replicate or the x of a curve.
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


def text(lines: Iterable[CsvLine]) -> str:
    """The file's content. It holds no time, path or host, so that two runs can be compared byte for byte."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(CsvLine))
    writer.writerows(astuple(line) for line in lines)
    return out.getvalue()


def spelled(value: float | int | None) -> str:
    """A number so that it reads back as it was."""
    return "" if value is None else repr(value)
