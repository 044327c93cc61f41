"""Singh et al. 2025 (002), Figures 2, 4 and 5: predictions for single items, and training curves."""

from __future__ import annotations

from typing import Literal

from dissensus.engine.measures import Examples
from dissensus.experiments.description import BarChart, Claim, Curve, CurvePlot, Experiment
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import BestEpoch, EpochCurve, fact
from dissensus.recipes.paper002.grid import CITATION, SETS, Encoders, Runs, Seeds
from dissensus.recipes.printed import printed_numbers

AGREEING = (
    "Among the evaluation items whose majority class both models predict: the one with the median of KL(Hard) − "
    "KL(Soft). The models are those of the first seed, at their best validation epoch."
)
DISPUTED = (
    "The two evaluation items of each data set with the highest vote entropy; ties go to the earlier row. The models are "
    "those of the first seed, at their best validation epoch."
)


def figure2(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """Two models with the same top class and different uncertainty."""
    runs = Runs.at(scale, seeds, encoders)
    return Experiment(
        key="002/figure2",
        title="Same top class, different uncertainty",
        question="Where both models predict the majority class, is their confidence that of the annotators?",
        scale=scale,
        notes=(*runs.notes, "The paper does not say which data set its example comes from, nor how it was chosen."),
        exhibits=(_items(runs, "A typical item on which both models are right", "agreeing", 1, AGREEING),),
        apart=printed_numbers("002", "figure2"),
    )


def figure5(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """The most disputed items."""
    runs = Runs.at(scale, seeds, encoders)
    return Experiment(
        key="002/figure5",
        title="The most disputed items",
        question="Where people disagree most, what do models trained on all votes or on the majority vote predict?",
        scale=scale,
        notes=runs.notes,
        exhibits=(_items(runs, "Most disputed", "disputed", 2, DISPUTED),),
    )


def _items(runs: Runs, title: str, rule: Literal["agreeing", "disputed"], items: int, note: str) -> BarChart[Node]:
    measure = Examples(names=("Soft", "Hard"), rule=rule, items=items)
    seed = str(runs.seeds[0])
    cells = {
        name: {"": {seed: Measurement(measure, (runs.of(name, "Soft")[seed], runs.of(name, "Hard")[seed]))}}
        for name in SETS
    }
    return BarChart(key=rule, title=title, cells=cells, items=fact("examples"), note=note)


def figure4(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """Training curves, and which labels overfit first."""
    runs = Runs.at(scale, seeds, encoders)
    parts = {"train": "training", "validation": "validation", "evaluation": "evaluation"}
    kinds = {"loss": "own loss", "accuracy": "accuracy", "kl": "KL to votes"}
    curves = {
        f"{words}, {items} items": Curve(EpochCurve(f"{kind}_on_{part}"))
        for kind, words in kinds.items()
        for part, items in parts.items()
    }
    best_epoch = (BestEpoch(),)
    return Experiment(
        key="002/figure4",
        title="Can models train longer on soft labels?",
        question="When does the validation loss stop falling, with soft and with hard labels?",
        scale=scale,
        notes=runs.notes,
        exhibits=tuple(
            CurvePlot(
                key=name.lower(),
                title=name,
                cells={method: {"": runs.of(name, method)} for method in ("Soft", "Hard")},
                curves=curves,
                axes=("epoch", ""),
                note="Mean and sd over seeds, each method with its own settings, as far as every seed was trained. "
                "The own loss is the cross-entropy to the method's own training target, so its level differs by method.",
            )
            for name in SETS
        ),
        claims=tuple(
            claim
            for name in SETS
            for claim in (
                Claim(
                    f"{name}: with the settings chosen for each, validation is best at a later epoch with soft labels.",
                    "lower",
                    runs.groups(name, "Hard", "Soft"),
                    best_epoch,
                    source=f"{CITATION}, §4.1",
                ),
                Claim(
                    f"{name}: with equal settings, validation is best at a later epoch with soft labels (one pair per "
                    f"setting of {max(runs.size.epochs)} epochs, all with one seed).",
                    "lower",
                    {method: runs.longest(name, method) for method in ("Hard", "Soft")},
                    best_epoch,
                    source=f"{CITATION}, §4.1",
                ),
            )
        ),
    )
