"""A score table as data: means over seeds, paired differences to the baseline, and what the votes allow.

Everything the page, the Markdown and the CSV say about scores is read from here, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import fmean
from typing import Literal

from dissensus import stats
from dissensus.errors import InputError
from dissensus.experiments.description import Experiment, Printed, ScoreTable
from dissensus.metrics.temperature import COLDEST
from dissensus.report.svg import Style
from dissensus.report.wording import CALIBRATIONS, CHECKPOINTS, direction, method_of_test
from dissensus.store.json_types import misfit
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json, Run, canonical

LEVEL = 0.95
Verdict = Literal["better", "worse", "suggestive", "indistinguishable", "untested"]
TRUTH = "The truth"


@dataclass(frozen=True)
class SeedValues:
    """One metric of one method: its value for each finished seed that has one.

    `infinite` counts, for each seed whose mean is infinite, the items that make it so: there is then no mean over seeds.
    """

    values: Mapping[str, float]
    infinite: Mapping[str, int] = field(default_factory=dict)

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

    values: Mapping[str, float]
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
    """A row of a score table with its finished runs; it looks the same in every table and figure.

    `checkpoint` is the one that its table speaks of first, and that figures show.
    """

    label: str
    words: str
    style: Style
    runs: Mapping[str, Run]
    seeds: tuple[str, ...]
    checkpoint: str = "last"

    @property
    def missing(self) -> tuple[str, ...]:
        """The seeds whose runs are not in the ledger."""
        return tuple(seed for seed in self.seeds if seed not in self.runs)

    def scores(self, checkpoint: str, calibration: str) -> dict[str, Json]:
        """All scores of each finished seed."""
        return {seed: scores_of(run, checkpoint).get(calibration, {}) for seed, run in self.runs.items()}

    def cell(self, checkpoint: str, calibration: str, metric: str) -> SeedValues:
        """A metric over seeds. A value of null (an infinite mean, an undefined correlation) is absent."""
        scores, items = self.scores(checkpoint, calibration), f"{metric}_infinite_items"
        values = {
            seed: float(of_seed[metric])
            for seed, of_seed in scores.items()
            if isinstance(of_seed.get(metric), (int, float))
        }
        return SeedValues(values, {seed: int(of_seed[items]) for seed, of_seed in scores.items() if of_seed.get(items)})


@dataclass(frozen=True)
class MethodScores:
    """A method in one block: its cells by column, and its difference to the baseline (None for the baseline itself)."""

    method: Method
    cells: Mapping[str, SeedValues]
    temperature: SeedValues | None
    difference: Difference | None


@dataclass(frozen=True)
class ScoreBlock:
    """All methods at one checkpoint and one calibration. `best` holds the labels with the best mean of each column.

    `note` says where a temperature is none that anybody should use, and is empty elsewhere.
    """

    checkpoint: str
    calibration: str
    rows: tuple[MethodScores, ...]
    best: Mapping[str, frozenset[str]]
    note: str = ""

    @property
    def name(self) -> str:
        """In words."""
        return f"{CALIBRATIONS[self.calibration]}, {CHECKPOINTS[self.checkpoint]}"

    def row(self, label: str) -> MethodScores | None:
        """The row of a method."""
        return next((row for row in self.rows if row.method.label == label), None)


@dataclass(frozen=True)
class Limit:
    """A row that is no method: what the votes themselves allow, by column; `ranges` where it is an estimate."""

    label: str
    meaning: str
    cells: Mapping[str, SeedValues]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A score table, computed. The first block is the primary one: as trained, at the table's checkpoint."""

    table: ScoreTable[str]
    columns: tuple[str, ...]
    methods: tuple[Method, ...]
    blocks: tuple[ScoreBlock, ...]
    limits: tuple[Limit, ...]
    printed: Mapping[tuple[str, str], Printed]
    resampled: bool
    seeds: tuple[str, ...]

    @property
    def primary(self) -> str:
        """The metric that the answer is about."""
        return self.table.primary

    @property
    def baseline(self) -> str:
        """The row that the others are tested against."""
        return self.table.baseline

    def block(self, calibration: str) -> ScoreBlock | None:
        """The block of this calibration at the table's own checkpoint, where runs have one."""
        return next((block for block in self.blocks if block.calibration == calibration), None)

    def limit(self, metric: str) -> Limit | None:
        """The most telling limit of a metric."""
        return next((limit for limit in self.limits if limit.cells.get(metric) and limit.cells[metric].values), None)


def looks(experiment: Experiment[str]) -> dict[str, Style]:
    """A label has one look in all exhibits."""
    labels = dict.fromkeys(row for exhibit in experiment.exhibits for row in exhibit.cells)
    return {label: Style(index) for index, label in enumerate(labels)}


def compare(table: ScoreTable[str], runs: RunSource, styles: Mapping[str, Style]) -> Comparison:
    """The table, from the runs that are finished."""

    def scored(run_id: str) -> Run:
        run = runs.read(run_id)
        if run.spec.kind != "train" and not any(isinstance(part, Mapping) for part in run.scores.values()):
            raise InputError(f"run {run_id} is of no model, and has no scores to compare", where=table.title, state="")
        return run

    methods = tuple(
        Method(
            label,
            table.methods.get(label, ""),
            styles[label],
            {seed: scored(run_id) for seed, run_id in points[""].items() if run_id in runs},
            tuple(points[""]),
            table.checkpoint,
        )
        for label, points in table.cells.items()
    )
    finished = [run for method in methods for run in method.runs.values()]
    columns = tuple(dict.fromkeys((table.primary, *table.columns)))
    columns = tuple(column for column in columns if column == table.primary or _is_measured(column, finished))
    blocks = tuple(
        _block(checkpoint, calibration, methods, table.baseline, table.primary, columns)
        for checkpoint in sorted(CHECKPOINTS, key=lambda checkpoint: checkpoint != table.checkpoint)
        for calibration in CALIBRATIONS
        if any(calibration in scores_of(run, checkpoint) for run in finished)
    )
    return Comparison(
        table,
        columns,
        methods,
        blocks,
        _limits(methods, columns),
        {(printed.row, printed.value): printed for printed in table.printed},
        split_is_resampled(finished),
        tuple(dict.fromkeys(seed for method in methods for seed in method.seeds)),
    )


def _is_measured(metric: str, runs: Sequence[Run]) -> bool:
    return any(metric in scores for run in runs for name in run.scores for scores in scores_of(run, name).values())


def scores_of(run: Run, checkpoint: str) -> Mapping[str, Json]:
    """The scores of a training run at a checkpoint, by calibration; empty where it has none."""
    scores = run.scores.get(checkpoint)
    return scores if isinstance(scores, dict) else {}


def _block(
    checkpoint: str, calibration: str, methods: Sequence[Method], baseline: str, primary: str, columns: Sequence[str]
) -> ScoreBlock:
    cells = {method.label: {name: method.cell(checkpoint, calibration, name) for name in columns} for method in methods}
    differences = _differences(methods, {label: row[primary] for label, row in cells.items()}, baseline, primary)
    rows = tuple(
        MethodScores(
            method,
            cells[method.label],
            _temperature(method, checkpoint, calibration),
            differences.get(method.label),
        )
        for method in methods
    )
    best = {name: _best({label: row[name] for label, row in cells.items()}, direction(name)) for name in columns}
    return ScoreBlock(checkpoint, calibration, rows, best, _bounds_note(methods, checkpoint, calibration))


def _best(cells: Mapping[str, SeedValues], better: str) -> frozenset[str]:
    """Among the rows with the most seeds: seeds are of different difficulty, so a mean over fewer is another thing."""
    most = max((len(cell.values) for cell in cells.values()), default=0)
    present = {label: cell.mean for label, cell in cells.items() if len(cell.values) == most and cell.mean is not None}
    if better not in ("lower", "higher") or len(present) < 2:
        return frozenset()
    target = min(present.values()) if better == "lower" else max(present.values())
    return frozenset(label for label, mean in present.items() if mean == target)


def _differences(
    methods: Sequence[Method], cells: Mapping[str, SeedValues], baseline: str, primary: str
) -> dict[str, Difference]:
    """Against the baseline in pairs of equal seed; Holm over all rows that could be tested."""
    worse = -1 if direction(primary) == "higher" else 1
    base = cells[baseline].values
    tests: dict[str, tuple[dict[str, float], stats.TTest]] = {}
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
    sizes = [items_of(run, "train", "evaluation") for run in runs]
    ratio = fmean(size["evaluation"] for size in sizes) / fmean(size["train"] for size in sizes)
    return stats.corrected_t(mine, base, test_to_train=ratio, alternative=alternative, level=LEVEL)


def items_of(run: Run, *parts: str) -> Mapping[str, int]:
    """How many items a run used, by part; it must name these, with at least one item each."""
    items = run.facts.get("items")
    sizes: Mapping[str, int] = {} if misfit(items, dict[str, int]) else items  # type: ignore[assignment]
    if absent := [part for part in parts if sizes.get(part, 0) < 1]:
        raise InputError(f"the record has no number of items for {', '.join(absent)}", where=f"run {run.id}", state="")
    return sizes


def how_tested(tables: Sequence[Comparison]) -> list[str]:
    """A sentence for each kind of test behind the tables of which something is finished."""
    begun = [table for table in tables if any(method.runs for method in table.methods)]
    return list(dict.fromkeys(method_of_test(resampled=table.resampled) for table in begun))


def split_is_resampled(runs: Sequence[Run]) -> bool:
    """Whether every seed has its own evaluation items: their training sets then overlap, and a plain t is too sure."""
    stored = [run.facts.get("split") or run.spec.settings.get("split") for run in runs]
    splits = [split for split in stored if isinstance(split, dict)]
    if not splits or len(splits) < len(stored):
        return False
    if all(split.get("name") == "folds" for split in splits):
        return len({canonical(split) for split in splits}) > 1
    return all(split.get("name") == "holdout" and split.get("fixed") is None for split in splits)


def _temperatures(method: Method, checkpoint: str, calibration: str) -> dict[str, list[float]]:
    """The temperatures of the two halves, for each seed; empty where nothing was tempered."""
    of = {seed: run.facts.get("temperatures", {}).get(checkpoint, {}) for seed, run in method.runs.items()}
    return {seed: fitted[calibration] for seed, fitted in of.items() if fitted.get(calibration)}


def _temperature(method: Method, checkpoint: str, calibration: str) -> SeedValues | None:
    """The mean of the two halves' temperatures, for each seed."""
    if calibration == "raw":
        return None
    return SeedValues({seed: fmean(pair) for seed, pair in _temperatures(method, checkpoint, calibration).items()})


def _bounds_note(methods: Sequence[Method], checkpoint: str, calibration: str) -> str:
    """Labels alone cannot set a temperature where the model has every label of a half right: sharper is always better."""
    fitted = {method.label: [*chain(*_temperatures(method, checkpoint, calibration).values())] for method in methods}
    coldest = {label: sum(value <= COLDEST for value in values) for label, values in fitted.items()}
    if not any(coldest.values()):
        return ""
    told = ", ".join(f"{label} {count} of {len(fitted[label])}" for label, count in coldest.items() if count)
    return (
        f"In some halves the best T is as cold as it may be ({COLDEST:g}): {told}. Every item of such a half was right, "
        "so its fit asks for ever more confidence, and the other half pays for it. Read this table as a warning."
    )


def _limits(methods: Sequence[Method], columns: Sequence[str]) -> tuple[Limit, ...]:
    """Rows that are no method, for each column that has such a limit. They depend on the votes alone."""

    def seen(metric: str) -> SeedValues:
        values: dict[str, float] = {}
        for method in methods:
            values = values | {
                seed: value
                for seed, value in method.cell(method.checkpoint, "raw", metric).values.items()
                if seed not in values
            }
        return SeedValues(values)

    floor = seen("soft_nll_floor")
    zero = SeedValues(dict.fromkeys(floor.values, 0.0))
    entropies = [name for name in columns if name.startswith("entropy_")]

    def perfect(soft_nll: str, correlation: str) -> dict[str, SeedValues]:
        values = seen(soft_nll)
        known = {seed: value for seed, value in values.values.items() if seed in floor.values}
        excess = SeedValues({seed: value - floor.values[seed] for seed, value in known.items()})
        return {"soft_nll": values, "kl": excess, **{name: seen(f"{name}{correlation}") for name in entropies}}

    truth = perfect("soft_nll_of_truth", "_of_truth")
    best = Limit(
        TRUTH, "what the distribution that the votes were drawn from scores on them", {**truth, "kl_to_truth": zero}
    )
    if not truth["soft_nll"].values:
        low, high = (perfect(f"soft_nll_expected_{end}", f"_ceiling_{end}") for end in ("low", "high"))
        ends = {name: (low[name].mean, high[name].mean) for name in low}
        best = Limit(
            "Perfect model (estimate)",
            "an estimate, with its range, of what a model that knew every item's true distribution would score on so few "
            "votes; docs/metrics.md says how far off it can be",
            perfect("soft_nll_expected", "_ceiling"),
            {name: (a, b) for name, (a, b) in ends.items() if a is not None and b is not None},
        )
    lowest = Limit(
        "Floor", "no prediction can score lower on these votes", {"soft_nll": floor, "kl": zero, "kl_to_truth": zero}
    )
    shown = (
        {name: cell for name, cell in row.cells.items() if name in columns and cell.values} for row in (best, lowest)
    )
    return tuple(replace(row, cells=cells) for row, cells in zip((best, lowest), shown, strict=True) if cells)
