"""The settings of `speedy` for CIFAR-10H, tuned on seeds from 100 on: docs/results/003/tuning.md says how.

LAPTOP is 0.034 PFLOP a run: about 5 minutes on two cores.
"""

from __future__ import annotations

from dataclasses import replace

from dissensus.datasets.images import CropFlip
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

QUALITY = replace(LAPTOP, epochs=136, averaging=Ema(epochs=3.0))
"""At most 0.13 PFLOP a run. A first guess, which nobody has run to its end yet."""
