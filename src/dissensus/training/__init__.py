"""How a network is trained: the recipe, the one loop, and what it needs."""

from dissensus.training.augmentation import CropFlip, Cutout, InTurn, NoAugment
from dissensus.training.averaging import Ema
from dissensus.training.distortions import Distort
from dissensus.training.item_split import ItemSplit, split_items
from dissensus.training.optimisers import Adam, AdamW, Sgd
from dissensus.training.recipe import Best, Recipe, Resampled
from dissensus.training.schedules import Constant, Cosine, EarlyStopping, LinearDecay, Multistep, Plateau
from dissensus.training.splits import Folds, Holdout

__all__ = [
    "Adam",
    "AdamW",
    "Best",
    "Constant",
    "Cosine",
    "CropFlip",
    "Cutout",
    "Distort",
    "EarlyStopping",
    "Ema",
    "Folds",
    "Holdout",
    "InTurn",
    "ItemSplit",
    "LinearDecay",
    "Multistep",
    "NoAugment",
    "Plateau",
    "Recipe",
    "Resampled",
    "Sgd",
    "split_items",
]
