"""Experiment: recipes side by side, over seeds.

A plan is the graph of specs it needs; a manifest says which run is which cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dissensus.data import Data
from dissensus.errors import InputError
from dissensus.recipe import Recipe
from dissensus.runs import Spec

SCALES = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints, beside which ours is shown."""

    panel: str
    row: str
    column: str
    mean: float
    sd: float | None
    seeds: int | None
    source: str


@dataclass(frozen=True)
class Panel:
    """One comparison: rows that differ in the thing they name and in nothing else, tested in pairs against `baseline`."""

    title: str
    rows: Mapping[str, Recipe]
    baseline: str
    note: str = ""


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
            )
            for one in document["tables"]
        )
        fixed = {key: tuple(document[key]) for key in ("columns", "seeds", "notes")}
        printed = tuple(Printed(**one) for one in document["printed"])
        return cls(**{**document, **fixed, "tables": tables, "printed": printed})


@dataclass(frozen=True)
class Plan:
    """The specs of an experiment, each once, inputs before those who need them; and the manifest that reads them back."""

    specs: tuple[Spec, ...]
    manifest: Manifest


def plan(experiment: Experiment, load: Callable[..., Data], command: str) -> Plan:
    """Every recipe with every seed, on data that `load(name, **options)` gives. Equal specs are one run."""
    specs: dict[str, Spec] = {}
    tables = []
    for panel in experiment.panels:
        if panel.baseline not in panel.rows:
            raise InputError(f"the baseline {panel.baseline!r} is not a row", where=panel.title, state="")
        rows = []
        for label, recipe in panel.rows.items():
            data = load(recipe.data, **dict(recipe.options))
            of_seed = {seed: recipe.spec(data, seed) for seed in experiment.seeds}
            specs.update((spec.id, spec) for spec in of_seed.values())
            rows.append(Row(label, recipe.method, {seed: spec.id for seed, spec in of_seed.items()}))
        tables.append(Table(panel.title, panel.baseline, tuple(rows), panel.note))
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
    )
    return Plan(in_order(specs.values()), manifest)


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
