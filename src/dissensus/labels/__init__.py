"""Which label does the optimiser see? Three independent choices: target, delivery, mixing."""

from dissensus.labels.delivery import DELIVERIES, Delivery, Labels, Multipass, Sampled, Soft
from dissensus.labels.mixing import MIXINGS, Cutmix, Mixing, Mixup, Unmixed
from dissensus.labels.targets import (
    TARGETS,
    ClassMean,
    DawidSkene,
    Dirichlet,
    Empirical,
    Gold,
    Majority,
    Shuffled,
    Smoothed,
    Target,
    TargetRule,
    Teacher,
)

__all__ = [
    "DELIVERIES",
    "MIXINGS",
    "TARGETS",
    "ClassMean",
    "Cutmix",
    "DawidSkene",
    "Delivery",
    "Dirichlet",
    "Empirical",
    "Gold",
    "Labels",
    "Majority",
    "Mixing",
    "Mixup",
    "Multipass",
    "Sampled",
    "Shuffled",
    "Smoothed",
    "Soft",
    "Target",
    "TargetRule",
    "Teacher",
    "Unmixed",
]
