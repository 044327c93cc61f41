"""Scores that are best, on average, at the truth. All give one value per item, float64 [N]; the caller takes the mean.

Natural logarithms; 0 log 0 = 0. A probability of 0 for a class with votes scores +inf; nothing is clipped.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dissensus.metrics.checks import checked_gold, checked_log_probs, checked_probs, checked_target


def soft_nll(log_probs: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each prediction to its annotators, in nats.

    Lower is better. Its floor is the annotators' own entropy: `kl` is what remains above it.

    >>> soft_nll(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]))
    tensor([0.6931], dtype=torch.float64)
    """
    log_probs = checked_log_probs(log_probs)
    return unchecked_soft_nll(log_probs, checked_target(target, log_probs))


def unchecked_soft_nll(log_probs: Tensor, target: Tensor) -> Tensor:
    """`soft_nll` of any leading shape [..., K], without its checks: for training, where they cost more than the score."""
    return -(target * log_probs).masked_fill(target == 0, 0).sum(-1)  # 0 log 0 = 0


def p_log_p(probs: Tensor) -> Tensor:
    """p log p of each number, 0 at 0: as `torch.xlogy`, which is several times slower."""
    return torch.log(probs).mul_(probs).masked_fill_(probs == 0, 0)


def kl(log_probs: Tensor, target: Tensor) -> Tensor:
    """Σ p log(p/q) in nats, p the people: what a prediction loses beyond the people's own disagreement."""
    log_probs = checked_log_probs(log_probs)
    target = checked_target(target, log_probs)
    return unchecked_kl(log_probs, target, p_log_p(target))


def unchecked_kl(log_probs: Tensor, target: Tensor, target_logs: Tensor) -> Tensor:
    """`kl` without its checks; `target_logs` is `p_log_p(target)`."""
    return (target_logs - (target * log_probs).masked_fill_(target == 0, 0)).sum(1)


def js(probs: Tensor, target: Tensor) -> Tensor:
    """Jensen–Shannon divergence in nats: symmetric, finite, 0 to log 2."""
    probs = checked_probs(probs)
    target = checked_target(target, probs)
    return unchecked_js(probs, target, p_log_p(probs), p_log_p(target))


def unchecked_js(probs: Tensor, target: Tensor, probs_logs: Tensor, target_logs: Tensor) -> Tensor:
    """`js` without its checks; the last two are `p_log_p` of the first two."""
    halves = probs_logs + target_logs - 2 * p_log_p((probs + target) / 2)
    return halves.sum(1).clamp(min=0) / 2  # equal rows may come out at -1e-17, whose root would be NaN


def js_distance(probs: Tensor, target: Tensor) -> Tensor:
    """The root of `js`, which is a metric in the mathematical sense."""
    return js(probs, target).sqrt()


def soft_brier(probs: Tensor, target: Tensor) -> Tensor:
    """Σ (q − p)² over all classes, 0 to 2 (some libraries halve it, or use one class only)."""
    probs = checked_probs(probs)
    return (probs - checked_target(target, probs)).square().sum(1)


def nll_gold(log_probs: Tensor, gold: Tensor) -> Tensor:
    """−log q of the label `gold` [N], in nats."""
    log_probs = checked_log_probs(log_probs)
    return -log_probs.gather(1, checked_gold(gold, log_probs)[:, None])[:, 0]
