"""Which label does the optimiser see? Three independent choices: target, delivery, mixing."""

from dissensus.labels.delivered_dataset import DeliveredDataset
from dissensus.labels.delivery import DELIVERIES, Delivery, Labels, Multipass, Sampled, Soft
from dissensus.labels.mixing import MIXINGS, Cutmix, Mixing, Mixup, Unmixed
from dissensus.labels.own_loop import DeliveredLabels, multipass, sampled, soft
from dissensus.labels.targets import (
    TARGETS,
    ClassMean,
    DawidSkene,
    Dirichlet,
    Empirical,
    Glad,
    Gold,
    Mace,
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
    "DeliveredDataset",
    "DeliveredLabels",
    "Delivery",
    "Dirichlet",
    "Empirical",
    "Glad",
    "Gold",
    "Labels",
    "Mace",
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
    "multipass",
    "sampled",
    "soft",
]
