"""Not in the paper: how much soft labels and hard deliveries are worth, against regularisation and width."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dissensus.experiments.description import Claim, Experiment, GapTable
from dissensus.experiments.plan import Node, seeded
from dissensus.experiments.values import Score
from dissensus.models import ResNet18
from dissensus.recipes import speedy_settings
from dissensus.recipes.paper003.settings import (
    AS_PRINTED,
    HEADINGS,
    MINIATURE,
    NOT_ASKED,
    PAPER,
    SMOKE,
    Seeds,
    at,
    methods,
)
from dissensus.training.augmentation import CropFlip, Cutout, InTurn
from dissensus.training.averaging import Ema
from dissensus.training.distortions import Distort
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Recipe, Resampled

VOTES = 5
CROPPED = CropFlip(padding=4, reflect=True)
COLUMNS = {
    f"{HEADINGS['soft_nll']}, last epoch": Score("soft_nll"),
    f"{HEADINGS['soft_nll']}, best epoch": Score("soft_nll", "best"),
    f"{HEADINGS['soft_nll']}, last epoch, tempered": Score("soft_nll", calibration="tempered_votes"),
}


@dataclass(frozen=True)
class Regime:
    """A way to train, whatever the labels, and the seeds of its runs with all votes and with few."""

    base: Recipe
    all_votes: Seeds
    few_votes: Seeds

    def runs(self, method: str, *, few: bool = False) -> dict[str, Node]:
        """A method of Gheibi and Ghazizadeh trained in this way, one run per seed."""
        recipe = methods(self.base)[method]
        return seeded(replace(recipe, votes=Resampled(VOTES)), self.few_votes) if few else seeded(recipe, self.all_votes)


def ladder(last: Recipe, *, width: str, seeds: Seeds) -> dict[str, Regime]:
    """From the plain training of a network to its most regularised, `last`, one step at a time."""
    plain = replace(last, augment=CROPPED, optimiser=Sgd(lr=0.2, nesterov=True), averaging=None, precision="auto")
    averaged = replace(plain, averaging=Ema(3.0))
    decayed = replace(averaged, optimiser=Sgd(lr=0.2, weight_decay=1e-3, nesterov=True))
    steps = {
        "crop and flip": plain,
        "+ averaged weights": averaged,
        "+ cutout, weight decay × 2": replace(decayed, augment=InTurn((CROPPED, Cutout(8)))),
    }
    return {f"{width}, {step}": Regime(recipe, seeds, seeds) for step, recipe in steps.items()}


def regimes(scale: str, seeds: Seeds | None) -> dict[str, Regime]:
    """What is compared at a scale, from the least regularised to the most."""
    if scale == "paper":
        five = seeds or tuple(range(5))
        images = {"crop and flip": PAPER.augment, "+ cutout": Cutout(8), "+ distortions": Distort()}
        recipes = {
            words: PAPER if words == "crop and flip" else replace(PAPER, augment=InTurn((augment, PAPER.augment)))
            for words, augment in images.items()
        }
        recipes["+ averaged weights"] = replace(PAPER, averaging=Ema(3.0))
        return {f"ResNet-18, {words}": Regime(recipe, five, five) for words, recipe in recipes.items()}
    if scale == "smoke":
        two = seeds or (0, 1)
        averaged = replace(SMOKE, averaging=Ema(1.0))
        return {"Plain": Regime(SMOKE, two, two), "Averaged": Regime(averaged, two, two)}
    last = replace(speedy_settings.LAPTOP, best=AS_PRINTED)
    speedy = ladder(last, width="speedy", seeds=seeds or (0, 1, 2))
    speedy["speedy, + distortions, weight decay × 2"] = Regime(last, seeds or tuple(range(5)), seeds or tuple(range(5)))
    if scale == "laptop":
        return speedy
    own = at(scale, seeds)
    wider = replace(MINIATURE, model=ResNet18(width=16))
    narrow = {
        "ResNet-18 / 4, crop and flip": Regime(wider, seeds or (0, 1), seeds or (0, 1)),
        "ResNet-18 / 8, crop and flip": Regime(own.base, own.main, own.few),
    }
    return {**narrow, **speedy}


def regularisation(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The gaps of Majority and SLS to Soft with all votes, and that of SLS to Soft with five, in each regime."""
    compared = regimes(scale, seeds)
    tables = (
        gaps(compared, "Majority", "majority", "Majority against Soft, all votes"),
        gaps(compared, "SLS", "sls", f"SLS against Soft, {VOTES} votes per item", few=True),
        gaps(compared, "SLS", "sls-all-votes", "SLS against Soft, all votes"),
    )
    claims = tuple(
        Claim(
            f"Soft has a lower soft NLL than Majority ({regime}; {words.partition(', ')[2]}).",
            "lower",
            {method: compared[regime].runs(method) for method in ("Soft", "Majority")},
            (value,),
            source=NOT_ASKED,
        )
        for regime in compared
        for words, value in COLUMNS.items()
    )
    return Experiment(
        key="003/regularisation",
        title="What is left of the differences under regularisation?",
        question="Do the gaps between deliveries come from overfitting, and does regularisation close them?",
        scale=scale,
        notes=(
            "Not in the paper. Each row is a way to train; in it, the two methods differ in nothing but their labels. "
            "Between rows of different networks more differs than regularisation: schedule, epochs and learning rate.",
            "Tempered: after one temperature fitted to held-out votes.",
            "The claims on this page were extended from two rows to all after runs of ResNet-18 / 8 with all votes had "
            "been looked at.",
        ),
        exhibits=tables,
        claims=claims,
    )


def gaps(compared: Mapping[str, Regime], method: str, key: str, title: str, *, few: bool = False) -> GapTable[Node]:
    """A method and Soft in every regime, and how far they are apart."""
    return GapTable(
        key=key,
        title=title,
        cells={
            words: {label: regime.runs(label, few=few) for label in ("Soft", method)}
            for words, regime in compared.items()
        },
        columns=COLUMNS,
        note=f"{method} minus Soft in pairs of equal seed, with the 95% interval where there are two pairs or more. "
        "Right of 0, Soft is better.",
    )
