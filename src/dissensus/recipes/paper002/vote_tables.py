"""Singh et al. 2025 (002), Table 1 and Figures 1 and 3: the votes themselves; nothing is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import VoteStatistics
from dissensus.experiments.description import BarChart, Cells, Curve, CurvePlot, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import Measured, fact
from dissensus.recipes.paper002.grid import SETS, Seeds
from dissensus.recipes.printed import attach, printed_numbers

COLUMNS = {
    "classes": Measured("classes"),
    "items": Measured("items"),
    "votes per item": Measured("votes_per_item"),
    "mean normalised entropy": Measured("normalised_entropy"),
    "its sd over items": Measured("normalised_entropy_sd"),
    "unanimous": Measured("unanimous"),
    "tied": Measured("tied"),
}


def table1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:  # noqa: ARG001 - nothing is trained
    """Sizes and disagreement of the three data sets."""
    table = ValueTable(
        key="data-sets",
        title="Data sets",
        cells=_statistics(),
        columns=COLUMNS,
        note="Entropies are divided by the logarithm of the number of classes. Unanimous and tied (no unique majority) "
        "are shares of the items.",
    )
    table, apart = attach(table, _sd_apart(printed_numbers("002", "table1")))
    return Experiment(
        key="002/table1",
        title="How much do people disagree?",
        question="Three data sets with several votes per item: how many votes are there, and how much do they disagree?",
        scale=scale,
        notes=(
            "The paper has 3,700 texts of POPQUORN; the published ratings have 3,718, and all of them are used here.",
            "The paper's mean entropy of POPQUORN is 0.62, and that of all texts 0.601. The Enron texts alone have "
            "0.615; divided by the largest entropy that an item's number of votes allows, all texts have 0.623. What the "
            "authors did cannot be told from the paper.",
        ),
        exhibits=(table,),
        apart=apart,
    )


def _sd_apart(numbers: Iterable[PaperNumber]) -> Iterator[PaperNumber]:
    """Split off the sd over items, which is a column of its own here."""
    for number in numbers:
        yield replace(number, sd=None)
        if number.sd is not None:
            yield replace(number, column=f"{number.column}_sd", mean=number.sd, sd=None)


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:  # noqa: ARG001
    """An item of near consensus and a disputed one."""
    return Experiment(
        key="002/figure1",
        title="From near consensus to dispute",
        question="Does disagreement differ from item to item?",
        scale=scale,
        exhibits=(
            BarChart(
                key="items",
                title="Two items of each data set",
                cells=_statistics(),
                items=fact("examples"),
                note="The item with the lowest vote entropy above 0, and the one with the highest; ties go to the "
                "earlier row. Bars are shares of the votes.",
            ),
        ),
    )


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:  # noqa: ARG001
    """Entropy distributions."""
    return Experiment(
        key="002/figure3",
        title="How is disagreement distributed over the items?",
        question="What share of the items has which vote entropy?",
        scale=scale,
        exhibits=(
            CurvePlot(
                key="entropies",
                title="Entropy of the votes",
                cells=_statistics(),
                curves={"share of the items": Curve(fact("entropies", "y"), fact("entropies", "x"))},
                axes=("normalised entropy", ""),
                note="Twenty bins of equal width from 0 to 1; entropies are divided by the log of the number of classes. "
                "POPQUORN has peaks because with about seven votes per item only few values are possible.",
            ),
        ),
    )


def _statistics() -> Cells[Node]:
    return {name: {"": {"votes": Measurement(VoteStatistics(DataRef(dataset)))}} for name, (dataset, _) in SETS.items()}
