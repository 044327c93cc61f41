"""002, table 1 and figures 1 and 3: what people said, before anything is trained."""

from __future__ import annotations

from dataclasses import replace

from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import VoteStatistics
from dissensus.experiments.description import Analysis, Exhibit, Experiment
from dissensus.recipes.paper002.grid import SETS, Seeds
from dissensus.recipes.printed import printed


def table1(scale: str, seeds: Seeds | None = None) -> Experiment:  # noqa: ARG001 - nothing is trained
    """Sizes and disagreement of the three data sets."""
    title = "Data sets"
    beside = []
    for one in printed("002", "table1"):
        beside.append(replace(one, panel=title, sd=None))
        if one.sd is not None:
            beside.append(replace(one, panel=title, column=f"{one.column}_sd", mean=one.sd, sd=None))
    names = ("classes", "items", "votes an item", "mean normalised entropy", "its sd over items", "unanimous", "tied")
    columns = ("classes", "items", "votes_an_item", "normalised_entropy", "normalised_entropy_sd", "unanimous", "tied")
    return Experiment(
        name="002/table1",
        title="How far do people disagree?",
        question="Three data sets with many votes an item: how many, and how far from each other?",
        panels=(),
        seeds=(),
        scale=scale,
        notes=("002 says 3,700 texts of POPQUORN; the published ratings have 3,718, and all of them are used here.",),
        printed=tuple(beside),
        exhibits=(
            Exhibit(
                title,
                "table",
                {name: {"votes": (_statistics(name),)} for name in SETS},
                columns,
                names,
                note="Entropies are over the logarithm of the number of classes. Unanimous and tied (no single winner) "
                "are shares of the items.",
            ),
        ),
    )


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment:  # noqa: ARG001
    """A near-consensus and a disputed item."""
    return Experiment(
        name="002/figure1",
        title="From near consensus to dispute",
        question="Does disagreement differ from item to item?",
        panels=(),
        seeds=(),
        scale=scale,
        exhibits=(
            Exhibit(
                "Two items of each data set",
                "bars",
                {name: {"votes": (_statistics(name),)} for name in SETS},
                ("facts.examples",),
                note="The item with the lowest vote entropy above 0, and the one with the highest; ties by row. Bars are "
                "shares of the votes.",
            ),
        ),
    )


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment:  # noqa: ARG001
    """Entropy distributions."""
    return Experiment(
        name="002/figure3",
        title="How is disagreement spread over the items?",
        question="What share of the items has which vote entropy?",
        panels=(),
        seeds=(),
        scale=scale,
        exhibits=(
            Exhibit(
                "Entropy of the votes",
                "curves",
                {name: {"votes": (_statistics(name),)} for name in SETS},
                ("facts.entropies.x", "facts.entropies.y"),
                ("share of the items",),
                ("normalised entropy", ""),
                note="Twenty bins of equal width from 0 to 1; entropy over the logarithm of the number of classes. "
                "With some seven votes an item, few entropies are possible: hence the peaks of POPQUORN.",
            ),
        ),
    )


def _statistics(dataset: str) -> Analysis:
    return Analysis(VoteStatistics(DataRef(SETS[dataset][0])))
