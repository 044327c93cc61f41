"""How much of all disagreement lies in a few items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.agreement import Floats, entropy


@dataclass(frozen=True, eq=False)
class Concentration:
    """Items from the most to the least disputed: `held[i]` of all vote entropy lies in the first `share[i]` of them.

    Both begin at 0 and end at 1, with one point per item between.
    """

    share: Floats
    held: Floats

    def held_by(self, share: float) -> float:
        """The part of all vote entropy that the most disputed `share` of the items hold."""
        if not 0 <= share <= 1:
            raise InputError(f"{share} is no share of the items", where="concentration", hint="Give 0 to 1", state="")
        return float(np.interp(share, self.share, self.held))

    def needed_for(self, held: float) -> float:
        """The least share of the items that holds this part of all vote entropy."""
        if not 0 <= held <= 1:
            raise InputError(f"{held} is no part of a whole", where="concentration", hint="Give 0 to 1", state="")
        return float(self.share[np.searchsorted(self.held, held * (1 - 1e-12))])


def entropy_concentration(probs: Tensor) -> Concentration:
    """The concentration curve (Lorenz curve from the top) of the entropy of each row.

    >>> import torch
    >>> curve = entropy_concentration(torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))
    >>> curve.held_by(0.25), curve.needed_for(1.0)
    (0.5, 0.5)
    """
    entropies = np.sort(entropy(probs).numpy())[::-1]
    total = entropies.sum()
    if not total > 0:
        raise InputError(
            "people agree on every item", where="concentration", hint="Use data on which they differ", state=""
        )
    held = np.concatenate([[0.0], np.cumsum(entropies) / total]).clip(max=1.0)
    return Concentration(np.arange(len(held)) / (len(held) - 1), held)
