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
COUNTERS = ("num_batches_tracked", "n_averaged")
"""What batch norm and averaged models count in training: no prediction depends on it."""
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
        hint = (
            "Convert it in Python: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
            "'weights.safetensors'); of a whole checkpoint, save its ['state_dict'] alone"
        )
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

    Names are changed by `renames`, (pattern, replacement) each, in their order, and left out where nothing remains of
    them; prefixes that wrappers put before names are dropped. `moments`, mean and std per channel, are what inputs are
    normalised by, whatever the file says; where neither is given, `default_moments`. Counters may be missing, or more
    than the network has.
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
        if name.endswith(COUNTERS):
            named.setdefault(name, value)
    named = {name: value for name, value in named.items() if name in wanted or not name.endswith(COUNTERS)}
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
        kept = [name for name in changed.values() if name]
        if len(set(kept)) < len(kept):
            hint = "Make the pattern match less"
            raise InputError(
                f"--rename {pattern}={replacement} gives two the same name", where=where, hint=hint, state=""
            )
        if left_out := [name for name in named if not changed[name]]:
            notes.append(f"As told, {len(left_out):,} weights were left out: {_some(left_out)}.")
        named = {changed[name]: value for name, value in named.items() if changed[name]}
    while wrapper := _wrapper(named, wanted):
        named = {name.removeprefix(wrapper): value for name, value in named.items()}
        notes.append(f"The prefix {wrapper!r} of names was dropped.")
    return named, notes


def _wrapper(named: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str | None:
    """The prefix that stands before all weights of a network: before every name, but for those of what is beside it."""
    if any(name in wanted for name in named):
        return None
    shared = [sum(name.startswith(wrapper) for name in named) for wrapper in WRAPPERS]
    wrapper = WRAPPERS[shared.index(max(shared))]
    unique = len({name.removeprefix(wrapper) for name in named}) == len(named)
    return wrapper if unique and 2 * max(shared) > len(named) else None


def _check(named: Mapping[str, Tensor], wanted: Mapping[str, Tensor], where: str) -> None:
    if whole := [name for name in named if name in wanted and _is_quantised(named[name], wanted[name])]:
        what = f"{len(whole):,} weights are whole numbers, as of a quantised network: {_some(whole)}"
        raise InputError(what, where=where, hint="Save the network before it is quantised, in floats", state="")
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
    elif unexpected and not shapes:
        hint += f"; to leave weights out, rename them to nothing: --rename '^{re.escape(unexpected[0])}$='"
    raise InputError(f"the weights do not fit this model ({'; '.join(problems)})", where=where, hint=hint, state="")


def _is_quantised(value: Tensor, wanted: Tensor) -> bool:
    return wanted.is_floating_point() and not value.is_floating_point()


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else "")
