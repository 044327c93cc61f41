"""Singh et al. 2025 (002), Tables 2 to 4, and a table that is not in the paper: votes delivered one at a time."""

from __future__ import annotations

from dataclasses import replace

from dissensus.engine.measures import MeanScore, Untied
from dissensus.experiments.description import Claim, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Measurement, Node, measured
from dissensus.experiments.values import Fact, Measured, Score, fact
from dissensus.recipes.paper002.grid import CITATION, METHODS, SETS, TIES, Encoders, Runs, Seeds
from dissensus.recipes.printed import CITATIONS, attach, printed_difference, printed_numbers

KL = (Score("kl", "best"),)
MARGIN = 0.024
"""Half of the smallest gain in KL that the paper claims for soft labels: ChaosNLI, 0.367 − 0.319."""
TESTS = {
    "accuracy, t test": Measured("p_t_accuracy"),
    "KL, t test": Measured("p_t_kl"),
    "accuracy, Wilcoxon": Measured("p_wilcoxon_accuracy"),
    "KL, Wilcoxon": Measured("p_wilcoxon_kl"),
    "Δ KL": Measured("difference_kl"),
    "low": Measured("low_kl_over_items"),
    "high": Measured("high_kl_over_items"),
}
CHOSEN: dict[str, Fact] = {
    "learning rate": fact("chosen", "optimiser", "lr"),
    "batch": fact("chosen", "batch"),
    "epochs": fact("chosen", "epochs"),
    "weight decay": fact("chosen", "optimiser", "weight_decay"),
    "schedule": fact("chosen", "schedule", "name"),
}


def table2(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """The chosen settings."""
    runs = Runs.at(scale, seeds, encoders)
    first = str(runs.seeds[0])
    table = ValueTable(
        key="chosen",
        title="Chosen settings",
        cells={
            f"{name}, {method}": {"": {first: runs.of(name, method)[first]}}
            for name in SETS
            for method in ("Soft", "Hard")
        },
        columns=CHOSEN,
        note=f"The best of {len(runs.tuned('ChaosNLI', 'Soft').grid)} by validation loss on seed 0. A plateau that "
        "never acted trains exactly as a constant rate does: then the schedules tie, and the first named, constant, is "
        "shown. So the column says nothing about schedules.",
    )
    numbers = [_schedule_named(number) for number in printed_numbers("002", "table2")]
    table, apart = attach(table, [replace(n, part="", row=f"{n.part}, {n.row}") for n in numbers])
    return Experiment(
        key="002/table2",
        title="Which settings suit each kind of label?",
        question="Of the settings in the grid, which has the lowest validation loss, for soft and for hard labels?",
        scale=scale,
        notes=runs.notes,
        exhibits=(table,),
        apart=apart,
    )


def _schedule_named(number: PaperNumber) -> PaperNumber:
    """The paper's schedule by name; it is stored as 0 or 1."""
    if number.column != "plateau":
        return number
    return replace(number, column="name", words={0: "constant", 1: "plateau"}[int(number.mean)])


def table3(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """Accuracy and KL of soft and hard labels."""
    runs = Runs.at(scale, seeds, encoders)
    tables, rest = runs.score_tables(
        "Hard", ("Hard", "Soft"), "kl", ("kl", "accuracy", "entropy_pearson"), printed_numbers("002", "table3")
    )
    tests = ValueTable(
        key="tests",
        title="Tests of Soft against Hard",
        cells={name: {"": {"": runs.soft_against_hard(name)}} for name in SETS},
        columns=TESTS,
        note="Two-sided p of the paired t test over seeds, as in the paper, and of the exact signed-rank test. All seeds "
        "are evaluated on the same items; low and high are the ends of a 95% bootstrap interval of Δ KL over items.",
    )
    moved = [replace(n, part="", row=n.part) if n.column.startswith("p_t") and n.part in SETS else n for n in rest]
    tests, apart = attach(tests, moved)
    clear = ValueTable(
        key="untied",
        title="Items without a tie",
        cells={method: {name: measured(Untied(), runs.of(name, method)) for name in SETS} for method in ("Hard", "Soft")},
        columns={"accuracy": Measured("accuracy_untied")},
        baseline="Hard",
        note="Accuracy where one class has the most votes, so that no tie-break matters; p of the exact Wilcoxon test.",
    )
    return Experiment(
        key="002/table3",
        title="Do soft labels bring a model closer to people, and at what cost?",
        question="With settings chosen separately for each, is a head trained on all votes closer to the votes than one "
        "trained on the majority vote, and is it as accurate?",
        scale=scale,
        notes=(*runs.notes, TIES),
        exhibits=(*tables, tests, clear),
        apart=apart,
        claims=(
            *(
                Claim(
                    f"{name}: soft labels give a lower KL to the votes than hard labels (p < 0.001 in the paper).",
                    "lower",
                    runs.groups(name, "Soft", "Hard"),
                    KL,
                    source=f"{CITATION}, Table 3",
                    printed=_gain(name),
                    is_main=True,
                )
                for name in SETS
            ),
            *(
                Claim(
                    f"{name}: the KL of soft labels is lower by more than {-_gain(name):g}, the difference in the paper.",
                    "lower",
                    runs.groups(name, "Soft", "Hard"),
                    KL,
                    threshold=-_gain(name),
                    source=f"{CITATION}, Table 3",
                    printed=_gain(name),
                )
                for name in SETS
            ),
            Claim(
                "ChaosNLI: soft labels are more accurate than hard labels (p = 0.0009 in the paper).",
                "lower",
                runs.groups("ChaosNLI", "Hard", "Soft"),
                (Score("accuracy", "best"),),
                source=f"{CITATION}, Table 3",
                printed=printed_difference("002", "table3", "accuracy", "Hard", "Soft", "ChaosNLI"),
                is_main=True,
            ),
            *(
                Claim(
                    f"{name}: soft labels are not less accurate than hard labels.",
                    "not_higher",
                    runs.groups(name, "Hard", "Soft"),
                    (Score("accuracy", "best"),),
                    source=f"{CITATION}, Table 3",
                )
                for name in SETS
            ),
        ),
    )


def _gain(name: str) -> float:
    """Soft minus Hard in KL, as printed."""
    difference = printed_difference("002", "table3", "kl", "Soft", "Hard", name)
    assert difference is not None
    return difference


def table4(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """Entropy correlation and relative improvements."""
    runs, gain = Runs.at(scale, seeds, encoders), "relative_improvement_"
    tables, rest = runs.score_tables(
        "Hard", ("Hard", "Soft"), "entropy_pearson", ("entropy_pearson", "kl"), printed_numbers("002", "table4")
    )
    compared = {name: runs.soft_against_hard(name) for name in SETS}
    average = Measurement(MeanScore(), tuple(compared.values()))
    improvements = ValueTable(
        key="improvements",
        title="Relative improvement of Soft over Hard",
        cells={name: {"": {"": node}} for name, node in {**compared, "Average": average}.items()},
        columns={"KL": Measured(f"{gain}kl"), "entropy correlation": Measured(f"{gain}entropy_pearson")},
        note="As a share of Hard's mean over seeds: 0.2 is 20% better. Where Hard's correlation is near 0, this share "
        "means little: see the tables above.",
    )
    moved = [replace(n, part="", row=n.part or n.row) if n.column.startswith(gain) else n for n in rest]
    improvements, apart = attach(improvements, moved)
    return Experiment(
        key="002/table4",
        title="Is the model uncertain where people disagree?",
        question="Is the entropy of the model's prediction higher where the entropy of the votes is higher?",
        scale=scale,
        notes=(
            *runs.notes,
            "Our average is the mean of the rows. The 32% that the paper prints as its average improvement of KL is its "
            "CIFAR-10H-Hard row alone: its rows are 13%, 32% and 16%, 20% on average.",
        ),
        exhibits=(*tables, improvements),
        apart=apart,
        claims=tuple(
            Claim(
                f"{name}: the entropy of a soft-label model follows that of the votes more closely.",
                "lower",
                runs.groups(name, "Hard", "Soft"),
                (Score("entropy_pearson", "best"),),
                source=f"{CITATION}, Table 4",
                printed=printed_difference("002", "table4", "entropy_pearson", "Hard", "Soft", name),
                is_main=True,
            )
            for name in SETS
        ),
    )


def deliveries(scale: str, seeds: Seeds | None = None, encoders: Encoders | None = None) -> Experiment[Node]:
    """All votes at once, one vote at a time, or the majority vote."""
    runs = Runs.at(scale, seeds, encoders)
    numbers = tuple(n for n in printed_numbers("002", "table3") if not n.column.startswith("p_t"))
    tables, apart = runs.score_tables(
        "Soft", METHODS, "kl", ("kl", "accuracy", "entropy_pearson", "ece_mass_15"), numbers
    )
    return Experiment(
        key="002/deliveries",
        title="All votes in the loss, or one vote at a time?",
        question="One vote per item and epoch, drawn (SLS) or in turn (Multipass), has the same expected gradient as all "
        f"votes at once. {CITATIONS['003']} compare them on images; here they are compared on texts as well.",
        scale=scale,
        notes=(*runs.notes, TIES, "SLS and Multipass are not in the paper; each has a grid of its own."),
        exhibits=tables,
        apart=apart,
        claims=tuple(
            Claim(
                f"{name}: {method} and soft labels are alike in KL (margin {MARGIN:g}).",
                "alike",
                runs.groups(name, "Soft", method),
                KL,
                source=f"asked by {CITATIONS['003']}",
                margin=MARGIN,
                is_main=True,
            )
            for name in SETS
            for method in ("SLS", "Multipass")
        ),
    )
