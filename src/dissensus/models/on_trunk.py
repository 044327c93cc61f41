"""What networks have in common that put another head on the penultimate features of a classifier."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import override

from dissensus.errors import InputError
from dissensus.models.classifier import Classifier
from dissensus.models.model import Architecture, Model


class OnTrunk(Model):
    """A model on the features of `trunk`. The trunk's own head stays beside it, unused, only with `keep_head`."""

    def __init__(self, trunk: Classifier, *, keep_head: bool = False) -> None:
        super().__init__()
        self.trunk = trunk
        self.width = trunk.head.in_features
        if not keep_head:
            del trunk.head

    @override
    def prepare(self, x: Tensor) -> None:
        self.trunk.prepare(x)

    @property
    @override
    def last_stage(self) -> nn.Module | None:
        return self.trunk.last_stage


def build_trunk(
    architecture: Architecture, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor
) -> Classifier:
    """The network under a head, at the initial weights it would have alone."""
    trunk = architecture.build(shape, classes, mean, std)
    if not isinstance(trunk, Classifier):
        raise InputError(
            f"{type(architecture).__name__} has a head that cannot be replaced",
            where="model",
            hint="Use a plain network as the trunk: Linear, Mlp, Smallcnn, Speedy, ResNet, Vgg, …",
            state="",
        )
    return trunk
