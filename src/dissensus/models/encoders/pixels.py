"""Images as image models want them: square, of one size, in three normalised channels."""

from __future__ import annotations

import torch
from torch import Tensor

from dissensus.datasets.data import Moments

IMAGENET: Moments = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and std of its pixels in [0, 1]


def prepare(images: Tensor, size: int, moments: Moments = IMAGENET) -> Tensor:
    """uint8 [B, 1 or 3, H, W] to float32 [B, 3, size, size]: bicubic, smoothed where it shrinks, kept within [0, 1]."""
    x = images.float().div(255)
    x = torch.nn.functional.interpolate(x, (size, size), mode="bicubic", align_corners=False, antialias=True).clamp_(0, 1)
    mean, std = (torch.tensor(values)[:, None, None] for values in moments)
    return (x.expand(-1, 3, -1, -1) - mean) / std


def described(size: int, moments: Moments = IMAGENET) -> str:
    """The same in words, for a provenance.

    >>> described(224)
    '224 px, bicubic, mean 0.485 0.456 0.406, std 0.229 0.224 0.225'
    """
    mean, std = (" ".join(f"{value:.3f}" for value in values) for values in moments)
    return f"{size} px, bicubic, mean {mean}, std {std}"
