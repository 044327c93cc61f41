"""The eight networks of Peterson et al. 2019 (001), each with how it is trained on the 50,000 images of CIFAR-10.

At paper scale these are the settings of the repository that the paper adapts, pytorch_image_classification: those of its
commands where it prints one for the network (batch and learning rate of DenseNet, ResNeXt and Shake-Shake, 300 epochs
with cutout for the last), and its defaults elsewhere. SGD with Nesterov momentum 0.9, crop and flip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Gold
from dissensus.models import (
    Architecture,
    DenseNet,
    PreactResNet,
    PyramidNet,
    ResNet,
    ResNeXt,
    ShakeShake,
    Speedy,
    Vgg,
    WideResNet,
)
from dissensus.training.augmentation import CropFlip, Cutout, InTurn
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Recipe
from dissensus.training.schedules import Cosine, Multistep, Schedule
from dissensus.training.splits import Last

Networks = Mapping[str, Recipe]
"""How each network is pretrained, by the name in the paper's tables."""

EARLY, MIDDLE, LATE = Multistep((80, 120)), Multistep((60, 120, 160), gamma=0.2), Multistep((150, 225))
CUT = InTurn((CropFlip(), Cutout(16)))


def _pretrained(
    model: Architecture,
    epochs: int,
    schedule: Schedule,
    *,
    lr: float = 0.1,
    weight_decay: float = 1e-4,
    batch: int = 128,
) -> Recipe:
    """On all training images of CIFAR-10, judged on its test images; the labels are CIFAR-10's own."""
    return Recipe(
        data="cifar10",
        options=(("part", "all"),),
        split=Last(10_000),
        model=model,
        target=Gold(),
        delivery=Soft(),
        augment=CropFlip(),
        optimiser=Sgd(lr=lr, weight_decay=weight_decay, nesterov=True),
        schedule=schedule,
        epochs=epochs,
        batch=batch,
    )


PAPER: Networks = {
    "VGG": _pretrained(Vgg(), 160, EARLY),
    "DenseNet": _pretrained(DenseNet(), 300, LATE, lr=0.05, batch=32),
    "PyramidNet": _pretrained(PyramidNet(), 300, LATE),
    "ResNet": _pretrained(ResNet(), 160, EARLY),
    "ResNeXt": _pretrained(ResNeXt(), 300, LATE, lr=0.05, weight_decay=5e-4, batch=64),
    "Wide ResNet": _pretrained(WideResNet(), 200, MIDDLE, weight_decay=5e-4),
    "ResNet preact": _pretrained(PreactResNet(), 160, EARLY),
    "Shake-Shake": replace(_pretrained(ShakeShake(), 300, Cosine(), batch=64), augment=CUT),
}

SMALL: Mapping[str, Architecture] = {
    "VGG": Vgg((1, 1, 1, 1, 1), width=32),
    "ResNet": ResNet(8),
    "Wide ResNet": WideResNet(10, width=1),
    "speedy": Speedy((32, 64, 128)),
}
LAPTOP: Networks = {
    name: replace(_pretrained(model, 30, Cosine(warmup=1.0)), precision="auto") for name, model in SMALL.items()
}
"""Long enough that the two with the most parameters, VGG and speedy, come close to fitting the images they see: what the
paper says is about networks that are too sure."""

TINY: Mapping[str, Architecture] = {
    "VGG": Vgg((1, 1), width=4),
    "DenseNet": DenseNet(10, growth=4),
    "PyramidNet": PyramidNet(8, alpha=9, width=4),
    "ResNet": ResNet(8, width=4),
    "ResNeXt": ResNeXt(11, groups=2, width=4),
    "Wide ResNet": WideResNet(10, width=1, base=4),
    "ResNet preact": PreactResNet(11, width=4),
    "Shake-Shake": ShakeShake(8, width=4, stem=4),
}

SMOKE: Networks = {
    name: replace(
        PAPER[name],
        model=model,
        options=(("items", 200), ("part", "all")),
        split=Last(200),
        optimiser=Sgd(lr=0.05),
        schedule=Cosine(),
        epochs=1,
        batch=50,
    )
    for name, model in TINY.items()
}
