"""Several networks that answer as one: the weighted mean of their distributions (a linear opinion pool)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from dissensus.models.mlp import Linear, Mlp
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions


@dataclass(frozen=True)
class Pool:
    """A pool of linear models and MLPs, described."""

    members: tuple[Linear | Mlp, ...]

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> OpinionPool:
        """For inputs of `shape` (without the batch); at first all members count the same."""
        members = [member.build(shape, classes, mean, std) for member in self.members]
        bounds = torch.full((2, *shape), torch.inf)
        return OpinionPool(members, torch.full((len(members),), 1 / len(members)), (-bounds[0], bounds[1]))


class OpinionPool(Model):
    """`weights` [M] say how much each member counts; they sum to 1. The logits are the logarithm of the mixture.

    What lies outside of `bounds`, the lowest and the highest value of each feature, counts as if it lay on them.
    """

    weights: Tensor
    lower: Tensor
    upper: Tensor

    def __init__(self, members: Sequence[Model], weights: Tensor, bounds: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.register_buffer("weights", weights.detach().double())
        lower, upper = bounds if bounds is not None else (torch.tensor([-torch.inf]), torch.tensor([torch.inf]))
        self.register_buffer("lower", lower.detach().float())
        self.register_buffer("upper", upper.detach().float())

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Normalised log-probabilities, float64 [B, K]."""
        seen = x.clamp(self.lower, self.upper)
        return mixture([member.predict(seen).log_probs for member in self.members], self.weights)  # type: ignore[operator]

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy of the mixture."""
        return cross_entropy(self(x), target if target.ndim == 1 else target.double())

    @override
    def predict(self, x: Tensor) -> Predictions:
        """The mixture; a pool has no features of its own."""
        return Predictions(self(x))


def mixture(log_probs: Sequence[Tensor], weights: Tensor) -> Tensor:
    """The logarithm of the weighted mean of distributions, each given as log-probabilities [N, K].

    >>> certain, undecided = torch.tensor([[1.0, 0.0]]).log(), torch.tensor([[0.5, 0.5]]).log()
    >>> mixture([certain, undecided], torch.tensor([0.5, 0.5])).exp()
    tensor([[0.7500, 0.2500]])
    """
    return torch.logsumexp(torch.stack(list(log_probs)) + weights.log()[:, None, None], 0)
