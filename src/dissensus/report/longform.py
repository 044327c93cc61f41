"""results.csv: every number once, a line each, in an order and a spelling that depend on nothing but the runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from dissensus.report.comparisons import Block, Comparison, Line
from dissensus.report.exhibits import Shown

HEADER = ("table", "row", "method", "checkpoint", "calibration", "metric", "statistic", "seed", "value")

Record = tuple[str, ...]


def text(tables: Sequence[Comparison], exhibits: Sequence[Shown] = ()) -> str:
    """The file's content. It holds no time, path or host, so that two runs can be compared byte for byte.

    `statistic` is `value` (of one seed), `mean`, `sd`, or, on the primary metric, a part of the paired comparison with
    the baseline: `difference`, `low`, `high`, `p`, `p_holm`. Floats read back as they were; a value that is infinite or
    undefined is empty; a run that is missing has one line, `not_finished`. Of an exhibit, `checkpoint` is the point and
    `seed` the place among its runs, or the x of a curve.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for table in tables:
        writer.writerows(_records(table))
    for one in exhibits:
        title = one.exhibit.title
        writer.writerows(
            (title, n.series, "", n.point, "", n.value, n.statistic, n.of, repr(n.number)) for n in one.numbers
        )
    return out.getvalue()


def _records(table: Comparison) -> Iterator[Record]:
    for method in table.methods:
        for seed in method.missing:
            yield (table.title, method.label, method.words, "", "", "", "not_finished", str(seed), "")
    for block in table.blocks:
        for line in block.lines:
            start = (table.title, line.method.label, line.method.words, block.checkpoint, block.calibration)
            for end in (*_of_metrics(block, line), *_of_difference(table.primary, line)):
                yield start + end


def _of_metrics(block: Block, line: Line) -> Iterator[Record]:
    of_seed = line.method.scores(block.checkpoint, block.calibration)
    names = sorted({name for scores in of_seed.values() for name, value in scores.items() if not isinstance(value, str)})
    for name in names:
        for seed, scores in of_seed.items():
            if name in scores:
                yield (name, "value", str(seed), _number(scores[name]))
        cell = line.method.cell(block.checkpoint, block.calibration, name)
        yield from _summary(name, (("mean", cell.mean), ("sd", cell.sd)))
    if line.temperature is not None:
        for seed, value in line.temperature.values.items():
            yield ("temperature", "value", str(seed), _number(value))


def _of_difference(primary: str, line: Line) -> Iterator[Record]:
    one = line.difference
    if one is not None:
        parts = (("difference", one.mean), ("low", one.low), ("high", one.high), ("p", one.p), ("p_holm", one.p_holm))
        yield from _summary(primary, parts)


def _summary(metric: str, parts: Iterable[tuple[str, float | None]]) -> Iterator[Record]:
    for statistic, value in parts:
        if value is not None:
            yield (metric, statistic, "", _number(value))


def _number(value: float | int | None) -> str:
    return "" if value is None else repr(value)
