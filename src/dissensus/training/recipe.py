"""Recipe: one training run as a value. The difference between two recipes is the experiment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict

from dissensus.errors import InputError
from dissensus.labels.delivery import DELIVERIES, Delivery, Soft
from dissensus.labels.mixing import MIXINGS, Mixing, Unmixed
from dissensus.labels.targets import TARGETS, Empirical, TargetRule
from dissensus.models import ARCHITECTURES, Architecture
from dissensus.store.encoding import decode, encode, table
from dissensus.store.json_types import field_types, misfit
from dissensus.store.spec import Json, Spec, UnknownFormatError
from dissensus.training.augmentation import Augment, CropFlip, Cutout, InTurn, NoAugment
from dissensus.training.averaging import AVERAGES, Ema
from dissensus.training.distortions import Distort, Jitter
from dissensus.training.loop import Settings
from dissensus.training.optimisers import OPTIMISERS, OptimiserRule, Sgd
from dissensus.training.schedules import SCHEDULES, STOPPINGS, Cosine, EarlyStopping, Schedule
from dissensus.training.splits import SPLITS, Holdout, SplitRule


class Digested(Protocol):
    """Data whose content is known by its digest."""

    @property
    def digest(self) -> str:
        """The digest of the content."""
        ...


@dataclass(frozen=True)
class Resampled:
    """Only `votes` votes per item reach the training target; judging always uses all. The seed is the run's."""

    votes: int
    replace: bool = True


@dataclass(frozen=True)
class Best:
    """Keep, beside the last epoch, the one with the lowest loss on `on`.

    `validation` is the run's own target on a part of the training items. `evaluation` is soft NLL to the full votes on
    the evaluation split, which some papers print; it selects on the test items, so it is never a primary number.
    """

    on: str = "validation"


@dataclass(frozen=True)
class Chosen:
    """These fields are those of the winner of a select run, whatever the recipe itself says; known when that is done."""

    by: str
    fields: tuple[str, ...] = ("optimiser", "schedule", "epochs", "batch")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run but its seed.

    `monitored` adds loss, accuracy and KL on the training, validation and evaluation items to the curve of every epoch.
    `keep` is all; or best: scores and predictions of the last and the best epoch, and weights of the best alone; or
    scores: of the best epoch (the last where no best is kept), with its predictions and no weights; or curve: of the
    many runs of a grid only the curve is kept, and no scores, predictions or weights. A run that keeps all fails where
    training diverges; one of a grid says so in its curve. `init` is the id of a finished run with the same architecture,
    whose last weights training starts from: fine-tuning.
    """

    model: Architecture
    data: str = "digits"
    options: tuple[tuple[str, str | int | float | bool], ...] = ()
    votes: Resampled | None = None
    split: SplitRule = Holdout()
    validation: Holdout | None = None
    target: TargetRule = Empirical()
    delivery: Delivery = Soft()
    mixing: Mixing = Unmixed()
    augment: Augment = NoAugment()
    optimiser: OptimiserRule = Sgd()
    schedule: Schedule = Cosine()
    epochs: int = 200
    batch: int = 128
    stopping: EarlyStopping | None = None
    averaging: Ema | None = None
    best: Best | None = None
    precision: str = "float32"
    monitored: bool = False
    keep: Literal["all", "best", "scores", "curve"] = "all"
    chosen: Chosen | None = None
    init: str | None = None

    def __post_init__(self) -> None:
        watches = self.schedule.watches or self.stopping or (self.best and self.best.on == "validation")
        if watches and self.validation is None:
            raise InputError(
                "plateau, early stopping and the best validation epoch need a validation part",
                where="recipe",
                hint="Give validation=Holdout(0.2), a share of the training items",
                state="",
            )
        if self.keep == "best" and self.best is None:
            raise InputError(
                "a run that keeps the weights of its best epoch must say by which loss it is the best",
                where="recipe",
                hint='Give best=Best("validation"), or keep all',
                state="",
            )
        if self.keep == "curve" and self.best == Best(on="evaluation"):
            raise InputError(
                "a run that keeps its curve alone is not judged on the evaluation items, so it has no best epoch there",
                where="recipe",
                hint='Use Best("validation"), or keep all',
                state="",
            )

    @property
    def training(self) -> Settings:
        """The part that the loop reads."""
        names = [field.name for field in dataclasses.fields(Settings)]
        return Settings(**{name: getattr(self, name) for name in names})

    def spec(self, data: Digested, seed: int) -> Spec:
        """The spec of this recipe on these data: JSON with every default written out, the data by name and digest."""
        settings = {field.name: encode(getattr(self, field.name)) for field in dataclasses.fields(self)}
        settings["data"] = {"name": self.data, "options": dict(self.options), "digest": data.digest}
        del settings["options"]
        for name in ADDED:
            if settings[name] is None:
                del settings[name]
        inputs = {"teacher": self.target.needed_runs} if self.target.needed_runs else {}
        if self.init is not None:
            inputs["init"] = (self.init,)
        if self.chosen is not None:
            inputs["chosen"] = (self.chosen.by,)
        return Spec("train", {**settings, "seed": seed}, inputs)

    @classmethod
    def of(cls, settings: Json) -> Recipe:
        """The inverse of `spec`; settings of another form raise an UnknownFormatError."""
        names = [
            field.name
            for field in dataclasses.fields(cls)
            if field.name not in ("data", "options") and (field.name not in ADDED or field.name in settings)
        ]
        if absent := [name for name in ("data", "seed", *names) if name not in settings]:
            raise UnknownFormatError(f"the settings have no {', '.join(absent)}", where="spec")
        values: dict[str, Any] = {name: decode(settings[name], AXES.get(name, {})) for name in names}
        hints, data = field_types(cls), settings["data"]
        problems = [misfit(value, hints[name], name) for name, value in values.items()]
        problems += [misfit(data, _DataJson, "data"), misfit(settings["seed"], int, "seed")]
        if problem := next(filter(None, problems), None):
            raise UnknownFormatError(problem, where="spec")
        return cls(data=data["name"], options=tuple(sorted(data["options"].items())), **values)

    @property
    def method(self) -> str:
        """The three choices in the words of the spec: `empirical × soft`, `majority × soft × mixup`."""
        parts = [self.target, self.delivery, *([] if isinstance(self.mixing, Unmixed) else [self.mixing])]
        return " × ".join(_in_words(encode(part)) for part in parts)


ADDED = ("init",)
"""Fields that a spec leaves out where they are None: they came later, and earlier runs keep their ids."""


class _DataJson(TypedDict):
    """How a spec names its data."""

    name: str
    options: dict[str, str | int | float | bool]


AUGMENTS = table(NoAugment, CropFlip, Cutout, Distort, Jitter, InTurn)

AXES: Mapping[str, Mapping[str, type]] = {
    "model": ARCHITECTURES,
    "votes": table(Resampled),
    "split": SPLITS,
    "validation": SPLITS,
    "target": TARGETS,
    "delivery": DELIVERIES,
    "mixing": MIXINGS,
    "augment": AUGMENTS,
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "stopping": STOPPINGS,
    "averaging": AVERAGES,
    "best": table(Best),
    "chosen": table(Chosen),
}
"""Which table turns the names of each field of a recipe into values."""


def _in_words(document: Json) -> str:
    """`{"name": "sampled", "every": 5}` as sampled(every=5); the common 0 and 1 are left unsaid."""
    name, inner = str(document["name"]), document.get("inner")
    if inner is not None:
        return f"{name}({_in_words(inner)})"
    numbers = {key: value for key, value in document.items() if isinstance(value, (int, float)) and value not in (0, 1)}
    return name + (f"({', '.join(f'{key}={value:g}' for key, value in numbers.items())})" if numbers else "")
