"""An experiment described as values: what is compared, how it is shown, and what a paper says about it.

Everything here is generic in how it refers to runs: by what is to be computed (`plan.Node`) when a recipe describes an
experiment, by run id (`str`) once it is planned. The planned experiment is what a report is made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, cast

from dissensus import stats
from dissensus.errors import InputError
from dissensus.experiments.values import BestEpoch, Checkpoint, EpochCurve, Fact, Measured, Score, Value
from dissensus.store.encoding import decode, encode, table
from dissensus.store.json_types import LARGEST
from dissensus.store.spec import Json

__all__ = [
    "BarChart",
    "Candidates",
    "Cells",
    "Claim",
    "Curve",
    "CurvePlot",
    "Exhibit",
    "Experiment",
    "GapTable",
    "PaperNumber",
    "Printed",
    "Replicates",
    "ScoreTable",
    "ValueTable",
    "VoteBudget",
    "from_json",
    "to_json",
]

R = TypeVar("R", covariant=True)
S = TypeVar("S")

SCALES = ("smoke", "laptop", "miniature", "offline", "paper")
"""Not every recipe has all: `miniature` is a paper's own training on a narrower network, `offline` the paper's on
features of encoders that need no network."""

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
        if not re.fullmatch(r"[\w-]{1,100}", self.key):
            problem = f"the key {self.key!r} has more in it than letters, digits, _ and -"
            raise InputError(problem, where="exhibit", hint="Links and files have it in their names", state="")
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

    `methods` says what each row is in the words of its spec; `checkpoint` is the one that the answer speaks of;
    `replicate` is what the runs of a row differ in.
    """

    baseline: str
    methods: Mapping[str, str] = field(default_factory=dict)
    primary: str = "soft_nll"
    columns: tuple[str, ...] = ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman")
    checkpoint: Checkpoint = "last"
    replicate: Literal["seed", "split"] = "seed"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline not in self.cells:
            raise InputError(f"the baseline {self.baseline!r} is not a row", where=self.title, state="")
        for row, points in self.cells.items():
            if points.keys() != {""} or not all(map(_is_seed, points[""])):
                raise InputError(f"row {row!r} is not a row of runs by seed", where=self.title, state="")

    @property
    def value_names(self) -> tuple[str, ...]:
        """The metrics."""
        return (self.primary, *self.columns)


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False


def _is_seed(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 19


@dataclass(frozen=True, kw_only=True)
class ValueTable(Exhibit[R]):
    """Numbers read from runs: one row per series, one column per point and value.

    With a `baseline` the other rows are tested against it in pairs; `alternative` "less" asks whether the row is below.
    `picture` also draws it: "dots" (every run a dot), "lines" over the points, which are then numbers, or "differences":
    the values are differences of pairs, and stand with their 95% intervals around 0.
    """

    columns: Mapping[str, Value]
    baseline: str = ""
    alternative: stats.Alternative = "two-sided"
    picture: Literal["none", "dots", "lines", "differences"] = "none"
    axes: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline and self.baseline not in self.cells:
            raise InputError(f"the baseline {self.baseline!r} is not a row", where=self.title, state="")
        points = {point for row in self.cells.values() for point in row}
        if self.picture == "lines" and not all(map(_is_number, points)):
            raise InputError("lines are drawn over points that are numbers", where=self.title, state="")

    @property
    def value_names(self) -> tuple[str, ...]:
        """The last part of each value's key."""
        return tuple(value.name for value in self.columns.values())


@dataclass(frozen=True, kw_only=True)
class GapTable(Exhibit[R]):
    """How far two points are apart in each row, in pairs: the second minus the first, drawn with intervals around 0."""

    columns: Mapping[str, Value]

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = {tuple(points) for points in self.cells.values()}
        if len(pairs) != 1 or len(next(iter(pairs))) != 2:
            raise InputError("its rows do not have the same two points", where=self.title, state="")

    @property
    def compared(self) -> tuple[str, str]:
        """The two points."""
        first, second = next(iter(self.cells.values()))
        return first, second


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


Test = Literal[
    "lower",
    "not_higher",
    "alike",
    "above",
    "below",
    "between",
    "rising",
    "remaining",
    "cells_lower",
    "cells_unanimous",
    "cells_significant",
]


@dataclass(frozen=True)
class Claim(Generic[R]):
    """A finding of a paper in our words, and the groups of runs that decide whether it holds here.

    `lower`: the first group's value is below the second's, by more than `threshold` if there is one. `not_higher`: its
    mean is not above the second's, nor is it shown to be. `alike`: the interval of every difference between two groups is
    within ±`margin`, with at least five pairs. `above`, `below`: in every group the interval of the mean is on that side
    of `threshold`; `between`: within `threshold` and `upper`. `rising`: the interval of each step is above 0.
    `remaining`: no verdict, but the share of the gap between two groups by `values[0]` that is left by `values[1]`.

    Three tests count cells. A cell is two groups that follow each other in `groups`; if there are several values, each
    cell has its own. `cells_lower`: the first group's mean is below the second's in a share of cells of at least
    `threshold`. `cells_unanimous`: it is below in every pair of runs, in that share of cells. `cells_significant`: the
    share of cells that the one-sided exact test rejects after Holm's correction is at most `threshold`.

    `printed` is the effect as the paper prints it, in the units of ours; `is_main` puts the claim on the summary page.
    """

    text: str
    test: Test
    groups: Mapping[str, Replicates[R]]
    values: tuple[Value, ...]
    threshold: float | None = None
    source: str = ""
    upper: float | None = None
    margin: float | None = None
    printed: float | None = None
    is_main: bool = False

    def __post_init__(self) -> None:
        if problem := self._problem():
            raise InputError(
                f"a claim of the kind {self.test!r} cannot be judged with {problem}", where=self.text, state=""
            )

    def _problem(self) -> str:
        """What it lacks, or has too much of; empty where it can be judged."""
        groups, values, cells = len(self.groups), len(self.values), self.test.startswith("cells_")
        alone = self.test in ("above", "below", "between")
        most = 2 if self.test in ("lower", "not_higher", "remaining") else groups
        if not (1 if alone else 2) <= groups <= most or (cells and groups % 2):
            return f"{groups} groups"
        if values != (2 if self.test == "remaining" else 1) and not (cells and values == groups // 2):
            return f"{values} values"
        if (alone or cells) and self.threshold is None:
            return "no threshold"
        if self.test == "between" and self.upper is None:
            return "no upper bound"
        return "no margin" if self.test == "alike" and self.margin is None else ""


@dataclass(frozen=True)
class Candidates:
    """The rows of a score table that the user could train with, and the command for each, in the order of simplicity.

    `references` is the key of the table of what they have to beat, with the same splits; its rows in `blind` know nothing
    of an item. `test_to_train` is that of the splits, from which follows what the design can show.
    """

    table: str
    references: str
    commands: Mapping[str, str]
    test_to_train: float
    blind: tuple[str, ...] = ()


@dataclass(frozen=True)
class VoteBudget:
    """What may be spent on more votes, and the table of learning curves that says how: rows are votes, points items."""

    table: str
    items: int
    votes: float
    budget: int
    test_to_train: float


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[R]):
    """A question, and the runs that answer it. `apart` are printed numbers that have no cell to stand beside.

    With `candidates` the report begins with the one to use; with a `budget`, with what to spend it on.
    """

    key: str
    title: str
    question: str
    scale: str
    exhibits: tuple[Exhibit[R], ...]
    claims: tuple[Claim[R], ...] = ()
    notes: tuple[str, ...] = ()
    apart: tuple[PaperNumber, ...] = ()
    command: str = ""
    candidates: Candidates | None = None
    budget: VoteBudget | None = None

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
    *(Experiment, ScoreTable, ValueTable, GapTable, CurvePlot, BarChart, Curve, Claim, Candidates, VoteBudget),
    *(Printed, PaperNumber, Score, Measured, Fact, EpochCurve, BestEpoch),
)


def to_json(experiment: Experiment[str]) -> Json:
    """A planned experiment as plain JSON; `from_json` gives it back."""
    document: Json = encode(experiment)
    return document


def from_json(document: object, where: str = "experiment") -> Experiment[str]:
    """The inverse of `to_json`; `where` is named in the InputError that anything else raises."""
    try:
        experiment = decode(document, _TYPES)
    except InputError as problem:
        what = f"{problem.where}: {problem.what}" if problem.where not in ("", "spec") else problem.what
    else:
        if isinstance(experiment, Experiment):
            return experiment
        what = "it describes something else"
    raise InputError(
        f"this is no experiment that this version can read ({what})",
        where=where,
        hint="Run the recipe again: finished runs are kept",
    )
