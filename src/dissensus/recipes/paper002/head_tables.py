"""002, tables 2 to 4, and the table beyond it: votes that come one at a time."""

from __future__ import annotations

from dataclasses import replace

from dissensus.engine.measures import MeanScore, Untied
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment, Node
from dissensus.recipes.paper002.grid import HEADS, METHODS, SETS, TIES, Runs, Seeds, tuned
from dissensus.recipes.printed import printed

TESTED = {
    "p_t_accuracy": "accuracy, t test",
    "p_t_kl": "KL, t test",
    "p_wilcoxon_accuracy": "accuracy, Wilcoxon",
    "p_wilcoxon_kl": "KL, Wilcoxon",
    "difference_kl": "Δ KL",
    "low_kl_over_items": "low",
    "high_kl_over_items": "high",
}


def table2(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The chosen settings."""
    runs, title = Runs.at(scale, seeds), "Chosen settings"
    columns = {"lr": "optimiser.lr", "batch": "batch", "epochs": "epochs", "weight_decay": "optimiser.weight_decay"}
    beside = [replace(one, panel=title, row=f"{one.panel}, {one.row}") for one in printed("002", "table2")]
    schedule = {0: "constant", 1: "plateau"}
    return Experiment(
        name="002/table2",
        title="Which settings does each kind of label ask for?",
        question="Of the settings in the grid, which has the lowest validation loss, for soft and for hard labels?",
        panels=(),
        seeds=runs.seeds,
        scale=scale,
        notes=HEADS,
        printed=tuple(
            replace(one, column="name", words=schedule[int(one.mean)]) if one.column == "plateau" else one
            for one in beside
        ),
        exhibits=(
            Exhibit(
                title,
                "table",
                {f"{name}, {method}": {"": runs.of(name, method)[:1]} for name in SETS for method in ("Soft", "Hard")},
                tuple(f"facts.chosen.{path}" for path in (*columns.values(), "schedule.name")),
                ("learning rate", "batch", "epochs", "weight decay", "schedule"),
                note=f"The best of {len(tuned('ChaosNLI', 'Soft', runs.size).grid)} by validation loss on seed 0.",
            ),
        ),
    )


def table3(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Accuracy and KL, soft against hard."""
    runs, tests, clear = Runs.at(scale, seeds), "Tests of Soft against Hard", "Where one class has the most votes"
    beside = [
        replace(one, panel=tests, row=one.panel) if one.column.startswith("p_t") and one.panel in SETS else one
        for one in printed("002", "table3")
    ]
    return Experiment(
        name="002/table3",
        title="Do soft labels bring a model closer to people, and at what price?",
        question="With everything else chosen for each alone, is a head that was trained on all votes closer to them "
        "than one that was trained on the majority, and is it as accurate?",
        panels=runs.panels("Hard", "Hard", "Soft"),
        seeds=runs.seeds,
        scale=scale,
        primary="kl",
        columns=("kl", "accuracy", "entropy_pearson"),
        notes=(*HEADS, TIES),
        printed=tuple(beside),
        exhibits=(
            Exhibit(
                tests,
                "table",
                {name: {"": (runs.soft_against_hard(name),)} for name in SETS},
                tuple(TESTED),
                tuple(TESTED.values()),
                note="Two-sided p of paired tests over seeds, as in 002, and the exact signed-rank test. All seeds are "
                "judged on the same items; low and high are the 95% interval of Δ KL over other items that might have "
                "been drawn (bootstrap).",
            ),
            Exhibit(
                clear,
                "table",
                {
                    method: {name: tuple(Analysis(Untied(), run) for run in runs.of(name, method)) for name in SETS}
                    for method in ("Hard", "Soft")
                },
                ("accuracy_untied",),
                ("accuracy",),
                baseline="Hard",
                note="Accuracy on items without a tie, so that no tie-break decides what is right; p of the exact "
                "Wilcoxon test.",
            ),
        ),
        claims=(*_closer(runs), *_as_accurate(runs)),
    )


def table4(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Entropy correlation and relative improvements."""
    runs, title = Runs.at(scale, seeds), "Relative improvement of Soft over Hard"
    gain = "relative_improvement_"
    beside = [
        replace(one, panel=title, row=one.panel) if one.column.startswith(gain) else one
        for one in printed("002", "table4")
    ]
    compared = {name: runs.soft_against_hard(name) for name in SETS}
    improvements: dict[str, Node] = {**compared, "Average": Analysis(MeanScore(), tuple(compared.values()))}
    return Experiment(
        name="002/table4",
        title="Does the model doubt where people differ?",
        question="Is the entropy of the model's answer higher where people's votes are spread?",
        panels=runs.panels("Hard", "Hard", "Soft"),
        seeds=runs.seeds,
        scale=scale,
        primary="entropy_pearson",
        columns=("entropy_pearson", "kl"),
        notes=(
            *HEADS,
            "Our average is the mean of the rows. The 32% that 002 prints as its average improvement of KL is its "
            "CIFAR-10H-Hard row alone: its rows give 13%, 32% and 16%, which is 20% on average.",
        ),
        printed=tuple(beside),
        exhibits=(
            Exhibit(
                title,
                "table",
                {name: {"": (node,)} for name, node in improvements.items()},
                (f"{gain}kl", f"{gain}entropy_pearson"),
                ("KL", "entropy correlation"),
                note="As a share of Hard's mean over seeds: 0.2 is 20% better. Where Hard's correlation is near 0, a "
                "share of it says little: see the tables above.",
            ),
        ),
        claims=tuple(
            Claim(
                f"{name}: the entropy of a soft-label model follows that of the votes more closely.",
                "lower",
                runs.each(name, "Hard", "Soft"),
                ("best.raw.entropy_pearson",),
                source="002, Table 4",
            )
            for name in SETS
        ),
    )


def deliveries(scale: str, seeds: Seeds | None = None) -> Experiment:
    """All votes at once, one at a time, or the majority."""
    runs = Runs.at(scale, seeds)
    return Experiment(
        name="002/deliveries",
        title="Must the votes be in the loss, or may they come one at a time?",
        question="A single vote an item and epoch, drawn (SLS) or in turn (multipass), has the same expected gradient as "
        "all votes at once. 003 compares them on images; here on texts, too.",
        panels=runs.panels("Soft", *METHODS),
        seeds=runs.seeds,
        scale=scale,
        primary="kl",
        columns=("kl", "accuracy", "entropy_pearson", "ece_mass_15"),
        notes=(*HEADS, TIES, "SLS and multipass are not in 002; each has a grid of its own."),
        printed=tuple(one for one in printed("002", "table3") if not one.column.startswith("p_t")),
        claims=tuple(
            Claim(
                f"{name}: {method} cannot be told from soft labels in KL.",
                "alike",
                runs.each(name, "Soft", method),
                ("best.raw.kl",),
                source="asked in 003",
            )
            for name in SETS
            for method in ("SLS", "Multipass")
        ),
    )


def _closer(runs: Runs) -> list[Claim]:
    return [
        Claim(
            f"{name}: soft labels give a lower KL to the votes than hard labels (p < 0.001 in 002).",
            "lower",
            runs.each(name, "Soft", "Hard"),
            ("best.raw.kl",),
            source="002, Table 3",
        )
        for name in SETS
    ]


def _as_accurate(runs: Runs) -> list[Claim]:
    return [
        Claim(
            f"{name}: soft labels are not less accurate than hard labels.",
            "not_higher",
            runs.each(name, "Hard", "Soft"),
            ("best.raw.accuracy",),
            source="002, Table 3",
        )
        for name in SETS
    ]
