"""Networks for feature vectors: a linear model, and a multi-layer perceptron.

`Mlp()` is that of "Soft-Label Training Preserves Epistemic Uncertainty" (2025): Linear(d, 256)–GELU–Dropout(0.2)–
Linear(256, K) on frozen embeddings. Here the features are standardised first, by the mean and std given to `build`;
`Mlp(standardise=False)` is the paper's. Initialisation is PyTorch's. Images are flattened.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar

import torch
from torch import Tensor, nn

from dissensus.models.classifier import Classifier
from dissensus.models.heads import LinearHead
from dissensus.models.normalise import Normalise


@dataclass(frozen=True)
class Linear:
    """Multinomial logistic regression; its penultimate features are the normalised inputs."""

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For inputs of `shape` (without the batch)."""
        return Classifier(Normalise(shape, mean, std), nn.Sequential(nn.Flatten()), LinearHead(prod(shape), classes))


@dataclass(frozen=True)
class Mlp:
    """Hidden layers of these widths, each Linear–GELU–Dropout."""

    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.2
    standardise: bool = True
    published: ClassVar[str] = "MLP head (Singh et al. 2025)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For inputs of `shape` (without the batch)."""
        if not self.standardise:
            mean, std = torch.zeros_like(mean), torch.ones_like(std)
        widths = (prod(shape), *self.hidden)
        layers: list[nn.Module] = [nn.Flatten()]
        for wide_in, wide_out in pairwise(widths):
            layers += [nn.Linear(wide_in, wide_out), nn.GELU(), nn.Dropout(self.dropout)]
        return Classifier(Normalise(shape, mean, std), nn.Sequential(*layers), LinearHead(widths[-1], classes))
