"""How far features may lie from those that a model was trained on: beyond it, they count as the farthest that may."""

from __future__ import annotations

import torch
from torch import Tensor

FAR = 20.0  # robust standard deviations from the median: what is farther is damage, or a tail that ruins every mean
QUARTILES_OF_A_NORMAL = 1.349  # their distance, in standard deviations


def feature_bounds(x: Tensor) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value [D] that each feature [N, D] may have.

    Only values that lie very far out in training are beyond the bounds themselves; a new item may lie outside of all the
    others by as much as these are apart. Linear models and MLPs grow without limit outside of what they have seen: one
    wrong unit in one feature of a new item would make it certain.

    >>> feature_bounds(torch.tensor([[0.0], [1.0], [2.0], [3.0], [1e6]]))
    (tensor([-1000000.]), tensor([31.6516]))
    """
    low, middle, high = (x.kthvalue(1 + round(share * (len(x) - 1)), dim=0).values for share in (0.25, 0.5, 0.75))
    far = FAR * (high - low) / QUARTILES_OF_A_NORMAL
    far = torch.where(far > 0, far, torch.inf)  # a feature that is mostly one value has no such measure
    least, most = x.amin(0), x.amax(0)
    span = most - least
    lower = torch.where(least < middle - far, middle - far, least - span)
    upper = torch.where(most > middle + far, middle + far, most + span)
    return lower, upper
