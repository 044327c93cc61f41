"""A model on disk: model.json says what it is, model.safetensors has its weights. It is read whole, or refused.

Everything in the two files is checked before it is used: a file from elsewhere may be damaged, and a prediction by a
damaged model looks like any other.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from dissensus.errors import InputError
from dissensus.labels.delivery import DELIVERIES
from dissensus.labels.targets import TARGETS
from dissensus.metrics.temperature import COLDEST, HOTTEST
from dissensus.models import Classifier, Linear, Mlp, load_model
from dissensus.models.opinion_pool import OpinionPool, Pool
from dissensus.store.atomic_files import digest, write_whole
from dissensus.store.encoding import decode, encode, table
from dissensus.store.json_types import misfit
from dissensus.training.selection.lesson import Candidate

FORMAT = 2
ABOUT, WEIGHTS = "model.json", "model.safetensors"
LARGEST_ABOUT = 16 * 2**20  # bytes
MOST_UNITS = 10**6  # of one layer, features, classes or members
MEMBERS = table(Linear, Mlp)
AXES = {**TARGETS, **DELIVERIES}

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class SavedModel:
    """What is on disk. `settings` are arguments of `VoteClassifier`: plain values, and target and delivery."""

    model: OpinionPool
    classes: tuple[str, ...]
    features: int
    temperature: float
    settings: Mapping[str, Any]
    candidates: tuple[Candidate, ...]


def save_model(saved: SavedModel, folder: Path) -> None:
    """Write both files. model.json comes last and has the digest of the weights: an interrupted save is noticed."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.cpu().contiguous() for name, value in saved.model.state_dict().items()}
    write_whole(folder / WEIGHTS, safetensors.torch.save(state))
    about = {
        "format": FORMAT,
        "classes": list(saved.classes),
        "features": saved.features,
        "temperature": saved.temperature,
        "members": [encode(_described(member)) for member in saved.model.members],
        "settings": {name: encode(value) for name, value in saved.settings.items()},
        "chosen": [
            {"name": part.name, "soft_nll": None if math.isnan(part.soft_nll) else part.soft_nll, "weight": part.weight}
            for part in saved.candidates
        ],
        "weights": digest(folder / WEIGHTS),
    }
    write_whole(folder / ABOUT, (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())


def _described(member: Any) -> Linear | Mlp:
    """The architecture of a member, read off its layers."""
    assert isinstance(member, Classifier)
    hidden = tuple(layer.out_features for layer in member.body if isinstance(layer, torch.nn.Linear))
    if not hidden:
        return Linear()
    return Mlp(hidden, next(layer.p for layer in member.body if isinstance(layer, torch.nn.Dropout)))


def load_saved(folder: Path) -> SavedModel:
    """What `save_model` wrote; anything else is an InputError that says what is wrong with which file."""
    about = _About(_read_json(folder / ABOUT), folder / ABOUT)
    number = about.value("format", int)
    if number != FORMAT:
        raise about.problem(f"format {number} is not {FORMAT}, which this version reads", "Train the model again")
    classes = _names(about)
    features = about.value("features", int)
    if not 0 < features <= MOST_UNITS:
        raise about.problem(f"a model of {features} features")
    temperature = about.value("temperature", (int, float))
    if not COLDEST <= temperature <= HOTTEST:  # before it becomes a float, which not every integer can
        raise about.problem(f"temperature {reprlib.repr(temperature)} is not between {COLDEST:g} and {HOTTEST:g}")
    pool = _pool(about)
    settings, candidates = _settings(about), _candidates(about)
    weights = _weights(folder / WEIGHTS, about.value("weights", str))
    widest = torch.finfo(torch.float32).max
    for name, bound in (("lower", -widest), ("upper", widest)):  # models of before had no bounds
        weights.setdefault(name, torch.full((features,), bound))
    _check_weights(weights, pool, features, len(classes), folder / WEIGHTS)
    model = load_model(pool, (features,), len(classes), weights)
    assert isinstance(model, OpinionPool)
    return SavedModel(model, classes, features, float(temperature), settings, candidates)


@dataclass(frozen=True)
class _About:
    """The document of model.json, read one typed value at a time."""

    document: Any
    path: Path

    def problem(self, what: str, hint: str = "") -> InputError:
        """What is wrong with the file."""
        return _damaged(what, self.path, hint)

    def value(self, name: str, kind: type[Value] | tuple[type[Value], ...]) -> Value:
        """An entry of this type; a bool is no number."""
        if not isinstance(self.document, dict) or name not in self.document:
            raise self.problem(f"there is no {name!r} in it")
        value = self.document[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.problem(f"{name!r} is {str(value)[:40]!r}")
        return value


def _names(about: _About) -> tuple[str, ...]:
    classes = about.value("classes", list)
    if not 0 < len(classes) <= MOST_UNITS or not all(isinstance(name, str) for name in classes):
        raise about.problem("the classes are not a list of names")
    if len(set(classes)) < len(classes):
        raise about.problem("a class has two places")
    return tuple(classes)


def _pool(about: _About) -> Pool:
    documents = about.value("members", list)
    try:
        members = tuple(decode(document, MEMBERS) for document in documents)
    except (InputError, KeyError, TypeError, ValueError):
        raise about.problem("the members are not those of a pool") from None
    if not 0 < len(members) <= MOST_UNITS or not all(map(_possible, members)):
        raise about.problem("a member has settings that no network has")
    return Pool(members)


def _possible(member: Any) -> bool:
    if isinstance(member, Linear):
        return True
    if not isinstance(member, Mlp) or not isinstance(member.hidden, tuple) or not member.hidden:
        return False
    widths = all(type(width) is int and 0 < width <= MOST_UNITS for width in member.hidden)
    return widths and type(member.dropout) is float and 0 <= member.dropout < 1 and member.standardise is True


def _settings(about: _About) -> dict[str, Any]:
    document = about.value("settings", dict)
    known = {
        "head": (str,),
        "hidden": (int,),
        "dropout": (int, float),
        "weight_decay": (int, float),
        "epochs": (int,),
        "lr": (int, float),
        "batch": (int,),
        "seeds": (int,),
        "random_state": (int,),
        "device": (str,),
    }
    settings: dict[str, Any] = {}
    for name, value in document.items():
        if name in ("target", "delivery"):
            try:
                settings[name] = decode(value, AXES)
            except (InputError, KeyError, TypeError, ValueError):
                raise about.problem(f"the {name} is {str(value)[:40]!r}") from None
            if type(settings[name]) not in AXES.values():
                raise about.problem(f"the {name} is {str(value)[:40]!r}")
        elif name in known:
            if value is not None and (not isinstance(value, known[name]) or isinstance(value, bool)):
                raise about.problem(f"the setting {name!r} is {str(value)[:40]!r}")
            settings[name] = value
    return settings


def _candidates(about: _About) -> tuple[Candidate, ...]:
    candidates = []
    for document in about.value("chosen", list):
        part = _About(document, about.path)
        loss = document.get("soft_nll") if isinstance(document, dict) else None
        weight = part.value("weight", (int, float))
        if problem := misfit(loss, float | None, "a soft NLL") or misfit(weight, float, "a weight"):
            raise about.problem(problem)
        candidates.append(Candidate(part.value("name", str), math.nan if loss is None else float(loss), float(weight)))
    return tuple(candidates)


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > LARGEST_ABOUT:
            raise _damaged("it is larger than any description of a model", path)
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise _absent(problem, path) from None
    except (ValueError, RecursionError) as problem:
        if isinstance(problem, InputError):
            raise
        raise _damaged(f"it is not JSON ({type(problem).__name__})", path) from None


def _weights(path: Path, expected: str) -> dict[str, Tensor]:
    try:
        if digest(path) != expected:
            raise _damaged(
                f"it is not the file that {ABOUT} was written for (an interrupted save, or other damage)", path
            )
        weights: dict[str, Tensor] = safetensors.torch.load_file(path)
    except OSError as problem:
        raise _absent(problem, path) from None
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as problem:
        if isinstance(problem, InputError):
            raise
        raise _damaged(f"it holds no weights ({type(problem).__name__})", path) from None
    return weights


def _check_weights(weights: Mapping[str, Tensor], pool: Pool, features: int, classes: int, path: Path) -> None:
    """Names, shapes and types as the pool has them; all finite; shares that sum to 1; positive standard deviations."""
    with torch.device("meta"):  # shapes alone: nothing is allocated for a description that lies
        expected = pool.build((features,), classes, torch.zeros(features), torch.ones(features)).state_dict()
    if weights.keys() != expected.keys():
        odd = sorted(weights.keys() ^ expected.keys())[0]
        raise _damaged(f"{odd!r} is {'missing' if odd in expected else 'too much'}", path)
    for name, value in weights.items():
        if value.shape != expected[name].shape or value.dtype != expected[name].dtype:
            wanted = f"{expected[name].dtype} {list(expected[name].shape)}"
            raise _damaged(f"{name!r} is {value.dtype} {list(value.shape)}, not {wanted}", path)
        if not bool(torch.isfinite(value).all()):
            raise _damaged(f"{name!r} has NaN or infinity", path)
        if name.endswith("normalise.std") and not bool((value > 0).all()):
            raise _damaged(f"{name!r} has a standard deviation that is not positive", path)
    if not bool((weights["lower"] <= weights["upper"]).all()):
        raise _damaged("a feature has a lower bound above its upper one", path)
    shares = weights["weights"]
    if bool((shares < 0).any()) or abs(float(shares.sum()) - 1) > 1e-6:
        raise _damaged("the shares of the members do not sum to 1", path)


def _damaged(what: str, path: Path, hint: str = "") -> InputError:
    return InputError(
        f"the model is damaged: {what}" if not hint else what, where=str(path), hint=hint or _AGAIN, state=""
    )


def _absent(problem: OSError, path: Path) -> InputError:
    why = problem.strerror or type(problem).__name__
    return InputError(f"there is no readable model here ({why})", where=str(path), hint=_MAKE, state="")


_AGAIN = "Copy the folder again, or make the model again with `dissensus fit`"
_MAKE = "Make one with `dissensus fit`"
