"""Attacks in the ℓ∞ ball: FGSM (Goodfellow et al., 2015) and PGD (Madry et al., 2018), in pixels.

An attack raises the cross-entropy of `predict` (for MC dropout the mean of its masks) to a target. ε and steps are in
units of [0, 1]; the result never leaves the ball, nor [0, 1]. The network is a copy in eval mode: batch norm is frozen.

The trap. The gradient of the cross-entropy in the logits is q − p. In float32 an over-confident network has q = 1 exactly
on many items, so that the entry of the gold class, q − 1, is exactly 0 while the others are not: the step follows the
wrong direction, or, where all underflow, none; and the network looks robust. Here the entry of the target's largest class
is minus the sum of the others, and each item's gradient is scaled before it underflows, which changes no sign.
`naive=True` takes the plain gradient, to show the difference. MC dropout has the same trap in each mask, and its own way
out of it (`mc_dropout.unsaturated_log_softmax`), as far as float32 reaches: where every mask of an item is sure by more
than 87 nats, no gradient is left.

A network that resists an attack on itself may only hide its gradient. Two controls say so: noise of the same norm
(`matched_noise`), and the attack made on another network, which needs no gradient of this one (`TransferAttack`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from dissensus import random
from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.models.model import Model


@dataclass(frozen=True, eq=False)
class Attacked:
    """Inputs after an attack, and what the model says of them; all on the CPU.

    `x` [N, …] are floats in [0, 1], `logits` [N, K] those of x and `clean_logits` those of the inputs as they were;
    `losses` [steps + 1, N], float64, are the cross-entropy before every step and at the end.
    """

    x: Tensor
    losses: Tensor
    clean_logits: Tensor
    logits: Tensor


def fgsm(model: Model, x: Tensor, target: Tensor, *, epsilon: float, naive: bool = False, batch: int = 250) -> Attacked:
    """One step of size ε along the sign of the input gradient; a gradient of exactly 0 takes no step."""
    return pgd(model, x, target, epsilon=epsilon, steps=1, step_size=epsilon, naive=naive, batch=batch)


def pgd(
    model: Model,
    x: Tensor,
    target: Tensor,
    *,
    epsilon: float,
    steps: int,
    step_size: float,
    random_start: bool = False,
    seed: int = 0,
    naive: bool = False,
    batch: int = 250,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> Attacked:
    """Steps of `step_size` along the sign of the input gradient, each projected onto the ball around x and onto [0, 1].

    x are images as stored (uint8) or floats in [0, 1]; target classes [N] or distributions [N, K]. `random_start` begins
    at a uniform point of the ball, drawn by the seed. `batch` items go through the network at a time, fewer where a
    prediction takes many passes; `progress` hears how many of all are done.
    """
    if not (0 <= epsilon <= 1 and steps >= 0 and step_size >= 0):
        raise InputError(
            f"epsilon {epsilon}, {steps} steps of {step_size}",
            where="attack",
            hint="Give epsilon in units of [0, 1], such as 4/255, and steps and their size from 0 on",
            state="",
        )
    if x.is_floating_point() and x.numel() and not (float(x.min()) >= 0 and float(x.max()) <= 1):
        raise InputError(
            f"the inputs range from {float(x.min()):g} to {float(x.max()):g}",
            where="attack",
            hint="Attack images: uint8, or floats in [0, 1]",
            state="",
        )
    fixed = copy.deepcopy(model).eval().requires_grad_(False)
    parameter = next(fixed.parameters())
    start = _start(x, epsilon, seed) if random_start else None
    parts: list[Attacked] = []
    for rows in torch.split(torch.arange(len(x)), max(1, batch // model.passes)):
        clean = to_float(x[rows]).to(parameter.device, parameter.dtype)
        labels = target[rows].to(parameter.device)
        low, high = (clean - epsilon).clamp_min(0), (clean + epsilon).clamp_max(1)
        attacked = clean if start is None else (clean + start[rows].to(clean)).clamp(0, 1)
        history, first = list[Tensor](), None
        for _ in range(steps):
            gradient, logits = _gradient(fixed, attacked, labels, naive=naive)
            history.append(_cross_entropy(logits, labels))
            first = logits if first is None else first
            attacked = torch.clamp(attacked + step_size * gradient.sign(), low, high)
        with torch.no_grad():
            logits = fixed.predict(attacked).logits
            before = first if first is not None and start is None else fixed.predict(clean).logits
        losses = torch.stack([*history, _cross_entropy(logits, labels)])
        parts.append(Attacked(attacked.cpu(), losses.cpu(), before.cpu(), logits.cpu()))
        progress(int(rows[-1]) + 1, len(x))
    return Attacked(
        torch.cat([part.x for part in parts]),
        torch.cat([part.losses for part in parts], 1),
        torch.cat([part.clean_logits for part in parts]),
        torch.cat([part.logits for part in parts]),
    )


def matched_noise(x: Tensor, attacked: Tensor, *, seed: int = 0) -> Tensor:
    """x with Gaussian noise that has, item by item, the ℓ2 norm of an attack on it, clipped to [0, 1]; on the CPU.

    x as stored (uint8) or floats in [0, 1]; `attacked` floats, as in `Attacked`. What an attack does beyond such noise is
    the work of its direction.
    """
    clean = to_float(x).to("cpu", attacked.dtype)
    noise = torch.randn(clean.shape, generator=random.generator(seed, "attack", "noise")).to(clean)
    norm, drawn = ((part.flatten(1).norm(dim=1)) for part in (attacked.cpu() - clean, noise))
    scale = (norm / drawn.clamp_min(torch.finfo(drawn.dtype).tiny)).reshape(-1, *[1] * (clean.ndim - 1))
    return torch.clamp(clean + scale * noise, 0, 1)


def logit_gradient(logits: Tensor, target: Tensor) -> Tensor:
    """q − p, each item's scaled to at most 1, exact where q rounds to 1; [N, K], in the type of the logits.

    >>> sure = torch.tensor([[200.0, 1.0, 0.0]])
    >>> [round(value, 3) for value in logit_gradient(sure, torch.tensor([0]))[0].tolist()]
    [-1.0, 0.731, 0.269]
    >>> (torch.softmax(sure, 1) - torch.tensor([[1.0, 0.0, 0.0]]))[0].tolist()  # and this is the naive one
    [0.0, 0.0, 0.0]
    """
    log_probs = torch.log_softmax(logits.double(), 1)
    share = one_hot(target, logits.shape[1]) if target.ndim == 1 else target
    share = share.double()
    top = share.argmax(1, keepdim=True)
    others_share = share.scatter(1, top, 0.0)
    others = log_probs.scatter(1, top, -torch.inf)
    # one-hot: in units of the largest other probability, however small; else probabilities as they are
    shift = torch.where(others_share.sum(1, keepdim=True) > 0, 0.0, others.amax(1, keepdim=True))
    gradient = torch.exp(others - shift) - others_share
    gradient = gradient.scatter(1, top, -gradient.sum(1, keepdim=True))
    largest = gradient.abs().amax(1, keepdim=True)
    return torch.where(largest > 0, gradient / largest, gradient).to(logits.dtype)


def _gradient(model: Model, x: Tensor, target: Tensor, *, naive: bool) -> tuple[Tensor, Tensor]:
    """Of each item's loss in its input, up to a positive factor; and the logits."""
    pixels = x.detach().requires_grad_()
    with torch.enable_grad():
        logits = model.predict(pixels).logits
        if naive:
            total = cross_entropy(logits, target, reduction="sum")
        else:
            total = (logits * logit_gradient(logits.detach(), target)).sum()
        (gradient,) = torch.autograd.grad(total, pixels)
    return gradient, logits.detach()


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(logits.double(), target.double() if target.ndim == 2 else target, reduction="none")


def _start(x: Tensor, epsilon: float, seed: int) -> Tensor:
    return epsilon * (2 * torch.rand(x.shape, generator=random.generator(seed, "attack")) - 1)
