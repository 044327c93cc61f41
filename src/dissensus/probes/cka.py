"""Linear CKA: how alike the features of two models are."""

from __future__ import annotations

import math

from torch import Tensor

from dissensus.errors import InputError


def linear_cka(x: Tensor, y: Tensor, *, unbiased: bool = False) -> float:
    """Centred kernel alignment of two models' features of the same items, [N, D] and [N, E] (Kornblith et al., 2019).

    1 where they differ by rotation and scale only. The plain value, which papers print, is biased upwards: of unrelated
    features it is near 1 where N is not much larger than D and E. `unbiased` uses HSIC₁ (Song et al., 2012), near 0 then,
    and possibly below it. Works on D × E products, never on N × N.

    >>> import torch
    >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [5.0, 3.0], [0.0, 4.0]])
    >>> round(linear_cka(x, 3 * x.flip(1) + 7), 6)
    1.0
    """
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(f"{list(x.shape)} and {list(y.shape)} are not features of the same items", where="cka", state="")
    if len(x) < 4:
        raise InputError(f"{len(x)} items are too few", where="cka", hint="Compare on four or more", state="")
    x, y = (part.double() - part.double().mean(0) for part in (x, y))
    hsic = _hsic_unbiased if unbiased else _hsic_biased
    own_x, own_y = hsic(x, x), hsic(y, y)
    if own_x <= 0 or own_y <= 0:
        raise InputError(
            "one model's features do not vary over these items",
            where="cka",
            hint="Compare on more items",
            state="",
        )
    return hsic(x, y) / math.sqrt(own_x * own_y)


def _hsic_biased(x: Tensor, y: Tensor) -> float:
    """(N − 1)² HSIC₀ of centred features under the linear kernel: the factor cancels in CKA."""
    return float((x.T @ y).square().sum())


def _hsic_unbiased(x: Tensor, y: Tensor) -> float:
    """N(N − 3) HSIC₁. The rows of a Gram matrix of centred features sum to 0, so that of its three terms only the
    diagonals and ‖XᵀY‖² are left: no Gram matrix is needed."""
    n = len(x)
    diagonal_x, diagonal_y = x.square().sum(1), y.square().sum(1)
    crossed = n / (n - 2) * (diagonal_x @ diagonal_y) - diagonal_x.sum() * diagonal_y.sum() / ((n - 1) * (n - 2))
    return float((x.T @ y).square().sum() - crossed)
