"""Can a score tell unusual items from ordinary ones? A higher score is more unusual; nothing is tuned."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.agreement import midranks


def auroc(scores_in: Tensor, scores_out: Tensor) -> float:
    """The chance that an outside item scores higher than an inside one; ties count half (Mann–Whitney's U).

    >>> auroc(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]))
    0.875
    """
    inside, outside = _checked(scores_in, "scores_in"), _checked(scores_out, "scores_out")
    ranks = midranks(np.concatenate([inside, outside]))[len(inside) :]
    wins = ranks.sum() - len(outside) * (len(outside) + 1) / 2
    return float(wins / (len(inside) * len(outside)))


def fpr_at_95(scores_in: Tensor, scores_out: Tensor) -> float:
    """The share of outside items accepted by the strictest threshold that accepts at least 95% of the inside items.

    Inside items are the positives, as in ODIN (Liang et al. 2018) and later work; papers that take the outside items as
    positives get another number.
    """
    inside, outside = np.sort(_checked(scores_in, "scores_in")), _checked(scores_out, "scores_out")
    needed = -(-95 * len(inside) // 100)  # rounded up in integers: 0.95 * n in floats may be too large
    return float((outside <= inside[needed - 1]).mean())


def _checked(scores: Tensor, where: str) -> NDArray[np.float64]:
    if scores.ndim != 1 or len(scores) == 0:
        raise InputError(f"{list(scores.shape)} is not one score per item", where=where, state="")
    values: NDArray[np.float64] = scores.detach().to("cpu", torch.float64).numpy()
    if np.isnan(values).any():
        raise InputError("some scores are NaN", where=where, state="")
    return values
