"""Models, one file a family. A member is a frozen dataclass that is written into a spec; `build` makes its module."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from dissensus.models.classifier import Classifier
from dissensus.models.mlp import Linear, Mlp
from dissensus.models.normalise import Normalise, moments
from dissensus.models.resnet import ResNet18, ResNet20
from dissensus.models.smallcnn import Smallcnn
from dissensus.models.speedy import Speedy
from dissensus.store.encoding import table

__all__ = [
    "MODELS",
    "Classifier",
    "Linear",
    "Mlp",
    "Model",
    "Normalise",
    "ResNet18",
    "ResNet20",
    "Smallcnn",
    "Speedy",
    "moments",
]


class Model(Protocol):
    """A member of this axis.

    Weights are drawn from torch's global generator: build inside `random.seeded(seed, "init")`.
    """

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """A module for float inputs of `shape` (without the batch), with the moments of its training inputs."""
        ...


MODELS = table(Linear, Mlp, Smallcnn, ResNet18, ResNet20, Speedy)
