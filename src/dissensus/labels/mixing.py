"""Are items blended in a batch? The third of the three choices. After mixing, labels are [B, K]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dissensus.errors import InputError
from dissensus.store.encoding import table


class Mixing(Protocol):
    """A member of this axis. `draw` decides everything random, so a batch is a pure function of (seed, epoch, step)."""

    def __call__(self, x: Tensor, labels: Tensor, classes: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        """A batch of inputs and its labels, blended or as they were."""
        ...


@dataclass(frozen=True)
class Unmixed:
    """Every item stays itself."""

    def __call__(self, x: Tensor, labels: Tensor, classes: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        return x, labels


@dataclass(frozen=True)
class Mixup:
    """Zhang et al. (2018): every item is averaged with another, with one weight per batch from Beta(alpha, alpha)."""

    alpha: float = 1.0

    def __call__(self, x: Tensor, labels: Tensor, classes: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        weight = draw.beta(self.alpha, self.alpha)
        partner = _permutation(len(x), draw).to(x.device)
        soft = _as_distribution(labels, classes)
        return torch.lerp(x[partner], x, weight), torch.lerp(soft[partner], soft, weight)


@dataclass(frozen=True)
class Cutmix:
    """Yun et al. (2019): a rectangle of every image becomes another's; labels are weighed by the area that is left."""

    alpha: float = 1.0

    def __call__(self, x: Tensor, labels: Tensor, classes: int, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
        if x.ndim != 4:
            raise InputError(
                f"cutmix cuts rectangles out of images, and this input has shape {tuple(x.shape[1:])}",
                where="mixing",
                hint="Use `mixup`, which takes any input",
                state="",
            )
        height, width = x.shape[2:]
        share = np.sqrt(1 - draw.beta(self.alpha, self.alpha))
        top, bottom = _interval(height, share, draw)
        left, right = _interval(width, share, draw)
        partner = _permutation(len(x), draw).to(x.device)
        soft = _as_distribution(labels, classes)
        mixed = x.clone()
        mixed[:, :, top:bottom, left:right] = x[partner, :, top:bottom, left:right]
        kept = 1 - (bottom - top) * (right - left) / (height * width)
        return mixed, torch.lerp(soft[partner], soft, kept)


MIXINGS = table(Unmixed, Mixup, Cutmix)


def _interval(size: int, share: float, draw: np.random.Generator) -> tuple[int, int]:
    """About `share` of the side around a random centre, floored and cut off at the border as in the authors' code."""
    half = int(size * share) // 2
    centre = int(draw.integers(size))
    return max(0, centre - half), min(size, centre + half)


def _permutation(n: int, draw: np.random.Generator) -> Tensor:
    return torch.from_numpy(draw.permutation(n))


def _as_distribution(labels: Tensor, classes: int) -> Tensor:
    return labels if labels.ndim == 2 else one_hot(labels, classes).float()
