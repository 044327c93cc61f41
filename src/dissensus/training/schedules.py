"""Learning-rate schedules and early stopping, as values that a spec can hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from typing_extensions import override

from dissensus.store.encoding import table


class Schedule(Protocol):
    """What the base learning rate is multiplied by; pure, so a resumed run needs no state of a schedule."""

    @property
    def watches(self) -> bool:
        """Whether it follows the validation loss: then a run needs a validation part."""
        return False

    @property
    def set_per_epoch(self) -> bool:
        """Whether the factor is the same throughout an epoch and for every number of epochs.

        Then a short run is the beginning of a long one.
        """
        return False

    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        """After `epoch` of `epochs` (fractions are steps inside an epoch), given the losses watched so far."""
        ...


@dataclass(frozen=True)
class Constant(Schedule):
    """The base learning rate throughout."""

    set_per_epoch: ClassVar[bool] = True

    @override
    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 to 0, moved every step or every epoch, after `warmup` epochs of linear rise.

    By step the rise begins at 0; by epoch, where 0 would waste the first one, at 1 / warmup.
    """

    warmup: float = 0.0
    every: Literal["step", "epoch"] = "step"

    @override
    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        at = epoch if self.every == "step" else math.floor(epoch)
        if at < self.warmup:
            return at / self.warmup if self.every == "step" else min(1.0, (at + 1) / self.warmup)
        return 0.5 * (1 + math.cos(math.pi * (at - self.warmup) / (epochs - self.warmup)))


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """A straight line from 1 to 0, moved every step, after `warmup` epochs of linear rise."""

    warmup: float = 0.0
    spec_name: ClassVar[str] = "linear"

    @override
    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        if epoch < self.warmup:
            return epoch / self.warmup
        return (epochs - epoch) / (epochs - self.warmup)


@dataclass(frozen=True)
class Multistep(Schedule):
    """Multiplied by `gamma` at each milestone (in epochs), after `warmup` epochs of linear rise."""

    milestones: tuple[int, ...] = (100, 150)
    gamma: float = 0.1
    warmup: float = 0.0

    @property
    @override
    def set_per_epoch(self) -> bool:
        """Unless it warms up, which it does step by step."""
        return self.warmup == 0

    @override
    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        if epoch < self.warmup:
            return epoch / self.warmup
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Plateau(Schedule):
    """Multiplied by `gamma` whenever the watched loss has not improved for more than `patience` epochs."""

    gamma: float = 0.5
    patience: int = 2
    minimum_improvement: float = 1e-4
    watches: ClassVar[bool] = True
    set_per_epoch: ClassVar[bool] = True

    @override
    def factor(self, epoch: float, epochs: int, watched: Sequence[float]) -> float:
        best, bad_epochs, factor = math.inf, 0, 1.0
        for loss in watched:
            if loss < best * (1 - self.minimum_improvement):
                best, bad_epochs = loss, 0
            else:
                bad_epochs += 1
            if bad_epochs > self.patience:
                factor, bad_epochs = factor * self.gamma, 0
        return factor


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the watched loss has not improved by `minimum_improvement` for `patience` epochs."""

    patience: int = 5
    minimum_improvement: float = 1e-4

    def stops(self, watched: Sequence[float]) -> bool:
        """Whether training ends after these epochs' losses."""
        best, bad_epochs = math.inf, 0
        for loss in watched:
            if loss < best - self.minimum_improvement:
                best, bad_epochs = loss, 0
            else:
                bad_epochs += 1
        return bad_epochs >= self.patience


SCHEDULES = table(Constant, Cosine, LinearDecay, Multistep, Plateau)
STOPPINGS = table(EarlyStopping)
