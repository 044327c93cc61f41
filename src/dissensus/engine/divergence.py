"""Training that diverged ends as a failed run that says so, and not as a number that nobody would believe.

Looked at once per epoch, where the loss is read from the device anyway. A run of a grid (`keep="curve"`) may diverge: a
grid is there to find out which learning rate is too high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dissensus.errors import InputError
from dissensus.training.recipe import Recipe

EXPLODED = 1e4
"""Nats of soft NLL after the last epoch beyond which a run counts as diverged. Over-confident networks reach tens; a
guess at random has log K."""


class DivergedError(InputError):
    """The loss of a run became infinite or absurd."""

    def __init__(self, epoch: int, recipe: Recipe, why: str) -> None:
        super().__init__(
            f"training diverged at epoch {epoch} of {recipe.epochs} ({why})",
            hint=f"Lower the learning rate, which is {recipe.optimiser.lr:g}",
            state="",
        )


def refuse_divergence(recipe: Recipe, epoch: int, loss: float | None) -> None:
    """Raise where the training loss of an epoch, counted from 1, is not finite: no later step can repair the weights."""
    if recipe.keep == "all" and (loss is None or not math.isfinite(loss)):
        raise DivergedError(epoch, recipe, "the training loss is not finite")


def refuse_explosion(recipe: Recipe, curve: Mapping[str, Sequence[float | None]]) -> None:
    """Raise where training ended with a soft NLL that is not finite, or beyond all reason."""
    if recipe.keep != "all" or not curve.get("soft_nll"):
        return
    last = curve["soft_nll"][-1]
    if last is None or last > EXPLODED:
        shown = "not finite" if last is None else f"{last:.3g} nats"
        raise DivergedError(len(curve["soft_nll"]), recipe, f"its soft NLL on held-out items is {shown}")
