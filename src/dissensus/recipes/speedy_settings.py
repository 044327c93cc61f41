"""The settings of `speedy` for CIFAR-10H; docs/results/003-regularised/tuning.md says how they were chosen.

LAPTOP is 0.034 PFLOP per run, ten to twelve minutes on one core. QUALITY is 0.128 PFLOP: wider and longer. Both
regularise the network in the same way, because it sees the same 8,000 images many times: one distortion per image, twice
the usual weight decay, averaged weights.
"""

from __future__ import annotations

from dataclasses import replace

from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Empirical
from dissensus.models import Speedy
from dissensus.training.augmentation import CropFlip, InTurn
from dissensus.training.averaging import Ema
from dissensus.training.distortions import Distort
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Recipe
from dissensus.training.schedules import LinearDecay

AUGMENT = InTurn((Distort(), CropFlip(padding=4, reflect=True)))

LAPTOP = Recipe(
    data="cifar10h",
    model=Speedy(widths=(32, 64, 128)),
    target=Empirical(),
    delivery=Soft(),
    augment=AUGMENT,
    optimiser=Sgd(lr=0.2, weight_decay=1e-3, nesterov=True),
    schedule=LinearDecay(warmup=7),
    averaging=Ema(epochs=3.0),
    epochs=36,
    batch=128,
)

QUALITY = replace(
    LAPTOP,
    model=Speedy(widths=(32, 128, 256)),
    schedule=LinearDecay(warmup=12),
    averaging=Ema(epochs=5.0),
    epochs=60,
)
