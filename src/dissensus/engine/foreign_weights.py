"""Weights that were trained elsewhere, fitted to a network of ours: what is missing, unexpected or of another shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from dissensus import random
from dissensus.datasets.data import Moments
from dissensus.errors import InputError
from dissensus.models import Architecture, Model, load_model

WRAPPERS = ("module.", "_orig_mod.", "model.")
"""What DataParallel, torch.compile and Lightning put before every name."""
SHOWN = 5


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A trained network in eval mode, and sentences on how its weights were read."""

    model: Model
    notes: tuple[str, ...]


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, by name. Pickled files are refused: opening one could run any code."""
    hint = "Save it with safetensors.torch.save_file(model.state_dict(), 'weights.safetensors')"
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), hint="Name a .safetensors file", state="")
    if path.suffix != ".safetensors":
        raise InputError("this is not a .safetensors file", where=str(path), hint=hint, state="")
    try:
        weights: dict[str, Tensor] = safetensors.torch.load_file(path)
    except OSError:
        raise
    except Exception as problem:  # the package has no one error for bytes that are no weights
        raise InputError(f"the file is damaged ({problem})", where=str(path), hint=hint, state="") from None
    if not weights:
        raise InputError("there are no weights in it", where=str(path), hint=hint, state="")
    return weights


def load_foreign(
    architecture: Architecture,
    shape: tuple[int, ...],
    classes: int,
    weights: Mapping[str, Tensor],
    *,
    where: str,
    renames: Sequence[tuple[str, str]] = (),
    moments: Moments | None = None,
    default_moments: Moments | None = None,
) -> LoadedModel:
    """The network with these weights, for inputs of `shape` (without the batch) in [0, 1].

    Names are changed by `renames`, (pattern, replacement) each, in their order; a prefix that wrappers put before every
    name is dropped. `moments`, mean and std per channel, are what inputs are normalised by, whatever the file says; where
    neither is given, `default_moments`. Batch counters may be missing.
    """
    with random.seeded(0, "init"):  # what is drawn here is overwritten
        fresh = architecture.build(shape, classes, torch.zeros(shape[0]), torch.ones(shape[0]))
    wanted = fresh.state_dict()
    named, notes = _renamed(weights, wanted, renames, where)
    chosen = moments if moments is not None else default_moments
    normalised = [name for name in wanted if re.search(r"(^|\.)normalise\.(mean|std)$", name)]
    if moments is not None or any(name not in named for name in normalised):
        if chosen is None or any(len(part) != shape[0] for part in chosen):
            what = f"it does not say how inputs of {shape[0]} channels are normalised"
            hint = "Pass --mean and --std, one number per channel of images in [0, 1]; 0 and 1 for none"
            raise InputError(what, where=where, hint=hint, state="")
        for name in normalised:
            values = torch.tensor(chosen[0 if name.endswith("mean") else 1])
            named[name] = values.reshape(wanted[name].shape).to(wanted[name])
        whose = "as told" if moments is not None else "by the data set's own, since the file has none"
        mean, std = (" ".join(f"{value:g}" for value in part) for part in chosen)
        notes.append(f"Inputs are normalised {whose}: mean {mean}, std {std}.")
    for name, value in wanted.items():
        if name.endswith("num_batches_tracked"):
            named.setdefault(name, value)
    _check(named, wanted, where)
    return LoadedModel(load_model(architecture, shape, classes, named), tuple(notes))


def _renamed(
    weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor], renames: Sequence[tuple[str, str]], where: str
) -> tuple[dict[str, Tensor], list[str]]:
    named, notes = dict(weights), list[str]()
    for pattern, replacement in renames:
        try:
            changed = {name: re.sub(pattern, replacement, name) for name in named}
        except re.error as problem:
            what = f"--rename {pattern}={replacement} is no pattern and replacement ({problem})"
            raise InputError(what, where=where, hint="Write a regular expression of Python", state="") from None
        if len(set(changed.values())) < len(changed):
            hint = "Make the pattern match less"
            raise InputError(
                f"--rename {pattern}={replacement} gives two the same name", where=where, hint=hint, state=""
            )
        named = {changed[name]: value for name, value in named.items()}
    for wrapper in WRAPPERS:
        if all(name.startswith(wrapper) for name in named) and not any(name.startswith(wrapper) for name in wanted):
            named = {name.removeprefix(wrapper): value for name, value in named.items()}
            notes.append(f"The prefix {wrapper!r} of every name was dropped.")
    return named, notes


def _check(named: Mapping[str, Tensor], wanted: Mapping[str, Tensor], where: str) -> None:
    missing = [name for name in wanted if name not in named]
    unexpected = [name for name in named if name not in wanted]
    shapes = [
        f"{name} is {list(named[name].shape)}, not {list(wanted[name].shape)}"
        for name in wanted
        if name in named and named[name].shape != wanted[name].shape
    ]
    kinds = [("missing", missing), ("unexpected", unexpected), ("of another shape", shapes)]
    problems = [f"{len(names):,} {kind}: {_some(names)}" for kind, names in kinds if names]
    if not problems:
        if unsound := [name for name in wanted if not bool(torch.isfinite(named[name]).all())]:
            what = f"{len(unsound):,} weights have NaN or infinity in them: {_some(unsound)}"
            hint = "Training diverged, or the file is damaged: save it again"
            raise InputError(what, where=where, hint=hint, state="")
        return
    hint = "Name the architecture that was trained, with its options, such as --model 'resnet18(width=8)'"
    if missing and unexpected:
        hint += "; where only names differ, pass --rename PATTERN=REPLACEMENT, as often as needed"
    raise InputError(f"the weights do not fit this model ({'; '.join(problems)})", where=where, hint=hint, state="")


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
