"""Experiment: recipes side by side, over seeds, and what is computed from their runs.

A plan is the graph of specs it needs; a manifest says which run is which cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from dissensus import stats
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import Lowest, Measure, measure_spec, with_digests
from dissensus.errors import InputError
from dissensus.store.spec import Json, Spec
from dissensus.training.recipe import Chosen, Recipe

SCALES = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints, beside which ours is shown; `words` where it prints a word, such as a schedule's."""

    panel: str
    row: str
    column: str
    mean: float
    sd: float | None
    seeds: int | None
    source: str
    words: str = ""


@dataclass(frozen=True)
class Tuned:
    """A recipe that is trained as the best of a grid was: the lowest validation loss on one seed, ties to the first."""

    recipe: Recipe
    grid: tuple[Recipe, ...]
    grid_seed: int = 0


@dataclass(frozen=True)
class Training:
    """One training run, before anybody knows its id."""

    recipe: Recipe | Tuned
    seed: int


@dataclass(frozen=True)
class Analysis:
    """A measure of a run, of several, or of none."""

    measure: Measure
    of: Node | tuple[Node, ...] = ()


Node = Training | Analysis
Cells = Mapping[str, Mapping[str, tuple[Node, ...]]]
"""series -> point -> its runs, one a seed or a pair of seeds, in an order that is the same for all"""


@dataclass(frozen=True)
class Panel:
    """One comparison: rows that differ in the thing they name and in nothing else, tested in pairs against `baseline`.

    `seeds` are those of rows that have fewer than the experiment. `checkpoint` is the one that the answer speaks of.
    """

    title: str
    rows: Mapping[str, Recipe | Tuned]
    baseline: str
    note: str = ""
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    checkpoint: Literal["last", "best"] = "last"


Show = Literal["table", "lines", "curves", "dots", "bars"]


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of other things than the scores of a panel. Cells hold nodes here, run ids in a manifest.

    `show` says how: `table` (a row a series, a column a point and value), `dots` (every run a dot), `lines` (a value over
    the points, which are numbers), `curves` (lists in the records, `values` being pairs of x and y), `bars` (named
    distributions). `values` are paths in a run's record, `lambda_max` or `last.raw.soft_nll` in its scores, or
    `facts.…` or `curve.…`; `names` are what readers see in their place. With a `baseline` the other rows are tested
    against it, in pairs, by exact Wilcoxon and t tests; `less` is one-sided: that the row is below.
    """

    title: str
    show: Show
    cells: Mapping[str, Mapping[str, tuple[Any, ...]]]
    values: tuple[str, ...]
    names: tuple[str, ...] = ()
    axes: tuple[str, str] = ("", "")
    baseline: str = ""
    note: str = ""
    alternative: stats.Alternative = "two-sided"


Test = Literal["lower", "not_higher", "alike", "above", "below", "rising", "remaining"]


@dataclass(frozen=True)
class Claim:
    """A finding of a paper, in our words, and the groups of runs that decide here whether it holds.

    `lower`: the first group's value is below the second's. `not_higher`: not above it in the mean, nor shown to
    be. `alike`: no two groups can be told apart, nor do they differ one way in every pair. `above`, `below`: of
    every group the interval of the mean is on that side of `threshold`. `rising`: the interval of each step is above 0.
    `remaining`: no verdict, but the share of the gap between two groups by `values[0]` that is left by `values[1]`.
    """

    text: str
    test: Test
    groups: Mapping[str, tuple[Any, ...]]
    values: tuple[str, ...]
    threshold: float | None = None
    source: str = ""


@dataclass(frozen=True)
class Experiment:
    """A question, and the runs that answer it."""

    name: str
    title: str
    question: str
    panels: tuple[Panel, ...]
    seeds: tuple[int, ...]
    scale: str
    primary: str = "soft_nll"
    columns: tuple[str, ...] = ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman")
    notes: tuple[str, ...] = ()
    printed: tuple[Printed, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of a table: its label, its method in words, and its run for each seed."""

    label: str
    method: str
    runs: Mapping[int, str]


@dataclass(frozen=True)
class Table:
    """A panel whose recipes have become runs."""

    title: str
    baseline: str
    rows: tuple[Row, ...]
    note: str = ""
    checkpoint: str = "last"


@dataclass(frozen=True)
class Manifest:
    """What a report needs to know beside the runs. Written beside the ledger, so that a report can be made anew."""

    name: str
    title: str
    question: str
    scale: str
    command: str
    primary: str
    columns: tuple[str, ...]
    seeds: tuple[int, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    printed: tuple[Printed, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    claims: tuple[Claim, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` gives the same manifest back."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Manifest:
        """The inverse of `to_json`."""
        tables = tuple(
            Table(
                one["title"],
                one["baseline"],
                tuple(Row(r["label"], r["method"], {int(s): i for s, i in r["runs"].items()}) for r in one["rows"]),
                one["note"],
                one["checkpoint"],
            )
            for one in document["tables"]
        )
        fixed: Json = {key: tuple(document[key]) for key in ("columns", "seeds", "notes")}
        fixed["printed"] = tuple(Printed(**one) for one in document["printed"])
        fixed["exhibits"] = tuple(
            Exhibit(**{**one, "cells": {name: _tuples(points) for name, points in one["cells"].items()}, **_lists(one)})
            for one in document["exhibits"]
        )
        fixed["claims"] = tuple(
            Claim(**{**one, "groups": _tuples(one["groups"]), **_lists(one)}) for one in document["claims"]
        )
        return cls(**{**document, **fixed, "tables": tables})


def _tuples(lists: Mapping[str, list[Any]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in lists.items()}


def _lists(document: Json) -> Json:
    """The fields that JSON turned from tuples into lists."""
    return {name: tuple(value) for name, value in document.items() if isinstance(value, list)}


@dataclass(frozen=True)
class Plan:
    """The specs of an experiment, each once, inputs before those who need them; and the manifest that reads them back."""

    specs: tuple[Spec, ...]
    manifest: Manifest


def plan(experiment: Experiment, load: Callable[..., Data], command: str) -> Plan:
    """Every spec that the experiment needs, on data that `load(name, **options)` gives. Equal specs are one run."""
    planner = _Planner(load)
    tables = []
    for panel in experiment.panels:
        if panel.baseline not in panel.rows:
            raise InputError(f"the baseline {panel.baseline!r} is not a row", where=panel.title, state="")
        rows = []
        for label, recipe in panel.rows.items():
            seeds = panel.seeds.get(label, experiment.seeds)
            runs = {seed: planner.id(Training(recipe, seed)) for seed in seeds}
            rows.append(Row(label, (recipe.recipe if isinstance(recipe, Tuned) else recipe).method, runs))
        tables.append(Table(panel.title, panel.baseline, tuple(rows), panel.note, panel.checkpoint))
    exhibits = tuple(
        replace(one, cells={series: planner.ids(points) for series, points in one.cells.items()})
        for one in experiment.exhibits
    )
    manifest = Manifest(
        experiment.name,
        experiment.title,
        experiment.question,
        experiment.scale,
        command,
        experiment.primary,
        experiment.columns,
        experiment.seeds,
        tuple(tables),
        experiment.notes,
        experiment.printed,
        exhibits,
        tuple(replace(one, groups=planner.ids(one.groups)) for one in experiment.claims),
    )
    return Plan(in_order(planner.specs.values()), manifest)


def size(experiment: Experiment) -> int:
    """How many runs it takes, whatever the data."""
    unseen = Data("unseen", (), ())
    return len(plan(experiment, lambda name, **options: unseen, "").specs)  # noqa: ARG005


class _Planner:
    """Turns nodes into specs, each once, and collects them."""

    def __init__(self, load: Callable[..., Data]) -> None:
        self.specs: dict[str, Spec] = {}
        self._load, self._data = load, dict[str, Data]()
        self._known: dict[Node, str] = {}

    def ids(self, groups: Mapping[str, tuple[Node, ...]]) -> dict[str, tuple[str, ...]]:
        return {name: tuple(self.id(node) for node in nodes) for name, nodes in groups.items()}

    def id(self, node: Node) -> str:
        if node not in self._known:
            spec = self._analysis(node) if isinstance(node, Analysis) else self._training(node)
            self._known[node] = spec.id
            self.specs.setdefault(spec.id, spec)
        return self._known[node]

    def _training(self, node: Training) -> Spec:
        recipe = node.recipe
        if isinstance(recipe, Tuned):
            grid = tuple(self.id(Training(one, recipe.grid_seed)) for one in recipe.grid)
            chosen = measure_spec(Lowest(), grid)
            self.specs.setdefault(chosen.id, chosen)
            recipe = replace(recipe.recipe, chosen=Chosen(chosen.id))
        return recipe.spec(self._loaded(recipe.data, recipe.options), node.seed)

    def _analysis(self, node: Analysis) -> Spec:
        nodes = node.of if isinstance(node.of, tuple) else (node.of,)
        return measure_spec(with_digests(node.measure, self._digest), tuple(map(self.id, nodes)))

    def _digest(self, ref: DataRef) -> str:
        return self._loaded(ref.dataset, ref.options).digest

    def _loaded(self, name: str, options: tuple[tuple[str, Any], ...]) -> Data:
        key = repr((name, sorted(options)))
        if key not in self._data:
            self._data[key] = self._load(name, **dict(options))
        return self._data[key]


def in_order(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """The same specs, each after the ones among them that it needs; a circle is an error."""
    waiting = {spec.id: spec for spec in specs}
    ordered: list[Spec] = []
    while waiting:
        ready = [spec for spec in waiting.values() if not any(need in waiting for need in spec.needs)]
        if not ready:
            raise InputError(f"runs wait for each other in a circle ({', '.join(waiting)})", where="plan", state="")
        ordered += [waiting.pop(spec.id) for spec in ready]
    return tuple(ordered)
