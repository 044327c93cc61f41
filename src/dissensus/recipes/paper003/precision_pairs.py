"""Not in the paper: whether training in bfloat16 changes what a network learns from soft labels."""

from __future__ import annotations

from dataclasses import replace

from dissensus.experiments.description import Claim, Experiment, GapTable, ValueTable
from dissensus.experiments.plan import Node, seeded
from dissensus.experiments.values import Score, fact
from dissensus.recipes import speedy_settings
from dissensus.recipes.paper000 import blocks as resnet20
from dissensus.recipes.paper003.settings import AS_PRINTED, HEADINGS, MARGINS, MINIATURE, NOT_ASKED, PAPER, SMOKE, Seeds
from dissensus.training.recipe import Recipe

COLUMNS = {HEADINGS[name]: Score(name) for name in ("soft_nll", "accuracy", "ece_mass_15")}


def networks(scale: str) -> dict[str, Recipe]:
    """Soft labels on the networks that other recipes train in bfloat16 where the processor is made for it."""
    speedy = {"speedy, 36 epochs": replace(speedy_settings.LAPTOP, best=AS_PRINTED)}
    return {
        "smoke": {"speedy": SMOKE},
        "laptop": speedy,
        "miniature": {"ResNet-18 / 8, 200 epochs": MINIATURE, "ResNet-20, 40 epochs": resnet20.LAPTOP, **speedy},
        "paper": {"ResNet-18, 200 epochs": PAPER},
    }[scale]


def precision(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Pairs of runs that differ in nothing but their precision."""
    used = seeds or ((0, 1) if scale == "smoke" else (0, 1, 2))
    # At smoke scale by name: a processor without the instructions computes bfloat16 too, only slowly.
    pairs = {"float32": "float32", "bfloat16": "bfloat16" if scale == "smoke" else "auto"}
    cells = {
        network: {label: seeded(replace(recipe, precision=spec_value), used) for label, spec_value in pairs.items()}
        for network, recipe in networks(scale).items()
    }
    return Experiment(
        key="003/precision",
        title="Does bfloat16 change the result?",
        question="Training in bfloat16 is faster where the processor has instructions for it. Are its models as good?",
        scale=scale,
        notes=(
            "Not in the paper. Two runs of a pair have the same seed, labels, order, augmentation and initial weights; "
            "matrix products and convolutions are in float32 or in bfloat16, weights and sums in float32.",
            "The runs called bfloat16 have the precision `auto`: bfloat16 where the processor has instructions for it. "
            "The set-up below says what it was. docs/speed.md says how much faster it is.",
        ),
        exhibits=(
            GapTable(
                key="gap",
                title="bfloat16 minus float32",
                cells=cells,
                columns=COLUMNS,
                note="In pairs of equal seed, last epoch, with the 95% interval where there are two pairs or more.",
            ),
            ValueTable(
                key="scores",
                title="Scores in both precisions",
                cells=cells,
                columns={**COLUMNS, "training FLOPs": fact("training_flops")},
                note="The ± is the standard deviation over seeds: what one seed more or less changes.",
            ),
        ),
        claims=tuple(
            Claim(
                f"{network}: bfloat16 and float32 are alike in soft NLL (margin {MARGINS['soft_nll']:g}).",
                "alike",
                of_network,
                (Score("soft_nll"),),
                source=NOT_ASKED,
                margin=MARGINS["soft_nll"],
            )
            for network, of_network in cells.items()
        ),
    )
