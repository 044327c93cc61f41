"""The votes themselves (001): how many there are, and in how few images most of the disagreement lies (§8)."""

from __future__ import annotations

from dissensus.engine.measures import EntropyConcentration, VoteStatistics
from dissensus.experiments.description import Curve, CurvePlot, Experiment, ValueTable
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import Measured, fact
from dissensus.recipes.paper001.study import Seeds, at
from dissensus.recipes.printed import attach, printed_numbers

SET = "CIFAR-10H"


def concentration(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The share of all vote entropy in the most disputed images."""
    votes = at(scale, seeds).votes
    held = {"": {"": Measurement(EntropyConcentration(votes))}}
    counts: ValueTable[Node] = ValueTable(
        key="votes",
        title="The votes",
        cells={SET: {"": {"": Measurement(VoteStatistics(votes))}}},
        columns={
            "images": Measured("items"),
            "votes per image": Measured("votes_per_item"),
            "unanimous": Measured("unanimous"),
            "tied": Measured("tied"),
        },
    )
    counts, rest = attach(counts, printed_numbers("001", "text"))
    shares: ValueTable[Node] = ValueTable(
        key="shares",
        title="Concentration of vote entropy",
        cells={SET: held},
        columns={
            "entropy in the most disputed 30%": Measured("entropy_held"),
            "images for half of it": Measured("items_for_half"),
            "images for nine tenths": Measured("items_for_nine_tenths"),
            "images with any": Measured("items_disputed"),
        },
        note="As shares of all vote entropy and of all images.",
    )
    curve: CurvePlot[Node] = CurvePlot(
        key="curve",
        title="Vote entropy in the most disputed images",
        cells={SET: held},
        curves={"": Curve(fact("curve", "y"), fact("curve", "x"))},
        axes=("share of images, the most disputed first", "share of all vote entropy"),
    )
    return Experiment(
        key="001/concentration",
        title="Where the disagreement lies",
        question="In how few images does most of the human uncertainty lie?",
        scale=scale,
        exhibits=(shares, curve, counts),
        apart=(*printed_numbers("001", "concentration"), *rest),
    )
