"""What was done, once for all rows and then only where rows differ; with what, and whether that was mixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dissensus.report.comparison import items_of
from dissensus.report.sections import Section, all_runs
from dissensus.report.training_sources import training_runs
from dissensus.report.wording import counted, setting
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json, Run, canonical

DECIDES_NUMBERS = (
    *("dissensus", "numerics", "torch", "numpy", "python"),
    *("device", "instructions", "threads", "precision", "compiled", "channels_last", "processes"),
)
"""Provenance that can move a number in its last digits, or further: a report that mixes it says so."""

MEASURES = ("measure", "relate")  # kinds of runs that train nothing
UNSAID = ("seed", "keep", "monitored", "chosen")  # settings that change no number of a table


@dataclass(frozen=True)
class MethodNotes:
    """`common` holds for every training run; `rows` has, for each table and label, only what is not common.

    `measures` are the ways in which finished runs were measured, each with its settings and sizes. `mixed` names
    provenance that is not the same for all runs, `rescored` says which runs were scored again later.
    """

    common: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]
    measures: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    mixed: tuple[str, ...]
    rescored: str
    notes: tuple[str, ...]
    sizes: tuple[str, ...]
    seconds: float
    finished: int
    planned: int


def method_notes(sections: Sequence[Section], runs: RunSource) -> MethodNotes:
    """Read from the finished runs alone; equal runs in two tables count once."""
    shown = {run.id: run for run in all_runs(sections)}
    trained = {source.id: source for run in shown.values() for source in training_runs(run, runs)}
    every = trained | shown
    measured = [run for run in shown.values() if run.spec.kind in MEASURES]
    values = _values(trained.values())
    common = tuple((_title(name), _words(name, seen[0])) for name, seen in values.items() if len(seen) == 1)
    differing = [name for name, seen in values.items() if len(seen) > 1]
    rows = tuple(
        (
            section.exhibit.title,
            method.label,
            tuple((_title(name), " / ".join(_words(name, value) for value in seen.get(name, ()))) for name in differing),
        )
        for section in sections
        if section.scores is not None
        for method in section.scores.comparison.methods
        if (seen := _values(_behind(method.runs, runs)))  # a baseline is measured, and nothing was trained
    )
    versions, mixed = _provenance(list(every.values()))
    return MethodNotes(
        common,
        rows,
        tuple(_measures(measured)),
        versions,
        mixed,
        _rescored(list(trained.values())),
        tuple(dict.fromkeys(note for run in (*trained.values(), *measured) for note in run.facts.get("notes", []))),
        tuple(_sizes(list(trained.values()))),
        sum(float(run.provenance.get("seconds", 0)) for run in every.values()),
        sum(len(section.runs) for section in sections),
        sum(len(section.runs) + section.missing for section in sections),
    )


def _provenance(runs: Sequence[Run]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What the runs were computed with, and what of it is not the same for all."""
    every = [
        {"numerics": run.spec.numerics, **provenance}
        for run in runs
        for provenance in (run.provenance, *run.provenance.get("also_on", []))  # where it was resumed elsewhere
    ]
    versions, mixed = [], []
    for name in DECIDES_NUMBERS:
        seen = list(dict.fromkeys(setting(provenance[name]) for provenance in every if name in provenance))
        if seen:
            versions.append((name.replace("_", " "), " / ".join(sorted(seen))))
        if len(seen) > 1:
            mixed.append(f"{name.replace('_', ' ')} ({', '.join(sorted(seen))})")
    return tuple(versions), tuple(mixed)


def _rescored(runs: Sequence[Run]) -> str:
    """A sentence on the runs whose stored predictions were scored again by a later version; empty where none was."""
    rescored = [run.facts["rescored"] for run in runs if "rescored" in run.facts]
    if not rescored:
        return ""
    names = sorted({name for facts in rescored for part in ("added", "changed") for name in facts[part]})
    versions = ", ".join(sorted({str(facts["with"]) for facts in rescored}))
    return f"{counted(len(rescored), 'run')} scored again later, with dissensus {versions}: {', '.join(names)}."


def _behind(replicates: Mapping[str, Run], runs: RunSource) -> list[Run]:
    """The training runs of a row."""
    return [source for run in replicates.values() for source in training_runs(run, runs)]


def _values(runs: Iterable[Run]) -> dict[str, list[Any]]:
    """The distinct values of each setting, in the order they come; folds of one cross-validation count as one.

    Run by run and not setting by setting: thousands of runs do not fit into the processor's cache.
    """
    values: dict[str, dict[str, Any]] = {}
    for run in runs:
        chosen = run.facts.get("chosen", {})
        for name, planned in run.spec.settings.items():
            if name not in UNSAID:
                value = chosen.get(name, planned)
                value = _without_fold(value) if name == "split" else value
                values.setdefault(name, {}).setdefault(canonical(value), value)
    return {name: list(seen.values()) for name, seen in values.items()}


def _without_fold(split: Json) -> Json:
    return {key: value for key, value in split.items() if key not in ("fold", "folds_seed")}


def _measures(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """What was measured how many times, with which settings, on how many items; and how often it ended unsure."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(canonical(_shared_settings(run)), []).append(run)
    for same in groups.values():
        settings = _shared_settings(same[0])
        words = [setting({key: value for key, value in settings.items() if key != "name" and value is not None})]
        sizes = [items_of(run) for run in same]
        for part in dict.fromkeys(part for of_run in sizes for part in of_run):
            counts = sorted({of_run[part] for of_run in sizes if part in of_run})
            words.append(f"{part.replace('_', ' ')}: {_range(counts, 'item')}")
        words += _unsure([run.facts.get("estimates", {}) for run in same])
        yield f"{settings['name'].replace('_', ' ')} ({counted(len(same), 'run')})", "; ".join(filter(None, words))


def _shared_settings(run: Run) -> Json:
    """Without what only says which split, or which part of it, was measured."""
    settings = run.spec.settings
    if "split" not in settings:
        return settings
    kept = {key: value for key, value in settings.items() if key not in ("seed", "items", "votes")}
    return {**kept, "split": _without_fold(settings["split"])}


def _unsure(estimates: Sequence[Json]) -> Iterator[str]:
    """Which estimates, by slice of items and estimator, ended before their tolerance was met."""
    keys = ((part, name) for of_run in estimates for part, of_part in of_run.items() for name in of_part)
    for part, name in dict.fromkeys(keys):
        met = [of_run[part][name]["converged"] for of_run in estimates if name in of_run.get(part, {})]
        if not all(met):
            yield f"{name}, {part}: {met.count(False)} of {counted(len(met), 'estimate')} stopped short of tolerance"


def _sizes(runs: Sequence[Run]) -> list[str]:
    """Sentences about sizes that every run shares, or the range where they do not."""
    sentences = []
    for part, words in (("train", "to train on"), ("evaluation", "to judge on")):
        sizes = sorted({items_of(run)[part] for run in runs if part in items_of(run)})
        if sizes:
            sentences.append(f"{_range(sizes, 'item')} {words}")
    parameters = sorted({run.facts["parameters"] for run in runs if "parameters" in run.facts})
    if parameters:
        sentences.append(_range(parameters, "parameter"))
    ties = sorted({run.facts["ties"] for run in runs if run.facts.get("ties") is not None})
    if ties:
        sentences.append(f"{_range(ties, 'training item')} without a unique majority (ties go to the lowest class index)")
    if any(run.facts.get("gold") == "majority" for run in runs):
        sentences.append("labels for hard metrics are the majority's, because these data have no gold labels")
    return sentences


def _range(values: Sequence[int], noun: str) -> str:
    return counted(values[0], noun) if len(values) == 1 else f"{values[0]:,} to {values[-1]:,} {noun}s"


def _words(name: str, value: Any) -> str:
    return "all" if name == "votes" and value is None else setting(value)


def _title(name: str) -> str:
    return name.replace("_", " ")
