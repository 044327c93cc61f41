"""From a described experiment to the graph of specs that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from dissensus.engine.measures import Lowest, Measure, measure_spec, with_digests
from dissensus.errors import InputError
from dissensus.experiments.description import Experiment, ScoreTable
from dissensus.labels.targets import Teacher
from dissensus.store.spec import Spec
from dissensus.training.recipe import Chosen, Recipe

__all__ = [
    "Measurement",
    "Node",
    "Plan",
    "Training",
    "Tuned",
    "make_plan",
    "measured",
    "measured_in_pairs",
    "score_table",
    "seeded",
    "size",
]

Options = tuple[tuple[str, Any], ...]
DigestOf = Callable[[str, Options], str]
"""(data set, options) -> the digest of its content."""


@dataclass(frozen=True)
class Tuned:
    """A recipe that is trained as the best of a grid was: the lowest validation loss on one seed, ties to the first."""

    recipe: Recipe
    grid: tuple[Recipe, ...]
    grid_seed: int = 0

    @property
    def method(self) -> str:
        """The three choices, in words."""
        return self.recipe.method


@dataclass(frozen=True)
class Training:
    """One training run, which may start from the weights of another (`init`) and learn from others (`teachers`).

    With teachers, the target is the mean of their distributions, whatever the recipe says.
    """

    recipe: Recipe | Tuned
    seed: int
    init: Node | None = None
    teachers: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """What a measure says about one run, about several, or about data alone."""

    measure: Measure
    of: tuple[Node, ...] = ()


Node = Training | Measurement


@dataclass(frozen=True)
class Plan:
    """The specs of an experiment, each once, inputs before those that need them; and the experiment by run ids."""

    specs: tuple[Spec, ...]
    experiment: Experiment[str]


def make_plan(experiment: Experiment[Node], digest_of: DigestOf, command: str) -> Plan:
    """Every spec that the experiment needs. Equal specs are one run."""
    planner = _Planner(digest_of)
    planned = replace(experiment.with_runs(planner.id), command=command)
    return Plan(in_order(planner.specs.values()), planned)


def size(experiment: Experiment[Node]) -> int:
    """How many runs it takes, whatever the data."""
    return len(make_plan(experiment, lambda name, options: "", "").specs)  # noqa: ARG005


@dataclass(frozen=True)
class _Known:
    """Data of which only the digest is known."""

    digest: str


class _Planner:
    """Turns nodes into specs, each once, and collects them."""

    def __init__(self, digest_of: DigestOf) -> None:
        self.specs: dict[str, Spec] = {}
        self._digest_of, self._digests = digest_of, dict[str, str]()
        self._ids: dict[Node, str] = {}

    def id(self, node: Node) -> str:
        if node not in self._ids:
            spec = self._measurement(node) if isinstance(node, Measurement) else self._training(node)
            self._ids[node] = spec.id
            self.specs.setdefault(spec.id, spec)
        return self._ids[node]

    def _training(self, node: Training) -> Spec:
        recipe = node.recipe
        if isinstance(recipe, Tuned):
            grid = tuple(self.id(replace(node, recipe=candidate, seed=recipe.grid_seed)) for candidate in recipe.grid)
            chosen = measure_spec(Lowest(), grid)
            self.specs.setdefault(chosen.id, chosen)
            recipe = replace(recipe.recipe, chosen=Chosen(chosen.id))
        if node.init is not None:
            recipe = replace(recipe, init=self.id(node.init))
        if node.teachers:
            recipe = replace(recipe, target=Teacher(tuple(map(self.id, node.teachers))))
        return recipe.spec(_Known(self._digest(recipe.data, recipe.options)), node.seed)

    def _measurement(self, node: Measurement) -> Spec:
        measure = with_digests(node.measure, lambda ref: self._digest(ref.dataset, ref.options))
        return measure_spec(measure, tuple(map(self.id, node.of)))

    def _digest(self, name: str, options: Options) -> str:
        key = repr((name, sorted(options)))
        if key not in self._digests:
            self._digests[key] = self._digest_of(name, options)
        return self._digests[key]


def in_order(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """The same specs, each after those among them that it needs; a circle is an error."""
    waiting = {spec.id: spec for spec in specs}
    ordered: list[Spec] = []
    while waiting:
        ready = [spec for spec in waiting.values() if not any(need in waiting for need in spec.needs)]
        if not ready:
            raise InputError(f"runs wait for each other in a circle ({', '.join(waiting)})", where="plan", state="")
        ordered += [waiting.pop(spec.id) for spec in ready]
    return tuple(ordered)


Trainings = dict[str, Node]
"""Runs by seed: the replicates of a cell."""


def seeded(recipe: Recipe | Tuned, seeds: Iterable[int]) -> Trainings:
    """One training run per seed."""
    return {str(seed): Training(recipe, seed) for seed in seeds}


def measured(measure: Measure, *groups: Mapping[str, Node]) -> dict[str, Node]:
    """A measure of each run of a group, or of the runs of equal name in several groups."""
    first, *others = groups
    return {
        name: Measurement(measure, (run, *(group[name] for group in others)))
        for name, run in first.items()
        if all(name in group for group in others)
    }


def measured_in_pairs(
    measure: Measure, first: Mapping[str, Node], second: Mapping[str, Node] | None = None
) -> dict[str, Node]:
    """A measure of every two seeds: of one group, or the first seed of one and the second seed of another."""
    other = first if second is None else second
    pairs = combinations(sorted(first, key=int), 2)
    return {f"{a}–{b}": Measurement(measure, (first[a], other[b])) for a, b in pairs if b in other}


def score_table(
    rows: Mapping[str, Recipe | Tuned],
    seeds: Iterable[int],
    seeds_of: Mapping[str, tuple[int, ...]] | None = None,
    **fields: Any,
) -> ScoreTable[Node]:
    """A score table of recipes over seeds; `seeds_of` are those of rows that have fewer."""
    everywhere, own = tuple(seeds), seeds_of or {}
    cells = {label: {"": seeded(recipe, own.get(label, everywhere))} for label, recipe in rows.items()}
    return ScoreTable(cells=cells, methods={label: recipe.method for label, recipe in rows.items()}, **fields)
