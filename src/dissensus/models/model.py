"""What every network can do."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from dissensus.models.heads import LinearHead
from dissensus.models.predictions import Predictions


class Model(nn.Module, ABC):
    """A network that can be trained and asked.

    `head` is the last layer, where it is a linear layer on the features that `predict` gives; None elsewhere.
    """

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
    def last_stage(self) -> nn.Module | None:
        """The last part whose output is still a map [B, C, h, w] with more than one cell; None where there is none."""
        return None
