"""Shared by the recipes of "Do Soft Labels Enhance Neural Network Training?" (000): blocks, rows and scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import Attack, Gathered, OwnUncertainty, ScoreDifference
from dissensus.experiments.plan import Node, measured, seeded
from dissensus.experiments.values import Measured
from dissensus.labels.mixing import Cutmix, Mixing, Mixup, Unmixed
from dissensus.labels.targets import Empirical, Gold, TargetRule
from dissensus.models import Architecture, Duq, McDropout, ResNet20, Sngp, Speedy
from dissensus.recipes.printed import CITATIONS
from dissensus.training.augmentation import CropFlip, NoAugment
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Recipe
from dissensus.training.schedules import Multistep

Seeds = tuple[int, ...]

CITATION = CITATIONS["000"]

BASIC, NO_AUG, WITH_AUG, DUQ, SNGP = "Basic", "Dropout (no aug)", "Dropout (with aug)", "DUQ", "SNGP"
SOFT, HARD = "soft labels", "hard labels"

ROWS: Mapping[str, tuple[TargetRule, Mixing]] = {
    SOFT: (Empirical(), Unmixed()),
    HARD: (Gold(), Unmixed()),
    "soft + Mixup": (Empirical(), Mixup(1.0)),
    "hard + Mixup": (Gold(), Mixup(1.0)),
    "soft + CutMix": (Empirical(), Cutmix(1.0)),
    "hard + CutMix": (Gold(), Cutmix(1.0)),
}
"""The six rows of each block."""

COLUMNS = {
    "accuracy": Measured("accuracy"),
    "OOD AUROC (SVHN)": Measured("auroc"),
    "ECE (10, width)": Measured("ece_width_10"),
    "attack decrease": Measured("attack_decrease"),
}
INFORMATION = {"OOD AUROC by mutual information": Measured("auroc_own")}
ENTROPY = {"OOD AUROC by entropy": Measured("auroc_entropy")}
OF_SOFTMAX = {"ECE of the softmax of kernels": Measured("ece_width_10_of_softmax")}
BESIDE: Mapping[str, Mapping[str, Measured]] = {
    BASIC: {},
    NO_AUG: INFORMATION,
    WITH_AUG: INFORMATION,
    DUQ: {**ENTROPY, **OF_SOFTMAX},
    SNGP: ENTROPY,
}
"""What stands beside the document's columns in a block: the other score for OOD, and what it prints as DUQ's ECE."""

PAPER = Recipe(
    data="cifar10h",
    model=ResNet20(),
    augment=CropFlip(padding=4),
    optimiser=Sgd(lr=0.05, momentum=0.9, weight_decay=5e-4),
    schedule=Multistep(milestones=(100, 150), warmup=5),
    epochs=200,
    batch=128,
)
LAPTOP = replace(PAPER, schedule=Multistep(milestones=(20, 30), warmup=1), epochs=40, precision="auto")
SMOKE = replace(
    PAPER,
    model=Speedy(widths=(8, 8)),
    options=(("items", 400),),
    schedule=Multistep(milestones=(1,)),
    epochs=2,
    batch=64,
)


def architectures(trunk: Architecture, *, small: bool = False) -> dict[str, Architecture]:
    """The network of each block; `small` has few random features, dimensions and masks.

    Its DUQ has a longer length scale: with few dimensions and two epochs, some runs at the document's diverge.
    """
    dropout = McDropout(trunk, rate=0.3, samples=3 if small else 20)
    return {
        BASIC: trunk,
        NO_AUG: dropout,
        WITH_AUG: dropout,
        DUQ: Duq(trunk, embedding=64, length_scale=1.0, own_head=True) if small else Duq(trunk, own_head=True),
        SNGP: Sngp(trunk, features=64 if small else 1024),
    }


@dataclass(frozen=True)
class Blocks:
    """What is run at a scale: the rows of each block, and the measures of each run."""

    name: str
    base: Recipe
    seeds: Seeds
    rows: Mapping[str, tuple[str, ...]]
    items: int | None = None
    notes: tuple[str, ...] = ()
    models: Mapping[str, Architecture] = field(init=False)

    def __post_init__(self) -> None:
        models = architectures(self.base.model, small=self.name == "smoke")
        object.__setattr__(self, "models", models)

    def recipe(self, block: str, row: str) -> Recipe:
        """A row of a block differs from the block's others in target and mixing alone."""
        target, mixing = ROWS[row]
        augment = NoAugment() if block == NO_AUG else self.base.augment
        return replace(self.base, model=self.models[block], augment=augment, target=target, mixing=mixing)

    def scores(self, block: str, row: str) -> dict[str, Node]:
        """All four columns of a row, one record per seed."""
        runs = seeded(self.recipe(block, row), self.seeds)
        entropy = block in (NO_AUG, WITH_AUG)
        outside = OwnUncertainty(DataRef("svhn"), score="entropy" if entropy else "own", items=self.items)
        attack = Attack(epsilon=0.005, items=self.items)
        return measured(Gathered(kernels=block == DUQ), runs, measured(outside, runs), measured(attack, runs))

    def soft_minus_hard(self, block: str) -> dict[str, Node]:
        """The difference of each score, in pairs of equal seed."""
        return measured(ScoreDifference(), self.scores(block, SOFT), self.scores(block, HARD))


ALL_ROWS = dict.fromkeys((BASIC, NO_AUG, WITH_AUG, DUQ, SNGP), tuple(ROWS))
LAPTOP_ROWS = {block: tuple(ROWS) if block == BASIC else (SOFT, HARD) for block in ALL_ROWS}

LEFT_OPEN = (
    "What the document leaves open: the 10,000 images with human votes, 2,000 of them held out per seed; hard is the "
    "label of CIFAR-10; warm-up over 5 epochs, learning rate divided by 10 at epochs 100 and 150; weight decay 5e-4; "
    "crop and flip in every block but Dropout (no aug); Mixup and CutMix with alpha 1; dropout of whole channels "
    "between the two convolutions of each residual block, 20 masks.",
    "OOD scores: predictive entropy for Basic and Dropout, Dempster–Shafer for SNGP, distance to the nearest centroid "
    "for DUQ. FGSM attacks what the model predicts (for dropout, the mean of its masks), with gradients that do not "
    "saturate.",
    "DUQ's probabilities are kernels over their sum. The document's ECE of 0.69 fits their softmax, in which no "
    "probability can exceed 0.23; that has a column of its own.",
)
LAPTOP_NOTE = (
    "Laptop scale: the document's networks at full size, trained for 40 epochs in place of 200 (warm-up over 1, learning "
    "rate divided by 10 at epochs 20 and 30), three seeds, Mixup and CutMix for Basic alone. Attacks are on all 2,000 "
    "images held out, OOD scores on them and 2,000 of SVHN. In bfloat16 where the processor has instructions for it; the "
    "set-up below says which."
)


def at(scale: str, seeds: Seeds | None = None) -> Blocks:
    """The settings of a scale; `seeds` replace its own."""
    if scale == "paper":
        note = "Five seeds; the document does not say how many it has."
        settings = Blocks(scale, PAPER, tuple(range(5)), ALL_ROWS, notes=(*LEFT_OPEN, note))
    elif scale == "laptop":
        settings = Blocks(scale, LAPTOP, (0, 1, 2), LAPTOP_ROWS, items=2000, notes=(LAPTOP_NOTE, *LEFT_OPEN))
    else:
        settings = Blocks(scale, SMOKE, (0, 1), ALL_ROWS, items=40)
    return settings if seeds is None else replace(settings, seeds=seeds)
