"""What training a network costs, counted and not guessed."""

from __future__ import annotations

import torch
from torch.utils.flop_counter import FlopCounterMode

from dissensus.models.build import new_model
from dissensus.models.model import Architecture, Model


def forward_flops(model: Model, shape: tuple[int, ...]) -> int:
    """Floating-point operations of one prediction for one input, by torch's counter (a multiply-add is two)."""
    was_training = model.training
    model.eval()  # so that counting leaves batch-norm statistics alone
    device = next(model.parameters()).device
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.predict(torch.zeros(1, *shape, device=device))
    model.train(was_training)
    return int(counter.get_total_flops())


def training_flops(model: Model, shape: tuple[int, ...], items: int) -> int:
    """Of training on `items` inputs, counted as often as they are seen: the backward pass costs twice the forward."""
    return 3 * forward_flops(model, shape) * items


def architecture_flops(architecture: Architecture, shape: tuple[int, ...], classes: int) -> int:
    """`forward_flops` of a network that is only described."""
    return forward_flops(new_model(architecture, torch.zeros(1, *shape), classes, seed=0), shape)
