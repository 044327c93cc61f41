"""The settings of `speedy` for CIFAR-10H; docs/results/003/tuning.md says how they were chosen, and how little that was.

LAPTOP is 0.034 PFLOP a run, ten minutes of one core, and was tried on seed 100 alone: soft NLL 0.583, accuracy 0.841.
QUALITY is 0.128 PFLOP: wider, longer, and held back harder (cutout, twice the weight decay, averaged weights), because it
sees the same 8,000 images more often. It is a guess that no run has tested yet.
"""

from __future__ import annotations

from dissensus.datasets.images import CropFlip, Cutout, InTurn
from dissensus.delivery import Soft
from dissensus.models import Speedy
from dissensus.optim import Ema, Linear, Sgd
from dissensus.recipe import Recipe
from dissensus.targets import Empirical

LAPTOP = Recipe(
    data="cifar10h",
    model=Speedy(widths=(32, 64, 128)),
    target=Empirical(),
    delivery=Soft(),
    augment=CropFlip(padding=4, reflect=True),
    optimiser=Sgd(lr=0.2, nesterov=True),
    schedule=Linear(warmup=7),
    epochs=36,
    batch=128,
)

QUALITY = Recipe(
    data="cifar10h",
    model=Speedy(widths=(32, 128, 256)),
    target=Empirical(),
    delivery=Soft(),
    augment=InTurn((CropFlip(padding=4, reflect=True), Cutout(8))),
    optimiser=Sgd(lr=0.2, weight_decay=1e-3, nesterov=True),
    schedule=Linear(warmup=12),
    averaging=Ema(epochs=5.0),
    epochs=60,
    batch=128,
)
