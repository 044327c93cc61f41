"""The settings of `speedy` for CIFAR-10H, tuned on seeds from 100 on: docs/results/003/tuning.md says how.

LAPTOP is 0.034 PFLOP a run: about 5 minutes on two cores. QUALITY is 0.128 PFLOP, about 20 minutes: wider, longer, and
held back harder (cutout, twice the weight decay, averaged weights), because it sees the same 8,000 images more often.
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
