"""The one place that builds a network from its description, and the one that loads a trained one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from dissensus import random
from dissensus.datasets.data import Moments
from dissensus.models.model import Architecture, Model
from dissensus.models.normalise import moments as moments_of


def new_model(architecture: Architecture, x: Tensor, classes: int, *, seed: int, moments: Moments | None = None) -> Model:
    """A network at the initial weights of this seed, prepared for the training inputs `x` as they are stored.

    Inputs are normalised by `moments`, mean and std per channel, or else by those of x.
    """
    mean, std = moments_of(x) if moments is None else (torch.tensor(values) for values in moments)
    with random.seeded(seed, "init"):
        model = architecture.build(tuple(x.shape[1:]), classes, mean, std)
    model.prepare(x)
    return model


def load_model(architecture: Architecture, shape: tuple[int, ...], classes: int, weights: Mapping[str, Tensor]) -> Model:
    """A trained network, in eval mode. Whatever was learned from the training inputs is in the weights."""
    with random.seeded(0, "init"):  # what is drawn here is overwritten
        model = architecture.build(shape, classes, torch.zeros(shape[0]), torch.ones(shape[0]))
    model.load_state_dict(weights)
    return model.eval()
