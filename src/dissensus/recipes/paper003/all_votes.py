"""Gheibi and Ghazizadeh 2026 (003), §5.2 and A.2, all votes: Tables 2, 3, 5, Figures 3, 8, 10."""

from __future__ import annotations

from dissensus.engine.measures import Convergence, Reliability
from dissensus.experiments.description import Claim, Curve, CurvePlot, Experiment, PaperNumber, ScoreTable, ValueTable
from dissensus.experiments.plan import Measurement, Node, measured, score_table
from dissensus.experiments.values import EpochCurve, Measured, Score, fact
from dissensus.recipes.paper003.settings import (
    CHECKPOINTS,
    CITATION,
    COLUMNS,
    HEADINGS,
    HIGH,
    NLL,
    NOT_ASKED,
    Scale,
    Seeds,
    at,
)
from dissensus.recipes.printed import attach, printed_numbers

COMPARED = ("Soft", "SLS", "Multipass", "Majority", "Label smoothing", "Mixup")


def _scores(
    run: Scale, number: int, title: str, labels: tuple[str, ...], columns: tuple[str, ...] = COLUMNS
) -> tuple[ScoreTable[Node], tuple[PaperNumber, ...]]:
    table = score_table(
        {label: run.own[label] for label in labels},
        run.main,
        {label: run.seeds(label) for label in labels},
        key="scores",
        title=title,
        baseline="Soft",
        columns=columns,
    )
    return attach(table, printed_numbers("003", f"table{number}"))


def _tested(
    run: Scale, labels: tuple[str, ...], baseline: str, numbers: tuple[PaperNumber, ...]
) -> tuple[tuple[ValueTable[Node], ...], tuple[PaperNumber, ...]]:
    """The exact paired tests of a comparison, with the paper's p-values."""
    tables = {
        checkpoint: ValueTable(
            key=f"tested-{checkpoint}",
            title=f"Tested against {baseline}, {words}",
            cells={label: {"": run.runs(label)} for label in labels},
            columns={heading: Score(metric, checkpoint) for metric, heading in HEADINGS.items()},  # type: ignore[arg-type]
            baseline=baseline,
        )
        for checkpoint, words in CHECKPOINTS.items()
    }
    p_values = {"p_wilcoxon": "soft_nll"} | {f"p_wilcoxon_{column}": column for column in COLUMNS}
    tables["best"], apart = attach(
        tables["best"], numbers, columns={column: (value, "p") for column, value in p_values.items()}
    )
    return tuple(tables.values()), apart


def table2(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The main comparison, raw and after temperature scaling."""
    run = at(scale, seeds)
    scores, rest = _scores(run, 2, "Main comparison", COMPARED)
    tested, apart = _tested(run, COMPARED, "Soft", rest)
    runs = {method: run.runs(method, run.main) for method in ("Soft", "SLS", "Multipass", "Majority")}
    alike: Claim[Node] = Claim(
        "(a) Soft, SLS and Multipass are indistinguishable in soft NLL.",
        "alike",
        {method: runs[method] for method in ("Soft", "SLS", "Multipass")},
        (NLL,),
        source=f"{CITATION}, §5.2",
    )
    below = (
        Claim(
            f"(a) {method} has a lower soft NLL than Majority (in the paper by about 0.22).",
            "lower",
            {method: runs[method], "Majority": runs["Majority"]},
            (NLL,),
            source=f"{CITATION}, §5.2",
        )
        for method in ("Soft", "SLS", "Multipass")
    )
    remaining = (
        Claim(
            f"(g) What remains of the gap between Majority and Soft after temperature scaling, fitted to {fitted_to}.",
            "remaining",
            {"Majority": runs["Majority"], "Soft": runs["Soft"]},
            (NLL, Score("soft_nll", calibration=calibration)),  # type: ignore[arg-type]
            source=NOT_ASKED,
        )
        for fitted_to, calibration in (("votes", "tempered_votes"), ("gold labels alone", "tempered_gold"))
    )
    mixup: Claim[Node] = Claim(
        "Mixup is more accurate than Soft.",
        "lower",
        {method: run.runs(method) for method in ("Soft", "Mixup")},
        (Score("accuracy"),),
        source=f"{CITATION}, §5.2",
    )
    return Experiment(
        key="003/table2",
        title="Main comparison",
        question="With all votes of CIFAR-10H, which way of training on them gives probabilities that match them?",
        scale=scale,
        notes=run.notes,
        exhibits=(scores, *tested),
        claims=(alike, *below, *remaining, mixup),
        apart=apart,
    )


def table3(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Hard deliveries and their controls."""
    run = at(scale, seeds)
    labels = ("Soft", "SLS", "Deterministic", "Multipass", "Shuffled SLS")
    scores, rest = _scores(run, 3, "Hard-delivery family", labels)
    tested, apart = _tested(run, labels, "SLS", rest)
    shuffled = {"Shuffled SLS": run.runs("Shuffled SLS")}
    return Experiment(
        key="003/table3",
        title="Hard-delivery family",
        question="Does the random drawing of labels matter, or only that each epoch shows one label per item?",
        scale=scale,
        notes=run.notes,
        exhibits=(scores, *tested),
        apart=apart,
        claims=(
            Claim(
                "(b) With labels shuffled between items, nothing is learned: soft NLL is above 2.2 (chance: 2.303).",
                "above",
                shuffled,
                (NLL,),
                threshold=2.2,
                source=f"{CITATION}, §5.2",
            ),
            Claim(
                "(b) With labels shuffled between items, nothing is learned: accuracy is below 0.15 (chance: 0.1).",
                "below",
                shuffled,
                (Score("accuracy"),),
                threshold=0.15,
                source=f"{CITATION}, §5.2",
            ),
            Claim(
                "SLS, Multipass and Deterministic are indistinguishable in soft NLL.",
                "alike",
                {method: run.runs(method) for method in ("SLS", "Multipass", "Deterministic")},
                (NLL,),
                source=f"{CITATION}, §5.2",
            ),
        ),
    )


def table5(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Other proper scores of the same runs."""
    run = at(scale, seeds)
    labels = ("SLS", "Soft", "Majority", "Label smoothing", "Mixup")
    scores, apart = _scores(run, 5, "Other proper scores", labels, ("soft_nll", "kl", "soft_brier"))
    return Experiment(
        key="003/table5",
        title="Other proper scores",
        question="Do KL and the Brier score agree with soft NLL?",
        scale=scale,
        notes=run.notes,
        exhibits=(scores,),
        apart=apart,
    )


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Reliability curves and smooth ECE."""
    run = at(scale, seeds)
    diagram = CurvePlot(
        key="reliability",
        title="Smooth reliability",
        cells={
            method: {"": {"all seeds": Measurement(Reliability(), tuple(run.runs(method).values()))}}
            for method in COMPARED
        },
        curves={
            "all evaluation items": Curve(fact("full", "y"), fact("full", "x")),
            "items of high disagreement": Curve(fact("high", "y"), fact("high", "x")),
        },
        axes=("confidence", "accuracy"),
        note="Accuracy of the top class by confidence, smoothed with the kernel of smooth ECE; all seeds pooled, last "
        "epoch. Below the diagonal, a method is overconfident.",
    )
    each = {method: measured(Reliability(), run.runs(method)) for method in COMPARED}
    values = ValueTable(
        key="smooth-ece",
        title="Smooth ECE",
        cells={method: {"": runs} for method, runs in each.items()},
        columns={
            "smooth ECE": Measured("smooth_ece_full"),
            "on items of high disagreement": Measured("smooth_ece_high"),
        },
        baseline="Soft",
        note=HIGH,
    )
    values, apart = attach(values, printed_numbers("003", "figure3"), columns={"smooth_ece": "smooth_ece_full"})
    return Experiment(
        key="003/figure3",
        title="How well calibrated are the methods?",
        question="How often is the top class right at a given confidence?",
        scale=scale,
        notes=run.notes,
        exhibits=(diagram, values),
        apart=apart,
        claims=tuple(
            Claim(
                f"{method} is better calibrated than Majority: its smooth ECE is lower.",
                "lower",
                {name: each[name] for name in (method, "Majority")},
                (Measured("smooth_ece_full"),),
                source=f"{CITATION}, §5.2 and Figure 3",
            )
            for method in ("Soft", "SLS")
        ),
    )


def figure8(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Speed of convergence."""
    run = at(scale, seeds)
    labels = ("Soft", "SLS", "Multipass", "Majority")
    speed = {method: measured(Convergence(), run.runs(method)) for method in labels}
    dots = ValueTable(
        key="epochs",
        title="Epochs to near the best",
        cells={method: {"": runs} for method, runs in speed.items()},
        columns={
            "epochs to 95% of the best soft NLL": Measured("epochs_to_near_best"),
            "best epoch": Measured("best_epoch"),
        },
        picture="dots",
        baseline="Soft",
        note="The first epoch with soft NLL at most best / 0.95, and the best epoch. A run has "
        f"{run.base.epochs} epochs, the paper's have 200; the paper prints how many epochs earlier SLS gets there than "
        "Soft. Where the learning rate falls to 0 and weights are averaged, the best epoch is usually near the last.",
    )
    dots, apart = attach(
        dots,
        printed_numbers("003", "figure8"),
        columns={
            "epochs_to_95_earlier": ("epochs_to_near_best", "below"),
            "best_epoch_earlier": ("best_epoch", "below"),
        },
    )
    curve = CurvePlot(
        key="curves",
        title="Soft NLL over the epochs",
        cells={method: {"": run.runs(method)} for method in labels},
        curves={"soft NLL on evaluation items": Curve(EpochCurve("soft_nll"))},
        axes=("epoch", "nats"),
    )
    claim: Claim[Node] = Claim(
        "SLS is near its best after fewer epochs than Soft.",
        "lower",
        {method: speed[method] for method in ("SLS", "Soft")},
        (Measured("epochs_to_near_best"),),
        source=f"{CITATION}, Figure 8",
    )
    return Experiment(
        key="003/figure8",
        title="Which delivery converges first?",
        question="After how many epochs is each delivery near its best?",
        scale=scale,
        notes=run.notes,
        exhibits=(curve, dots),
        claims=(claim,),
        apart=apart,
    )


def figure10(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The parts of the Brier score."""
    run = at(scale, seeds)
    names = ("reliability", "resolution", "uncertainty", "within_bin_variance", "within_bin_covariance")
    table: ValueTable[Node] = ValueTable(
        key="brier",
        title="Brier score of the top class, in five parts",
        cells={method: {"": run.runs(method)} for method in run.own},
        columns={
            "score": Score("brier_top"),
            **{name.replace("_", " "): Score(f"brier_{name}") for name in names},
        },
        note="Event: the top class is right; 15 bins of equal mass; last epoch. Score = reliability − resolution + "
        "uncertainty + variance − covariance within bins, exactly. Each method has its own event, so methods that "
        "differ in accuracy cannot be compared: one that is nearly always wrong, and never confident, scores well.",
    )
    claim: Claim[Node] = Claim(
        "SLS has a higher resolution than Soft.",
        "lower",
        {method: run.runs(method) for method in ("Soft", "SLS")},
        (Score("brier_resolution"),),
        source=f"{CITATION}, Figure 10",
    )
    return Experiment(
        key="003/figure10",
        title="What is the Brier score made of?",
        question="Do the methods differ in calibration, or in how well confidence separates right from wrong?",
        scale=scale,
        notes=run.notes,
        exhibits=(table,),
        claims=(claim,),
    )
