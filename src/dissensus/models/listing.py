"""Every model at its default size, which is the published one where there is one: parameters and FLOPs, measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dissensus.models.build import new_model
from dissensus.models.flops import forward_flops
from dissensus.models.model import Architecture
from dissensus.store.encoding import encode

CIFAR = (3, 32, 32)


@dataclass(frozen=True)
class ModelListing:
    """A model in one row: its name in a spec, what it is known as, and what it costs.

    `parameters` are those of a network for ten classes, fixed ones included; `flops` those of one prediction for one
    image, where a multiply-add is two operations. They are None where an architecture has settings without defaults, or
    is not for such images. `settings` is the architecture as a spec has it.
    """

    name: str
    published: str
    parameters: int | None
    flops: int | None
    settings: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary."""
        return asdict(self)


def list_models(
    architectures: Mapping[str, type], shape: tuple[int, ...] = CIFAR, classes: int = 10
) -> tuple[ModelListing, ...]:
    """One row per architecture, for inputs of `shape`."""
    return tuple(_listing(name, kind, shape, classes) for name, kind in architectures.items())


def _listing(name: str, kind: type, shape: tuple[int, ...], classes: int) -> ModelListing:
    published = str(getattr(kind, "published", ""))
    try:
        architecture: Architecture = kind()
    except TypeError:  # a plugin may have settings without defaults
        return ModelListing(name, published, None, None, None)
    try:
        parameters, flops = size_of(architecture, shape, classes)
    except (ValueError, RuntimeError):  # a plugin may be for other inputs
        return ModelListing(name, published, None, None, encode(architecture))
    return ModelListing(name, published, parameters, flops, encode(architecture))


def size_of(architecture: Architecture, shape: tuple[int, ...] = CIFAR, classes: int = 10) -> tuple[int, int]:
    """Parameters, and the FLOPs of a prediction.

    On the meta device, where no weight is drawn and nothing is computed; on the CPU if the network uses what the meta
    device lacks (autocast, in SNGP and DUQ).
    """
    try:
        with torch.device("meta"):
            model = architecture.build(shape, classes, torch.zeros(shape[0]), torch.ones(shape[0]))
        flops = forward_flops(model, shape)
    except RuntimeError:
        model = new_model(architecture, torch.zeros(1, *shape), classes, seed=0)
        flops = forward_flops(model, shape)
    return sum(part.numel() for part in model.parameters()), flops
