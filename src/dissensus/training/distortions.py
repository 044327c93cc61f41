"""Stronger augmentation: one distortion per image, of a kind and a strength drawn at random.

After TrivialAugment (Müller & Hutter, ICCV 2021), with the ranges of its ordinary space. Left out are equalise and
sharpness, which cost more than the rest together, and shifts, which a random crop makes. What an affine map brings in
from outside is the image reflected at its edge, not black.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from dissensus.datasets.data import to_float
from dissensus.training.augmentation import images_only

SHEAR, DEGREES, BLEND, BITS = 0.3, 30.0, 0.9, 4
LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Distort:
    """Each image is left alone, or sheared, rotated, brightened, contrasted, coloured, posterised, solarised, stretched.

    uint8, or float in [0, 1]; [B, C, H, W].
    """

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A new batch of the same shape and type."""
        images_only(x)
        kinds = torch.randint(0, len(DISTORTIONS), (len(x),), generator=generator)
        strengths = _strengths(x, generator)
        pixels = to_float(x.clone())
        for kind, distortion in enumerate(DISTORTIONS):
            rows = (kinds == kind).nonzero()[:, 0].to(x.device)
            if len(rows):
                pixels[rows] = distortion(pixels[rows], strengths[rows]).clamp(0, 1)
        return _like(x, pixels)


@dataclass(frozen=True)
class Jitter:
    """Each image brighter or darker, and with more or less contrast, by up to these shares; drawn per image.

    uint8, or float in [0, 1]; [B, C, H, W].
    """

    brightness: float = 0.2
    contrast: float = 0.2

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A new batch of the same shape and type."""
        images_only(x)
        lighter, starker = (_strengths(x, generator) for _ in range(2))
        pixels = to_float(x) * (1 + self.brightness * lighter)
        middle = _grey(pixels).mean((2, 3), keepdim=True)
        return _like(x, (middle + (pixels - middle) * (1 + self.contrast * starker)).clamp(0, 1))


def _strengths(x: Tensor, generator: torch.Generator) -> Tensor:
    """One number in [-1, 1) per image."""
    return (2 * torch.rand(len(x), 1, 1, 1, generator=generator) - 1).to(x.device)


def _like(x: Tensor, pixels: Tensor) -> Tensor:
    """These pixels, as bytes where `x` is bytes."""
    return (pixels * 255).round().to(torch.uint8) if x.dtype == torch.uint8 else pixels


def _left_alone(x: Tensor, strength: Tensor) -> Tensor:  # noqa: ARG001
    return x


def _sheared_across(x: Tensor, strength: Tensor) -> Tensor:
    return _mapped(x, across=SHEAR * strength)


def _sheared_down(x: Tensor, strength: Tensor) -> Tensor:
    return _mapped(x, down=SHEAR * strength)


def _rotated(x: Tensor, strength: Tensor) -> Tensor:
    angle = math.radians(DEGREES) * strength
    return _mapped(x, angle.cos(), -angle.sin(), angle.sin())


def _mapped(
    x: Tensor, diagonal: Tensor | float = 1.0, across: Tensor | float = 0.0, down: Tensor | float = 0.0
) -> Tensor:
    """Every image through the matrix [[diagonal, across], [down, diagonal]] about its middle; one value per image."""
    zero = x.new_zeros(len(x))
    parts = [value.flatten() if isinstance(value, Tensor) else zero + value for value in (diagonal, across, down)]
    matrix = torch.stack([parts[0], parts[1], zero, parts[2], parts[0], zero], 1).view(-1, 2, 3)
    grid = affine_grid(matrix, list(x.shape), align_corners=False)
    return grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def _brightened(x: Tensor, strength: Tensor) -> Tensor:
    return x * (1 + BLEND * strength)


def _contrasted(x: Tensor, strength: Tensor) -> Tensor:
    return _blended(x, _grey(x).mean((2, 3), keepdim=True), strength)


def _coloured(x: Tensor, strength: Tensor) -> Tensor:
    return _blended(x, _grey(x), strength)


def _blended(x: Tensor, other: Tensor, strength: Tensor) -> Tensor:
    """Towards `other` for a negative strength, away from it for a positive one."""
    return other + (x - other) * (1 + BLEND * strength)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] != len(LUMA):
        return x.mean(1, keepdim=True)
    return (x * x.new_tensor(LUMA).view(-1, 1, 1)).sum(1, keepdim=True)


def _posterised(x: Tensor, strength: Tensor) -> Tensor:
    """With 8 to 4 bits."""
    step = 2.0 ** (strength.abs() * BITS).round()
    return ((x * 255).round() / step).floor() * step / 255


def _solarised(x: Tensor, strength: Tensor) -> Tensor:
    """Negative from some brightness on: none of it at strength 0, all at 1."""
    return torch.where(x > 1 - strength.abs(), 1 - x, x)


def _stretched(x: Tensor, strength: Tensor) -> Tensor:  # noqa: ARG001
    """Each channel to the whole range (autocontrast); a channel of one colour stays."""
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1e-6), x)


DISTORTIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    _left_alone,
    _sheared_across,
    _sheared_down,
    _rotated,
    _brightened,
    _contrasted,
    _coloured,
    _posterised,
    _solarised,
    _stretched,
)
