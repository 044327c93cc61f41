"""What training a network costs, counted and not guessed."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def forward_flops(model: nn.Module, shape: tuple[int, ...]) -> int:
    """Floating-point operations of one prediction of one such input, by torch's counter (a multiply-add is two)."""
    was_training = model.training
    model.eval()  # so that counting leaves batch-norm statistics alone
    device = next(model.parameters()).device
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.predict(torch.zeros(1, *shape, device=device))  # type: ignore[operator]
    model.train(was_training)
    return int(counter.get_total_flops())


def training_flops(model: nn.Module, shape: tuple[int, ...], items: int) -> int:
    """Of `items` training steps' worth of inputs: the backward pass costs twice the forward."""
    return 3 * forward_flops(model, shape) * items
