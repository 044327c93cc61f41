"""002, figures 2, 4 and 5: what the heads say of single items, and how they were trained."""

from __future__ import annotations

from typing import Literal

from dissensus.engine.measures import Examples
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment
from dissensus.recipes.paper002.grid import HEADS, SETS, Runs, Seeds
from dissensus.recipes.printed import printed


def figure2(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The same answer, another doubt."""
    runs = Runs.at(scale, seeds)
    return Experiment(
        name="002/figure2",
        title="The same answer, another doubt",
        question="Where both models name the people's favourite, do they agree with people on how sure to be?",
        panels=(),
        seeds=runs.seeds,
        scale=scale,
        notes=(*HEADS, "002 does not say of which data set its example is, nor how it was chosen."),
        printed=printed("002", "figure2"),
        exhibits=(_shown_items(runs, "An ordinary item on which all agree", "agreeing", 1, AGREEING),),
    )


def figure5(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The most disputed items."""
    runs = Runs.at(scale, seeds)
    return Experiment(
        name="002/figure5",
        title="The most disputed items",
        question="Where people differ most, what do models say that were trained on all votes, or on the majority?",
        panels=(),
        seeds=runs.seeds,
        scale=scale,
        notes=HEADS,
        exhibits=(_shown_items(runs, "Most disputed", "disputed", 2, DISPUTED),),
    )


AGREEING = (
    "Among the evaluation items with a single winner that both models name: the one with the median of KL(Hard) − "
    "KL(Soft). The first seed's models, at their best validation epoch."
)
DISPUTED = (
    "The two evaluation items of each data set with the highest vote entropy; ties by row. The first seed's models, at "
    "their best validation epoch."
)


def _shown_items(runs: Runs, title: str, rule: Literal["disputed", "agreeing"], items: int, note: str) -> Exhibit:
    measure = Examples(("Soft", "Hard"), rule, items)
    cells = {name: {"": (Analysis(measure, (runs.of(name, "Soft")[0], runs.of(name, "Hard")[0])),)} for name in SETS}
    return Exhibit(title, "bars", cells, ("facts.examples",), note=note)


def figure4(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Curves, and who overfits first."""
    runs = Runs.at(scale, seeds)
    parts = {"train": "training", "validation": "validation", "evaluation": "evaluation"}
    measures = {"loss": "own loss", "accuracy": "accuracy", "kl": "KL to votes"}
    columns = {f"{m}_on_{p}": f"{words}, {on} items" for m, words in measures.items() for p, on in parts.items()}
    return Experiment(
        name="002/figure4",
        title="Can soft labels be trained on for longer?",
        question="When does the validation loss stop falling, with soft and with hard labels?",
        panels=(),
        seeds=runs.seeds,
        scale=scale,
        notes=HEADS,
        exhibits=tuple(
            Exhibit(
                name,
                "curves",
                {method: {"": runs.of(name, method)} for method in ("Soft", "Hard")},
                tuple(path for column in columns for path in ("", f"curve.{column}")),
                tuple(columns.values()),
                ("epoch", ""),
                note="Mean and sd over seeds, each method with its own settings, as far as every seed went. "
                "The own loss is the cross-entropy to what the method was trained on, so its level differs by method.",
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
                    runs.each(name, "Hard", "Soft"),
                    ("facts.best_epoch",),
                    source="002, §4.1",
                ),
                Claim(
                    f"{name}: with equal settings, validation is best at a later epoch with soft labels (one pair a "
                    f"setting of {max(runs.size.epochs)} epochs, all of one seed).",
                    "lower",
                    {method: runs.longest(name, method) for method in ("Hard", "Soft")},
                    ("facts.best_epoch",),
                    source="002, §4.1",
                ),
            )
        ),
    )
