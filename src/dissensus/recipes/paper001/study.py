"""Shared by the recipes of Peterson et al. 2019 (001): conditions, folds, searches, and what is run at each scale.

Two protocols. The clean one is the default: ten folds that are the same for every condition; learning rate, optimiser,
mixup's α and the epoch are chosen on a tenth of the training folds by the condition's own loss; the held-out fold judges
and chooses nothing. `as_printed` is what the authors' released code and logs show: SGD alone; in fine-tuning one holdout
of 1,000 images, on which learning rate, seed and epoch are chosen by cross-entropy to people and which then gives the
number; from scratch ten folds, each of which chooses learning rate and epoch and then gives the number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import ShiftedScores, SplitScores, WeightedMean, WinnerScores
from dissensus.errors import InputError
from dissensus.experiments.plan import Measurement, Node, Training
from dissensus.labels.delivery import Sampled
from dissensus.labels.mixing import Mixup
from dissensus.labels.targets import ClassMean, Empirical, Gold
from dissensus.recipes.paper001 import networks
from dissensus.recipes.paper001.networks import Networks
from dissensus.recipes.printed import CITATIONS
from dissensus.training.optimisers import Adam, Sgd
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant, Cosine
from dissensus.training.splits import Folds, Holdout, SplitRule

Seeds = tuple[int, ...]
CITATION = CITATIONS["001"]
FOLDS = 10

TRAINED = "Trained on CIFAR-10"
HARD = "FT hard labels"
MIXUP = "FT mixup"
CATEGORY = "FT category soft targets"
SOFT = "FT human soft targets"
SAMPLED = "FT sampled hard targets"
DISTILLED = "FT distilled from the ensemble"
ENSEMBLE = "Ensemble of all networks"
CONDITIONS = (HARD, MIXUP, CATEGORY, SOFT, SAMPLED, DISTILLED)
"""What the pretrained networks are fine-tuned (FT) with."""

HARD_LABELS, HUMAN_LABELS = "hard labels", "human soft labels"
FROM_SCRATCH = {HARD_LABELS: Gold(), HUMAN_LABELS: Empirical()}
"""What the networks of Section 5 are trained with, from random weights."""

TRAIN_PART, V6, V4 = "CIFAR-10", "CIFAR-10.1 v6", "CIFAR-10.1 v4"
CINIC, FAR = "CINIC-10", "ImageNet-Far"


@dataclass(frozen=True)
class Shift:
    """A test set from elsewhere; `items` caps how many of its images are used."""

    data: DataRef
    items: int | None = None


@dataclass(frozen=True)
class Study:
    """What is run at a scale, and by which protocol.

    `rates` are the learning rates that are searched in fine-tuning, `scratch_rates` those of training from scratch;
    `shifts` are in the order of their distance from CIFAR-10. `folds` names the folds, which are also the seeds of their
    runs. `attacked` and `pgd_items` cap how many held-out images FGSM and PGD attack.
    """

    name: str
    networks: Networks
    folds: Seeds
    rates: tuple[float, ...]
    scratch_rates: tuple[float, ...]
    alphas: tuple[float, ...]
    adam: bool
    epochs: int
    scratch_epochs: int
    shifts: Mapping[str, Shift]
    votes: DataRef = DataRef("cifar10h")
    printed_seeds: Seeds = (0, 1, 2)
    attacked: int | None = None
    pgd_items: int | None = None
    pgd_steps: int = 20
    epsilons: tuple[int, ...] = (4, 5, 6, 7, 8)
    as_printed: bool = False
    notes: tuple[str, ...] = ()

    def pretrained(self, network: str) -> Node:
        """The network trained on the 50,000 images: one run, which all folds and conditions start from."""
        return Training(self.networks[network], 0)

    def every_pretrained(self) -> tuple[Node, ...]:
        """All networks: an ensemble, and the teachers of distillation."""
        return tuple(map(self.pretrained, self.networks))

    def fine_tuned(self, network: str, condition: str) -> dict[str, Node]:
        """The best candidate of a condition, by fold."""
        teachers = self.every_pretrained() if condition == DISTILLED else ()
        recipes = self._searched(self._tuned(network, self.epochs), self.rates)
        candidates = [candidate for recipe in recipes for candidate in self._under(condition, recipe)]
        return {
            str(fold): self._best(
                candidates,
                split,
                self.printed_seeds if self.as_printed else (fold,),
                init=self.pretrained(network),
                teachers=teachers,
            )
            for fold, split in self._tuning_splits.items()
        }

    def from_scratch(self, network: str, labels: str) -> dict[str, Node]:
        """The best network that was trained on nothing but the training folds, by fold."""
        recipe = replace(self._tuned(network, self.scratch_epochs), target=FROM_SCRATCH[labels])
        candidates = self._searched(recipe, self.scratch_rates)
        return {str(fold): self._best(candidates, Folds(FOLDS, fold), (fold,)) for fold in self.folds}

    def not_tuned(self, of: Iterable[str]) -> dict[str, Node]:
        """The pretrained networks `of` these names, as an ensemble where there are several, on each held-out fold."""
        runs = tuple(map(self.pretrained, of))
        return {
            str(fold): Measurement(SplitScores(self.votes, split, seed=fold), runs)
            for fold, split in self._tuning_splits.items()
        }

    def row(self, network: str, condition: str) -> dict[str, Node]:
        """A row of Table 1, judged on the held-out fold, by fold."""
        return self.not_tuned((network,)) if condition == TRAINED else self.fine_tuned(network, condition)

    def shifted(self, shift: str, runs: Mapping[str, Node]) -> dict[str, Node]:
        """Runs at their best epoch, judged on a test set from elsewhere.

        As printed, CIFAR-10 is a sixth the held-out fold and five sixths the 50,000 images.
        """
        measure = ShiftedScores(self.shifts[shift].data, "best", self.shifts[shift].items)
        judged: dict[str, Node] = {name: Measurement(measure, (run,)) for name, run in runs.items()}
        if not (self.as_printed and shift == TRAIN_PART):
            return judged
        return {name: Measurement(WeightedMean((1 / 6, 5 / 6)), (run, judged[name])) for name, run in runs.items()}

    def pooled(self, runs_of: Callable[[str], Mapping[str, Node]]) -> dict[str, Node]:
        """What `runs_of` gives for every network, named by network and fold."""
        return {f"{network}, {fold}": run for network in self.networks for fold, run in runs_of(network).items()}

    @property
    def _tuning_splits(self) -> dict[int, SplitRule]:
        """What is held out in fine-tuning, by fold: or the one holdout of the printed table."""
        if self.as_printed:
            return {0: Holdout(1 / FOLDS, fixed=0)}
        return {fold: Folds(FOLDS, fold) for fold in self.folds}

    def _tuned(self, network: str, epochs: int) -> Recipe:
        """The network's own settings, for training on the images with votes."""
        own = self.networks[network]
        recipe = replace(
            own,
            data=self.votes.dataset,
            options=self.votes.options,
            epochs=epochs,
            keep="best",  # one of a search: it may diverge, and only its best epoch is looked at
            best=Best("evaluation" if self.as_printed else "validation"),
            validation=None if self.as_printed else Holdout(1 / FOLDS),
        )
        return replace(recipe, schedule=Cosine()) if isinstance(own.schedule, Cosine) else recipe

    def _searched(self, recipe: Recipe, rates: Iterable[float]) -> tuple[Recipe, ...]:
        """One candidate per learning rate and optimiser. Adam keeps its rate, as in the paper's repository."""
        own = recipe.optimiser
        assert isinstance(own, Sgd)
        candidates = [replace(recipe, optimiser=replace(own, lr=rate)) for rate in rates]
        if self.adam and not self.as_printed:
            decay = own.weight_decay
            candidates += [
                replace(recipe, optimiser=Adam(lr=rate, weight_decay=decay), schedule=Constant()) for rate in rates
            ]
        return tuple(candidates)

    def _under(self, condition: str, recipe: Recipe) -> tuple[Recipe, ...]:
        """The candidates of a condition; they differ from those of hard labels in what its name says."""
        if condition == MIXUP:
            return tuple(replace(recipe, target=Gold(), mixing=Mixup(alpha)) for alpha in self.alphas)
        changed = {
            HARD: replace(recipe, target=Gold()),
            CATEGORY: replace(recipe, target=ClassMean()),
            SOFT: replace(recipe, target=Empirical()),
            SAMPLED: replace(recipe, target=Empirical(), delivery=Sampled()),
            DISTILLED: recipe,  # the plan puts the teachers in the place of the target
        }
        return (changed[condition],)

    def _best(
        self,
        candidates: Iterable[Recipe],
        split: SplitRule,
        seeds: Seeds,
        init: Node | None = None,
        teachers: tuple[Node, ...] = (),
    ) -> Node:
        """The winner of a search: by the validation loss; as printed, by cross-entropy to people on the held-out part."""
        grid = tuple(
            Training(replace(candidate, split=split), seed, init, teachers) for candidate in candidates for seed in seeds
        )
        return Measurement(WinnerScores("soft_nll" if self.as_printed else "validation_loss"), grid)


LEFT_OPEN = (
    "Hard labels are CIFAR-10's own. Ten folds of the 10,000 images with votes, the same for every condition. One "
    "network of each kind is pretrained and shared by all folds and conditions.",
    "Chosen on a tenth of the training folds, by the condition's own loss: the learning rate, mixup's α, and the epoch. "
    "The held-out fold chooses nothing. The teacher of distillation is the mean of all pretrained networks.",
)
PRINTED = (
    "As printed: learning rate, seed and epoch are chosen by cross-entropy to people on the images that then give the "
    "numbers: in fine-tuning one holdout of 1,000, from scratch each of ten folds. So they are too good for every "
    "condition; the default protocol is free of that.",
    "SGD alone, as in the authors' logs; the paper's text says Adam.",
)
PAPER_NOTE = (
    "Paper scale: the eight networks at their published sizes with the settings of the repository that the paper adapts; "
    "150 epochs. SGD with each network's own schedule and Adam at a constant rate are both searched: the text says Adam, "
    "the logs show SGD."
)
LAPTOP_NOTE = (
    "Laptop scale: small members of three of the eight families and the network speedy, pretrained for 30 epochs, "
    "fine-tuned for 5, trained from scratch for 20; SGD with a cosine schedule. Three of the ten folds. In fine-tuning, "
    "learning rates 0.1 and 0.01 and mixup's α 0.2 and 1 are searched; from scratch the rate is the one that the paper "
    "found best, 0.1. In bfloat16 where the processor has instructions for it. ResNet and Wide ResNet have 78,000 "
    "parameters, too few to fit the images they see: the paper's networks are too sure, these may not be. Lengths of "
    "training, weight decay and two claims about the last epoch were set after four shorter trials of VGG on the first "
    "fold, hard and soft; all other claims before them."
)
STAND_INS = (
    "CIFAR-10.1 is not judged at this scale. CINIC-10 and ImageNet-Far may be samples: the data notes below say what was "
    "there. ImageNet-Far is built from our own list of classes, since the paper's is not published."
)

PAPER_SHIFTS = {
    TRAIN_PART: Shift(DataRef("cifar10")),
    V6: Shift(DataRef("cifar10.1_v6")),
    V4: Shift(DataRef("cifar10.1_v4")),
    CINIC: Shift(DataRef("cinic10_imagenet")),
    FAR: Shift(DataRef("imagenet_far")),
}


def at(scale: str, folds: Seeds | None = None, *, as_printed: bool = False) -> Study:
    """The settings of a scale; `folds` replace its own."""
    if folds is not None and not set(folds) <= set(range(FOLDS)):
        raise InputError(
            f"{', '.join(map(str, folds))} are not all folds", where="001", hint=f"Folds are 0 to {FOLDS - 1}", state=""
        )
    open_points = PRINTED if as_printed else LEFT_OPEN
    if scale == "paper":
        study = Study(
            name=scale,
            networks=networks.PAPER,
            folds=tuple(range(FOLDS)),
            rates=(0.1, 0.01, 0.001),
            scratch_rates=(0.2, 0.1, 0.01, 0.001),
            alphas=tuple(step / 10 for step in range(1, 11)),
            adam=True,
            epochs=150,
            scratch_epochs=150,
            shifts=PAPER_SHIFTS,
            notes=(PAPER_NOTE, *open_points),
        )
    elif scale == "laptop":
        study = Study(
            name=scale,
            networks=networks.LAPTOP,
            folds=(0, 1, 2),
            rates=(0.1, 0.01),
            scratch_rates=(0.1,),
            alphas=(0.2, 1.0),
            adam=False,
            epochs=5,
            scratch_epochs=20,
            shifts={
                TRAIN_PART: Shift(DataRef("cifar10"), items=10_000),
                CINIC: Shift(DataRef("cinic10_imagenet")),
                FAR: Shift(DataRef("imagenet_far")),
            },
            pgd_items=200,
            pgd_steps=10,
            epsilons=(4, 8),
            notes=(LAPTOP_NOTE, STAND_INS, *open_points),
        )
    else:
        study = Study(
            name=scale,
            networks=networks.SMOKE,
            folds=(0, 1),
            rates=(0.05,),
            scratch_rates=(0.05,),
            alphas=(0.2, 1.0),
            adam=False,
            epochs=1,
            scratch_epochs=1,
            shifts={
                TRAIN_PART: Shift(DataRef("cifar10", (("items", 200),))),
                CINIC: Shift(DataRef("cinic10_imagenet"), items=100),
                FAR: Shift(DataRef("imagenet_far"), items=100),
            },
            votes=DataRef("cifar10h", (("items", 200),)),
            printed_seeds=(0, 1),
            attacked=10,
            pgd_items=5,
            pgd_steps=2,
            epsilons=(4, 8),
            notes=open_points,
        )
    return replace(study, as_printed=as_printed, folds=study.folds if folds is None else folds)
