"""Not in the paper: Table 3 of Singh et al. 2025 (002) with the items for evaluation redrawn for each seed."""

from __future__ import annotations

from dissensus.experiments.description import Claim, Experiment
from dissensus.experiments.plan import Node
from dissensus.experiments.values import Score
from dissensus.recipes.paper002.grid import CITATION, SETS, TIES, Encoders, Runs, Seeds
from dissensus.recipes.printed import printed_difference, printed_numbers


def redrawn(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """Accuracy and KL of soft and hard labels, on other items for each seed."""
    runs = Runs.at(scale, seeds, encoders, redrawn=True)
    numbers = tuple(n for n in printed_numbers("002", "table3") if not n.column.startswith("p_t"))
    tables, apart = runs.score_tables("Hard", ("Hard", "Soft"), "kl", ("kl", "accuracy", "entropy_pearson"), numbers)
    return Experiment(
        key="002/redrawn",
        title="Does the advantage of soft labels depend on the items that judge it?",
        question="The paper judges all seeds on one fifth of the items, so its intervals say nothing about other items. "
        "With a fifth of their own for each seed, are soft labels still closer to the votes, and as accurate?",
        scale=scale,
        notes=(*runs.notes, TIES),
        exhibits=tables,
        apart=apart,
        claims=(
            *(
                Claim(
                    f"{name}: soft labels give a lower KL to the votes than hard labels, on other items for each seed.",
                    "lower",
                    runs.groups(name, "Soft", "Hard"),
                    (Score("kl", "best"),),
                    source=f"{CITATION}, Table 3",
                    printed=printed_difference("002", "table3", "kl", "Soft", "Hard", name),
                )
                for name in SETS
            ),
            *(
                Claim(
                    f"{name}: soft labels are more accurate than hard labels, on other items for each seed.",
                    "lower",
                    runs.groups(name, "Hard", "Soft"),
                    (Score("accuracy", "best"),),
                    source=f"{CITATION}, Table 3",
                    printed=printed_difference("002", "table3", "accuracy", "Hard", "Soft", name),
                )
                for name in SETS
            ),
        ),
    )
