"""An experiment described as values: what is compared, how it is shown, and what a paper says about it.

Everything here is generic in how it refers to runs: by what is to be computed (`plan.Node`) when a recipe describes an
experiment, by run id (`str`) once it is planned. The planned experiment is what a report is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, cast

from dissensus import stats
from dissensus.errors import InputError
from dissensus.experiments.values import Checkpoint, EpochCurve, Fact, Measured, Score, Value
from dissensus.store.encoding import decode, encode, table
from dissensus.store.spec import Json

__all__ = [
    "BarChart",
    "Cells",
    "Claim",
    "Curve",
    "CurvePlot",
    "Exhibit",
    "Experiment",
    "PaperNumber",
    "Printed",
    "Replicates",
    "ScoreTable",
    "ValueTable",
    "from_json",
    "to_json",
]

R = TypeVar("R", covariant=True)
S = TypeVar("S")

SCALES = ("smoke", "laptop", "miniature", "paper")
"""`miniature` is a paper's own training on a narrower network; not every recipe has it."""

Replicates = Mapping[str, R]
"""The runs of one cell by name: the seed, or a pair of seeds. Equal names are compared in pairs."""

Cells = Mapping[str, Mapping[str, Replicates[R]]]
"""row -> point -> replicates; most exhibits have the one point ""."""

Statistic = Literal["mean", "p", "lowest", "highest", "below"]
"""Which statistic of a cell a paper prints: the mean; the p of the test against the baseline; the lowest or highest run;
how far the row lies below the baseline, in the mean of pairs."""


@dataclass(frozen=True)
class PaperNumber:
    """A number as a paper prints it, under the paper's own part, row and column; `words` where it prints a word."""

    part: str
    row: str
    column: str
    mean: float
    sd: float | None
    seeds: int | None
    source: str
    words: str = ""


@dataclass(frozen=True)
class Printed:
    """A paper's number and the cell it stands beside: row, point, and the name of a column's value."""

    number: PaperNumber
    row: str
    value: str
    point: str = ""
    statistic: Statistic = "mean"


@dataclass(frozen=True, kw_only=True)
class Exhibit(Generic[R]):
    """What all exhibits share. `key` names it in links and files, and is unique in its experiment."""

    key: str
    title: str
    cells: Cells[R]
    note: str = ""
    printed: tuple[Printed, ...] = ()

    def __post_init__(self) -> None:
        for printed in self.printed:
            if printed.point not in self.cells.get(printed.row, {}) or printed.value not in self.value_names:
                raise InputError(
                    f"a printed number stands beside no cell ({printed.row}, {printed.point}, {printed.value})",
                    where=f"exhibit {self.key!r}",
                    hint="Use the names of a row, a point and a column of this exhibit",
                    state="",
                )

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of values that a printed number can stand beside."""
        return ()

    def runs(self) -> Iterator[R]:
        """Every run that a cell names."""
        for points in self.cells.values():
            for replicates in points.values():
                yield from replicates.values()


@dataclass(frozen=True, kw_only=True)
class ScoreTable(Exhibit[R]):
    """Scores of training runs: rows that differ in the thing they name and in nothing else, tested against `baseline`.

    `methods` says what each row is in the words of its spec; `checkpoint` is the one that the answer speaks of.
    """

    baseline: str
    methods: Mapping[str, str] = field(default_factory=dict)
    primary: str = "soft_nll"
    columns: tuple[str, ...] = ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman")
    checkpoint: Checkpoint = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline not in self.cells:
            raise InputError(f"the baseline {self.baseline!r} is not a row", where=self.title, state="")

    @property
    def value_names(self) -> tuple[str, ...]:
        """The metrics."""
        return (self.primary, *self.columns)


@dataclass(frozen=True, kw_only=True)
class ValueTable(Exhibit[R]):
    """Numbers read from runs: one row per series, one column per point and value.

    With a `baseline` the other rows are tested against it in pairs; `alternative` "less" asks whether the row is below.
    `picture` also draws it: "dots" (every run a dot), or "lines" over the points, which are then numbers.
    """

    columns: Mapping[str, Value]
    baseline: str = ""
    alternative: stats.Alternative = "two-sided"
    picture: Literal["none", "dots", "lines"] = "none"
    axes: tuple[str, str] = ("", "")

    @property
    def value_names(self) -> tuple[str, ...]:
        """The last part of each value's key."""
        return tuple(value.name for value in self.columns.values())


@dataclass(frozen=True)
class Curve:
    """Lists in a run's record: y over x, or over 1, 2, 3… where there is no x."""

    y: Value
    x: Value | None = None


@dataclass(frozen=True, kw_only=True)
class CurvePlot(Exhibit[R]):
    """One panel per curve, one line per series: the mean over its runs, in a band of one standard deviation."""

    curves: Mapping[str, Curve]
    axes: tuple[str, str] = ("", "")


@dataclass(frozen=True, kw_only=True)
class BarChart(Exhibit[R]):
    """Distributions of single items, as the first run of each cell lists them.

    An item is {"name", "said", "classes", "shares": {voice: [share of each class]}}.
    """

    items: Fact


Test = Literal["lower", "not_higher", "alike", "above", "below", "rising", "remaining"]


@dataclass(frozen=True)
class Claim(Generic[R]):
    """A finding of a paper in our words, and the groups of runs that decide whether it holds here.

    `lower`: the first group's value is below the second's. `not_higher`: its mean is not above the second's, nor is it
    shown to be. `alike`: no two groups can be told apart, nor do they differ in one direction in every pair. `above`,
    `below`: in every group the interval of the mean is on that side of `threshold`. `rising`: the interval of each step
    is above 0. `remaining`: no verdict, but the share of the gap between two groups by `values[0]` that is left by
    `values[1]`.
    """

    text: str
    test: Test
    groups: Mapping[str, Replicates[R]]
    values: tuple[Value, ...]
    threshold: float | None = None
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[R]):
    """A question, and the runs that answer it. `apart` are printed numbers that have no cell to stand beside."""

    key: str
    title: str
    question: str
    scale: str
    exhibits: tuple[Exhibit[R], ...]
    claims: tuple[Claim[R], ...] = ()
    notes: tuple[str, ...] = ()
    apart: tuple[PaperNumber, ...] = ()
    command: str = ""

    def __post_init__(self) -> None:
        keys = [exhibit.key for exhibit in self.exhibits]
        if len(set(keys)) < len(keys):
            raise InputError(f"two exhibits have one key ({', '.join(keys)})", where=self.key, state="")

    @property
    def score_tables(self) -> tuple[ScoreTable[R], ...]:
        """The exhibits that compare scores of training runs."""
        return tuple(exhibit for exhibit in self.exhibits if isinstance(exhibit, ScoreTable))

    def runs(self) -> Iterator[R]:
        """Every run that an exhibit or a claim names, in order; a run may come several times."""
        for exhibit in self.exhibits:
            yield from exhibit.runs()
        for claim in self.claims:
            for replicates in claim.groups.values():
                yield from replicates.values()

    def with_runs(self, run_of: Callable[[R], S]) -> Experiment[S]:
        """The same experiment, each reference to a run replaced."""

        def replaced(groups: Mapping[str, Replicates[R]]) -> dict[str, dict[str, S]]:
            return {name: {key: run_of(run) for key, run in runs.items()} for name, runs in groups.items()}

        exhibits, claims = list[Any](), list[Any]()  # dataclasses.replace cannot change a type argument
        for exhibit in self.exhibits:
            cells: Any = {row: replaced(points) for row, points in exhibit.cells.items()}
            exhibits.append(replace(exhibit, cells=cells))
        for claim in self.claims:
            groups: Any = replaced(claim.groups)
            claims.append(replace(claim, groups=groups))
        changed: Any = replace(self, exhibits=tuple(exhibits), claims=tuple(claims))
        return cast("Experiment[S]", changed)


_TYPES = table(
    *(Experiment, ScoreTable, ValueTable, CurvePlot, BarChart, Curve, Claim),
    *(Printed, PaperNumber, Score, Measured, Fact, EpochCurve),
)


def to_json(experiment: Experiment[str]) -> Json:
    """A planned experiment as plain JSON; `from_json` gives it back."""
    document: Json = encode(experiment)
    return document


def from_json(document: Json) -> Experiment[str]:
    """The inverse of `to_json`; raises KeyError, TypeError or InputError for anything else."""
    experiment = decode(document, _TYPES)
    if not isinstance(experiment, Experiment):
        raise TypeError("not an experiment")
    return experiment
