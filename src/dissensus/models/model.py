"""What every network can do, and how one is described."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

from torch import Tensor, nn

from dissensus.models.heads import LinearHead
from dissensus.models.predictions import Predictions


class Model(nn.Module, ABC):
    """A network that can be trained and asked: `loss` and `predict`, and hooks for networks that need them.

    Inputs x are floats: images in [0, 1], or features in their own units. A target is classes, int64 [B], or
    distributions, float [B, K]. Write `@override` on whatever a subclass overrides: then a misspelt hook is a type error.

    `head` is the last layer, where it is a linear layer on the features that `predict` gives; None elsewhere.
    """

    uncertainty: ClassVar[str] = ""
    """What the uncertainty in its predictions is, in words; empty where there is none."""

    compiles: ClassVar[bool] = True
    """Whether `loss` can be compiled: not where it differentiates twice."""

    shares_batches: ClassVar[bool] = True
    """Whether several processes can each take a part of a batch: not where the model keeps statistics of whole ones."""

    def __init__(self) -> None:
        super().__init__()
        self.head: LinearHead | None = None

    @abstractmethod
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a batch, to be minimised."""

    @abstractmethod
    def predict(self, x: Tensor) -> Predictions:
        """Predictions of a batch, in the module's present mode and differentiable in x."""

    @property
    def passes(self) -> int:
        """How many forward passes a prediction takes. Who differentiates predictions divides batches by it."""
        return 1

    def preview(self, x: Tensor) -> Predictions:
        """Predictions for a training curve: a cheaper approximation where `predict` takes many passes."""
        return self.predict(x)

    def prepare(self, x: Tensor) -> None:
        """Called once, before anything else, with the training inputs as they are stored (images as uint8)."""

    def start_epoch(self) -> None:
        """Called before the first step of every epoch."""

    def after_step(self, x: Tensor, target: Tensor) -> None:
        """Called after every step, with the batch of that step."""

    @property
    def last_stage(self) -> nn.Module | None:
        """The last part whose output is still a map [B, C, h, w] with more than one cell; None where there is none."""
        return None


class RandomInTraining(nn.Module):
    """A part that draws from torch's global generator in training, as dropout does, and not in eval mode."""


def random_in_training(model: nn.Module) -> bool:
    """Whether a training step draws: then it needs a stream of its own."""
    return any(
        isinstance(part, RandomInTraining) or (isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0)
        for part in model.modules()
    )


class Architecture(Protocol):
    """A network described: a frozen dataclass, which is written into a spec.

    A class may have a `published: ClassVar[str]`, which says what its defaults are known as; `dissensus models` lists it.
    """

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Model:
        """A network for inputs of `shape` (without the batch), with the mean and std of its training inputs per channel.

        Weights are drawn from torch's global generator. `models.build` calls this; nobody else needs to.
        """
        ...
