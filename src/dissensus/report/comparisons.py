"""The comparison as data: which run is which cell, means over seeds, paired differences to the baseline, and the limits.

Everything the page, the Markdown and the CSV say is read from here, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean
from typing import Literal

from dissensus import stats
from dissensus.experiments.description import Manifest, Printed, Table
from dissensus.metrics.temperature import COLDEST
from dissensus.report.svg import Style
from dissensus.report.wording import CALIBRATIONS, CHECKPOINTS, direction, method_of_test
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json, Run

LEVEL = 0.95
Verdict = Literal["better", "worse", "suggestive", "indistinguishable", "untested"]


@dataclass(frozen=True)
class Cell:
    """One metric of one method: its value for each finished seed that has one.

    `infinite` counts, for each seed whose mean is infinite, the items that make it so: there is then no mean over seeds.
    """

    values: Mapping[int, float]
    infinite: Mapping[int, int] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Over the finished seeds; None without any, or with an infinite one."""
        return fmean(self.values.values()) if self.values and not self.infinite else None

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 by definition: a floor, shown without decimals."""
        return bool(self.values) and not any(self.values.values())

    @property
    def sd(self) -> float | None:
        """Over the finished seeds; None with fewer than two, or with an infinite one."""
        return stats.mean_sd(list(self.values.values())).sd if self.values and not self.infinite else None


@dataclass(frozen=True)
class Difference:
    """A method minus the baseline on the primary metric, over the seeds that both finished.

    The interval and `p` are of one comparison; `p_holm` is corrected for all rows of the table. `worse` is +1 where a
    positive difference is a loss. Fewer than two seeds have no interval and no p.
    """

    values: Mapping[int, float]
    worse: int
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None

    @property
    def mean(self) -> float:
        """Over seeds."""
        return fmean(self.values.values())

    @property
    def verdict(self) -> Verdict:
        """`indistinguishable` only where the interval holds 0; a direction only where it survives Holm's correction."""
        if self.low is None or self.high is None or self.p_holm is None:
            return "untested"
        if self.low <= 0 <= self.high:
            return "indistinguishable"
        if self.p_holm > 1 - LEVEL:
            return "suggestive"
        return "worse" if self.mean * self.worse > 0 else "better"


@dataclass(frozen=True)
class Method:
    """A row of the manifest with its finished runs; it looks the same in every table and figure.

    `checkpoint` is the one that its table speaks of first, and that figures show.
    """

    label: str
    words: str
    style: Style
    runs: Mapping[int, Run]
    seeds: tuple[int, ...]
    checkpoint: str = "last"

    @property
    def missing(self) -> tuple[int, ...]:
        """The seeds whose runs are not in the ledger."""
        return tuple(seed for seed in self.seeds if seed not in self.runs)

    def scores(self, checkpoint: str, calibration: str) -> dict[int, Json]:
        """All scores of each finished seed."""
        return {seed: run.scores.get(checkpoint, {}).get(calibration, {}) for seed, run in self.runs.items()}

    def cell(self, checkpoint: str, calibration: str, metric: str) -> Cell:
        """A metric over seeds. A value of null (an infinite mean, an undefined correlation) is absent."""
        scores, items = self.scores(checkpoint, calibration), f"{metric}_infinite_items"
        values = {seed: float(one[metric]) for seed, one in scores.items() if one.get(metric) is not None}
        return Cell(values, {seed: int(one[items]) for seed, one in scores.items() if one.get(items)})


@dataclass(frozen=True)
class Line:
    """A method in one block: its cells by column, and its difference to the baseline (None for the baseline itself)."""

    method: Method
    cells: Mapping[str, Cell]
    temperature: Cell | None
    difference: Difference | None


@dataclass(frozen=True)
class Block:
    """All methods at one checkpoint and one calibration. `best` holds the labels with the best mean of each column.

    `note` says where a temperature is none that anybody should use, and is empty elsewhere.
    """

    checkpoint: str
    calibration: str
    lines: tuple[Line, ...]
    best: Mapping[str, frozenset[str]]
    note: str = ""

    @property
    def name(self) -> str:
        """In words."""
        return f"{CALIBRATIONS[self.calibration]}, {CHECKPOINTS[self.checkpoint]}"

    def line(self, label: str) -> Line | None:
        """The line of a method."""
        return next((line for line in self.lines if line.method.label == label), None)


@dataclass(frozen=True)
class Limit:
    """A row that is no method: what the votes themselves allow, by column."""

    label: str
    meaning: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class Comparison:
    """One table of the manifest, computed. The first block is the primary one: as trained, at the table's checkpoint."""

    anchor: str
    title: str
    note: str
    primary: str
    baseline: str
    columns: tuple[str, ...]
    methods: tuple[Method, ...]
    blocks: tuple[Block, ...]
    limits: tuple[Limit, ...]
    printed: Mapping[tuple[str, str], Printed]
    resampled: bool
    seeds: tuple[int, ...]

    def block(self, calibration: str) -> Block | None:
        """The block of this calibration at the table's own checkpoint, where runs have one."""
        return next((one for one in self.blocks if one.calibration == calibration), None)

    def limit(self, metric: str) -> Limit | None:
        """The most telling limit of a metric."""
        return next((limit for limit in self.limits if limit.cells.get(metric) and limit.cells[metric].values), None)


def looks(manifest: Manifest) -> dict[str, Style]:
    """A label has one look across all tables and exhibits."""
    rows = [row.label for table in manifest.tables for row in table.rows]
    labels = dict.fromkeys((*rows, *(series for one in manifest.exhibits for series in one.cells)))
    return {label: Style(index) for index, label in enumerate(labels)}


def comparisons(manifest: Manifest, ledger: RunSource, styles: Mapping[str, Style]) -> tuple[Comparison, ...]:
    """Every table of the manifest, from the runs that are finished."""
    numbered = enumerate(manifest.tables, start=1)
    return tuple(_comparison(manifest, table, f"t{number}", styles, ledger) for number, table in numbered)


def _comparison(
    manifest: Manifest, table: Table, anchor: str, styles: Mapping[str, Style], ledger: RunSource
) -> Comparison:
    methods = tuple(
        Method(
            row.label,
            row.method,
            styles[row.label],
            {seed: ledger.read(run_id) for seed, run_id in row.runs.items() if run_id in ledger},
            tuple(row.runs),
            table.checkpoint,
        )
        for row in table.rows
    )
    runs = [run for method in methods for run in method.runs.values()]
    columns = tuple(dict.fromkeys((manifest.primary, *manifest.columns)))
    columns = tuple(column for column in columns if column == manifest.primary or _is_measured(column, runs))
    labels = {method.label for method in methods}
    printed = {
        (one.row, one.column): one
        for one in manifest.printed
        if one.panel == table.title and one.row in labels and one.column in columns
    }
    blocks = tuple(
        _block(checkpoint, calibration, methods, table.baseline, manifest.primary, columns)
        for checkpoint in sorted(CHECKPOINTS, key=lambda one: one != table.checkpoint)
        for calibration in CALIBRATIONS
        if any(calibration in run.scores.get(checkpoint, {}) for run in runs)
    )
    return Comparison(
        anchor,
        table.title,
        table.note,
        manifest.primary,
        table.baseline,
        columns,
        methods,
        blocks,
        _limits(methods, columns),
        printed,
        split_is_resampled(runs),
        manifest.seeds,
    )


def _is_measured(metric: str, runs: Sequence[Run]) -> bool:
    return any(metric in scores for run in runs for one in run.scores.values() for scores in one.values())


def _block(
    checkpoint: str, calibration: str, methods: Sequence[Method], baseline: str, primary: str, columns: Sequence[str]
) -> Block:
    cells = {method.label: {name: method.cell(checkpoint, calibration, name) for name in columns} for method in methods}
    differences = _differences(methods, {label: row[primary] for label, row in cells.items()}, baseline, primary)
    lines = tuple(
        Line(
            method,
            cells[method.label],
            _temperature(method, checkpoint, calibration),
            differences.get(method.label),
        )
        for method in methods
    )
    best = {name: _best({label: row[name] for label, row in cells.items()}, direction(name)) for name in columns}
    return Block(checkpoint, calibration, lines, best, _bounds_note(methods, checkpoint, calibration))


def _best(cells: Mapping[str, Cell], better: str) -> frozenset[str]:
    """Among the rows with the most seeds: seeds are of different difficulty, so a mean over fewer is another thing."""
    most = max((len(cell.values) for cell in cells.values()), default=0)
    present = {label: cell.mean for label, cell in cells.items() if len(cell.values) == most and cell.mean is not None}
    if better not in ("lower", "higher") or len(present) < 2:
        return frozenset()
    target = min(present.values()) if better == "lower" else max(present.values())
    return frozenset(label for label, mean in present.items() if mean == target)


def _differences(
    methods: Sequence[Method], cells: Mapping[str, Cell], baseline: str, primary: str
) -> dict[str, Difference]:
    """Against the baseline in pairs of equal seed; Holm over all rows that could be tested."""
    worse = -1 if direction(primary) == "higher" else 1
    base = cells[baseline].values
    tests: dict[str, tuple[dict[int, float], stats.TTest]] = {}
    for method in methods:
        mine = cells[method.label].values
        seeds = [seed for seed in mine if seed in base]
        infinite = cells[method.label].infinite or cells[baseline].infinite  # a mean over the other seeds would flatter
        if method.label != baseline and seeds and not infinite:
            pairs = [mine[seed] for seed in seeds], [base[seed] for seed in seeds]
            paired = {seed: mine[seed] - base[seed] for seed in seeds}
            tests[method.label] = paired, paired_test(*pairs, [method.runs[seed] for seed in seeds])
    possible = {label: test.p for label, (_, test) in tests.items() if test.p is not None}
    corrected = dict(zip(possible, stats.holm(list(possible.values())), strict=True))
    return {
        label: Difference(paired, worse, test.low, test.high, test.p, corrected.get(label))
        for label, (paired, test) in tests.items()
    }


def paired_test(
    mine: Sequence[float],
    base: Sequence[float],
    runs: Sequence[Run],
    alternative: stats.Alternative = "two-sided",
) -> stats.TTest:
    """Of values in pairs, the first of these training runs; corrected where every seed drew its own evaluation items."""
    if not split_is_resampled(runs):
        return stats.paired_t(mine, base, alternative=alternative, level=LEVEL)
    sizes = [run.facts["items"] for run in runs]
    ratio = fmean(size["evaluation"] for size in sizes) / fmean(size["train"] for size in sizes)
    return stats.corrected_t(mine, base, test_to_train=ratio, alternative=alternative, level=LEVEL)


def how_tested(tables: Sequence[Comparison]) -> list[str]:
    """A sentence for each kind of test behind the tables of which something is finished."""
    begun = [table for table in tables if any(method.runs for method in table.methods)]
    return list(dict.fromkeys(method_of_test(resampled=table.resampled) for table in begun))


def split_is_resampled(runs: Sequence[Run]) -> bool:
    """Whether every seed drew its own evaluation items: their training sets then overlap, and a plain t is too sure."""
    splits = [run.spec.settings.get("split", {}) for run in runs]
    return bool(splits) and all(one.get("name") == "holdout" and one.get("fixed") is None for one in splits)


def _temperatures(method: Method, checkpoint: str, calibration: str) -> dict[int, list[float]]:
    """The temperatures of the two halves, for each seed; empty where nothing was tempered."""
    of = {seed: run.facts.get("temperatures", {}).get(checkpoint, {}) for seed, run in method.runs.items()}
    return {seed: fitted[calibration] for seed, fitted in of.items() if fitted.get(calibration)}


def _temperature(method: Method, checkpoint: str, calibration: str) -> Cell | None:
    """The mean of the two halves' temperatures, for each seed."""
    if calibration == "raw":
        return None
    return Cell({seed: fmean(pair) for seed, pair in _temperatures(method, checkpoint, calibration).items()})


def _bounds_note(methods: Sequence[Method], checkpoint: str, calibration: str) -> str:
    """Labels alone cannot set a temperature where the model has every label of a half right: sharper is always better."""
    fitted = {one.label: [*chain(*_temperatures(one, checkpoint, calibration).values())] for one in methods}
    coldest = {label: sum(value <= COLDEST for value in values) for label, values in fitted.items()}
    if not any(coldest.values()):
        return ""
    told = ", ".join(f"{label} {count} of {len(fitted[label])}" for label, count in coldest.items() if count)
    return (
        f"In some halves the best T is as cold as it may be ({COLDEST:g}): {told}. Every item of such a half was right, "
        "so its fit asks for ever more confidence, and the other half pays for it. Read this table as a warning."
    )


def _limits(methods: Sequence[Method], columns: Sequence[str]) -> tuple[Limit, ...]:
    """Rows of what no method can beat, for each column that has such a limit. They depend on the votes alone."""

    def seen(metric: str) -> Cell:
        values: dict[int, float] = {}
        for method in methods:
            values = {**method.cell(method.checkpoint, "raw", metric).values, **values}
        return Cell(dict(sorted(values.items())))

    floor, expected = seen("soft_nll_floor"), seen("soft_nll_expected")
    excess = Cell({seed: value - floor.values[seed] for seed, value in expected.values.items()})
    zero = Cell(dict.fromkeys(floor.values, 0.0))
    rows = [
        Limit(
            "Knowing the truth",
            "the expected score of a model that knew every item's true distribution, given how few votes judge it",
            {"soft_nll": expected, "kl": excess, "kl_to_truth": zero},
        ),
        Limit(
            "Floor", "no prediction can score lower on these votes", {"soft_nll": floor, "kl": zero, "kl_to_truth": zero}
        ),
        Limit(
            "Ceiling",
            "the correlation that the true entropies would reach with those of so few votes",
            {name: seen(f"{name}_ceiling") for name in columns if name.startswith("entropy_")},
        ),
    ]
    shown = ({name: cell for name, cell in row.cells.items() if name in columns and cell.values} for row in rows)
    return tuple(replace(row, cells=cells) for row, cells in zip(rows, shown, strict=True) if cells)
