"""What training a network costs, counted and not guessed."""

from __future__ import annotations

import copy

import torch
from torch.utils.flop_counter import FlopCounterMode

from dissensus import random
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


def loss_flops(model: Model, shape: tuple[int, ...]) -> int:
    """Of the loss of one input in training, which may differ from a prediction: a gradient penalty, or many masks.

    Counted for two inputs, since batch norm needs more than one, on a copy, which is left behind with its statistics.
    """
    trained = copy.deepcopy(model).train()
    device = next(model.parameters()).device
    with random.seeded(0, "dropout"), FlopCounterMode(display=False) as counter:
        trained.loss(torch.zeros(2, *shape, device=device), torch.zeros(2, dtype=torch.int64, device=device))
    return int(counter.get_total_flops()) // 2


def training_flops(model: Model, shape: tuple[int, ...], items: int) -> int:
    """Of training on `items` inputs, counted as often as they are seen: the backward pass costs twice the loss."""
    return 3 * loss_flops(model, shape) * items


def architecture_flops(architecture: Architecture, shape: tuple[int, ...], classes: int) -> int:
    """`loss_flops` of a network that is only described."""
    return loss_flops(new_model(architecture, torch.zeros(1, *shape), classes, seed=0), shape)
