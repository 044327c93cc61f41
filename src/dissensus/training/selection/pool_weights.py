"""How much each model counts in a pool: the weights with the least soft NLL on items that none of them has seen."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

STEPS = 500
SMALLEST_CHANGE = 1e-6


def pool_weights(log_probs: Sequence[Tensor], target: Tensor, item_weights: Tensor | None = None) -> Tensor:
    """Weights float64 [M], none negative, sum 1, that minimise the soft NLL of the mixture to `target` [N, K].

    The problem is convex. Solved by expectation–maximisation: each vote is shared out among the models by how likely each
    said it was, and a model counts as much as the votes it gets. What does not help goes to 0.

    >>> right, wrong = torch.tensor([[0.9, 0.1]]).log(), torch.tensor([[0.1, 0.9]]).log()
    >>> pool_weights([right, wrong], torch.tensor([[1.0, 0.0]])).round(decimals=3).tolist()
    [1.0, 0.0]
    """
    probs = torch.stack([part.double().exp() for part in log_probs])
    votes = target.double() if item_weights is None else target.double() * item_weights.double()[:, None]
    votes = votes / votes.sum()
    weights = torch.full((len(probs),), 1 / len(probs), dtype=torch.float64)
    for _ in range(STEPS):
        shared = weights[:, None, None] * probs
        shared = shared / shared.sum(0).clamp(min=torch.finfo(torch.float64).tiny)
        before, weights = weights, (shared * votes).sum((1, 2))
        weights = weights / weights.sum()
        if float((weights - before).abs().max()) < SMALLEST_CHANGE:
            break
    return weights
