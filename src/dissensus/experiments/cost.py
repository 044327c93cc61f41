"""What a plan will cost, before it is run: counted FLOPs, and time by the speed of finished runs of the same model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from dissensus import datasets
from dissensus.models import ARCHITECTURES
from dissensus.models.flops import architecture_flops
from dissensus.store.encoding import decode
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json, Spec, canonical
from dissensus.training.recipe import Recipe
from dissensus.training.splits import SplitRule


@dataclass(frozen=True)
class Forecast:
    """`seconds` is the sum over the remaining runs, one after another; None where no finished run tells the speed.

    `measures` of the remaining runs train nothing; those whose kind no finished run shows the time of are `untimed`.
    """

    done: int
    remaining: int
    waiting: int
    flops: float
    seconds: float | None
    measures: int = 0
    untimed: tuple[str, ...] = ()

    def sentence(self, workers: int) -> str:
        """In words, for this many runs at a time."""
        if not self.remaining:
            return f"All {self.done} runs are done."
        time = "time unknown until a run of each model is finished"
        if self.seconds is not None and (self.seconds or not self.untimed):
            time = f"about {duration(self.seconds / workers)} with {workers} at a time, by the speed of finished runs"
        waits = f" ({self.waiting} of them wait for others)" if self.waiting else ""
        sentence = f"{self.done} runs are done, {self.remaining} remain{waits}: {self.flops:.2g} FLOPs, {time}."
        if self.untimed:
            sentence += (
                f" {self.measures} of them measure finished runs; the time of {', '.join(self.untimed)} is not known "
            )
            sentence += "until one of each is finished, and not in the sum."
        return sentence


def forecast(specs: Sequence[Spec], ledger: RunSource) -> Forecast:
    """The cost of what the ledger lacks. A measure takes the median time of finished ones of its name."""
    remaining = [spec for spec in specs if spec.id not in ledger]
    flops = costs(remaining)
    speeds = _speeds(ledger)
    seconds: float | None = 0.0
    for spec in remaining:
        if spec.kind == "train" and seconds is not None:
            speed = speeds.get(canonical(spec.settings["model"]))
            seconds = seconds + flops[spec.id] / speed if speed else None
    measures = [spec for spec in remaining if spec.kind != "train"]
    times = _times(ledger) if measures else {}
    if seconds is not None:
        seconds += sum(times.get(_name(spec), 0.0) for spec in measures)
    untimed = tuple(sorted({_name(spec) for spec in measures} - times.keys()))
    waiting = sum(any(need not in ledger for need in spec.needs) for spec in remaining)
    done, total = len(specs) - len(remaining), float(sum(flops.values()))
    return Forecast(done, len(remaining), waiting, total, seconds, len(measures), untimed)


def _name(spec: Spec) -> str:
    return str(spec.settings.get("name", spec.kind))


def _times(ledger: RunSource) -> dict[str, float]:
    """Seconds of finished measures by name; the median."""
    measured: dict[str, list[float]] = {}
    for run in ledger.summaries():
        if run.kind != "train" and run.seconds is not None:
            measured.setdefault(str(run.settings.get("name", run.kind)), []).append(run.seconds)
    return {name: median(seconds) for name, seconds in measured.items()}


def costs(specs: Sequence[Spec]) -> dict[str, float]:
    """FLOPs of those that train, by id."""
    return {spec.id: training_cost(spec.settings) for spec in specs if spec.kind == "train"}


def training_cost(settings: Json) -> float:
    """FLOPs of a training spec, without training: forward and backward over its training items and epochs."""
    recipe = Recipe.of(settings)
    items, shape, classes = _sizes(canonical(settings["data"]), recipe.split)
    if recipe.validation is not None:
        items = round(items * (1 - recipe.validation.fraction))
    return 3.0 * _forward(canonical(settings["model"]), shape, classes) * items * recipe.epochs


def duration(seconds: float) -> str:
    """For people.

    >>> duration(42), duration(600), duration(10_000)
    ('42 s', '10 min', '2.8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


@lru_cache(maxsize=64)
def _sizes(named: str, split: SplitRule) -> tuple[int, tuple[int, ...], int]:
    """Items to train on, the shape of one, and classes. Of one seed: a split has the same size with every other."""
    about = json.loads(named)
    data = datasets.load(about["name"], **about["options"])
    assert data.x is not None
    rows, _ = split.split(data.labels, 0)
    return len(rows), tuple(data.x.shape[1:]), len(data.classes)


@lru_cache(maxsize=64)
def _forward(model: str, shape: tuple[int, ...], classes: int) -> int:
    return architecture_flops(decode(json.loads(model), ARCHITECTURES), shape, classes)


def _speeds(ledger: RunSource) -> dict[str, float]:
    """FLOPs a second of finished training runs, by model; the median, since a busy machine makes some of them slow."""
    measured: dict[str, list[float]] = {}
    for run in ledger.summaries():
        if run.kind == "train" and run.flops and run.seconds:
            measured.setdefault(canonical(run.settings["model"]), []).append(run.flops / run.seconds)
    return {model: median(speeds) for model, speeds in measured.items()}
