"""Gheibi and Ghazizadeh 2026 (003), §5.2 and A.2, all votes: Tables 2, 3, 5, Figures 3, 8, 10."""

from __future__ import annotations

from collections.abc import Iterator

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
    MARGINS,
    NLL,
    NOT_ASKED,
    Scale,
    Seeds,
    at,
    exhibit_key,
)
from dissensus.recipes.printed import attach, printed_difference, printed_numbers

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
            columns={heading: Score(metric, checkpoint) for metric, heading in HEADINGS.items()},
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
    runs = {method: run.runs(method, run.main) for method in ("Soft", "Majority")}
    claims = [*_parity(run, "SLS"), *_far_below_majority(run)]
    remaining = (
        Claim(
            f"(g) What remains of the gap between Majority and Soft after temperature scaling, fitted to {fitted_to}.",
            "remaining",
            {"Majority": runs["Majority"], "Soft": runs["Soft"]},
            (NLL, Score("soft_nll", calibration=calibration)),  # type: ignore[arg-type]
            source=NOT_ASKED,
            is_main=fitted_to == "votes",
        )
        for fitted_to, calibration in (("votes", "tempered_votes"), ("gold labels alone", "tempered_gold"))
    )
    return Experiment(
        key="003/table2",
        title="Main comparison",
        question="With all votes of CIFAR-10H, which way of training on them gives probabilities that match them?",
        scale=scale,
        notes=run.notes,
        exhibits=(scores, *tested),
        claims=(*claims, *remaining, *_mixup(run)),
        apart=apart,
    )


def _parity(run: Scale, method: str) -> Iterator[Claim[Node]]:
    """A hard delivery and Soft are alike in every column, as the paper says; soft NLL also at the best epoch."""
    runs = {label: run.runs(label) for label in ("Soft", method)}
    for metric, heading in HEADINGS.items():
        for checkpoint, words in CHECKPOINTS.items():
            if metric == "soft_nll" or checkpoint == "last":
                yield Claim(
                    f"(a) {method} and Soft are alike in {heading} ({words}; margin {MARGINS[metric]:g}).",
                    "alike",
                    runs,
                    (Score(metric, checkpoint),),
                    source=f"{CITATION}, §5.2",
                    margin=MARGINS[metric],
                    printed=printed_difference("003", "table2", metric, method, "Soft"),
                    is_main=(metric, checkpoint) == ("soft_nll", "last"),
                )


def _far_below_majority(run: Scale) -> Iterator[Claim[Node]]:
    """Soft and the hard deliveries are better than Majority and Label smoothing by what measures posterior quality."""
    for method in ("Soft", "SLS", "Multipass"):
        for other in ("Majority", "Label smoothing"):
            for checkpoint, words in CHECKPOINTS.items():
                if other == "Majority" or (checkpoint == "last" and method != "Multipass"):
                    yield Claim(
                        f"(a) {method} has a lower soft NLL than {other} ({words}).",
                        "lower",
                        {label: run.runs(label) for label in (method, other)},
                        (Score("soft_nll", checkpoint),),
                        source=f"{CITATION}, §5.2",
                        printed=printed_difference("003", "table2", "soft_nll", method, other),
                        is_main=(method, other, checkpoint) == ("Soft", "Majority", "last"),
                    )
    for method in ("Soft", "SLS"):
        for other in ("Majority", "Label smoothing"):
            for metric, words, (low, high) in (
                ("ece_mass_15", "a lower ECE than", (method, other)),
                ("entropy_spearman", "an entropy that correlates more with that of the votes than", (other, method)),
            ):
                yield Claim(
                    f"(a) {method} has {words} {other}.",
                    "lower",
                    {label: run.runs(label) for label in (low, high)},
                    (Score(metric),),
                    source=f"{CITATION}, §5.2",
                    printed=printed_difference("003", "table2", metric, low, high),
                )


def _mixup(run: Scale) -> tuple[Claim[Node], ...]:
    runs = {method: run.runs(method) for method in ("Soft", "Mixup")}
    return tuple(
        Claim(
            text,
            "lower",
            runs,
            (Score(metric),),
            source=f"{CITATION}, §5.2",
            printed=printed_difference("003", "table2", metric, "Soft", "Mixup"),
        )
        for text, metric in (
            ("Mixup is more accurate than Soft.", "accuracy"),
            ("Mixup is less well calibrated than Soft: its ECE is higher.", "ece_mass_15"),
        )
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
            *_family(run),
        ),
    )


def _family(run: Scale) -> Iterator[Claim[Node]]:
    """The hard deliveries are alike, and like Soft."""
    for first, second in (
        ("SLS", "Multipass"),
        ("SLS", "Deterministic"),
        ("Soft", "Multipass"),
        ("Soft", "Deterministic"),
    ):
        for metric, heading in HEADINGS.items():
            yield Claim(
                f"{first} and {second} are alike in {heading} (margin {MARGINS[metric]:g}).",
                "alike",
                {method: run.runs(method) for method in (first, second)},
                (Score(metric),),
                source=f"{CITATION}, §5.2",
                margin=MARGINS[metric],
                printed=printed_difference("003", "table3", metric, second, first),
                is_main=(first, second, metric) == ("SLS", "Multipass", "soft_nll"),
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
        claims=(
            Claim(
                f"SLS and Soft are alike in the soft Brier score (margin {MARGINS['soft_brier']:g}).",
                "alike",
                {method: run.runs(method) for method in ("Soft", "SLS")},
                (Score("soft_brier"),),
                source=f"{CITATION}, A.2",
                margin=MARGINS["soft_brier"],
                printed=printed_difference("003", "table5", "soft_brier", "SLS", "Soft"),
            ),
            *(
                Claim(
                    f"{method} has a lower soft Brier score than {other}.",
                    "lower",
                    {label: run.runs(label) for label in (method, other)},
                    (Score("soft_brier"),),
                    source=f"{CITATION}, A.2",
                    printed=printed_difference("003", "table5", "soft_brier", method, other),
                )
                for method in ("Soft", "SLS")
                for other in ("Majority", "Label smoothing")
            ),
        ),
    )


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Reliability curves and smooth ECE."""
    run = at(scale, seeds)
    numbers = printed_numbers("003", "figure3")
    exhibits: list[CurvePlot[Node] | ValueTable[Node]] = []
    claims: list[Claim[Node]] = []
    apart: tuple[PaperNumber, ...] = ()
    for checkpoint, words in run.checkpoints.items():
        measure = Reliability(checkpoint)
        exhibits.append(
            CurvePlot(
                key=exhibit_key("reliability", checkpoint),
                title=f"Smooth reliability, {words}",
                cells={
                    method: {"": {"all seeds": Measurement(measure, tuple(run.runs(method).values()))}}
                    for method in COMPARED
                },
                curves={
                    "all evaluation items": Curve(fact("full", "y"), fact("full", "x")),
                    "items of high disagreement": Curve(fact("high", "y"), fact("high", "x")),
                },
                axes=("confidence", "accuracy"),
                note="Accuracy of the top class by confidence, smoothed with the kernel of smooth ECE; all seeds pooled. "
                "Below the diagonal, a method is overconfident.",
            )
        )
        each = {method: measured(measure, run.runs(method)) for method in COMPARED}
        values: ValueTable[Node] = ValueTable(
            key=exhibit_key("smooth-ece", checkpoint),
            title=f"Smooth ECE, {words}",
            cells={method: {"": runs} for method, runs in each.items()},
            columns={
                "smooth ECE": Measured("smooth_ece_full"),
                "on items of high disagreement": Measured("smooth_ece_high"),
            },
            baseline="Soft",
            note=HIGH,
        )
        if checkpoint == run.printed_at:
            values, apart = attach(values, numbers, columns={"smooth_ece": "smooth_ece_full"})
        exhibits.append(values)
        value, source = (Measured("smooth_ece_full"),), f"{CITATION}, §5.2 and Figure 3"
        claims += [
            Claim(
                f"{method} is better calibrated than Majority: its smooth ECE is lower ({words}).",
                "lower",
                {name: each[name] for name in (method, "Majority")},
                value,
                source=source,
                printed=printed_difference("003", "figure3", "smooth_ece", method, "Majority"),
            )
            for method in ("Soft", "SLS")
        ]
        margin = MARGINS["smooth_ece_full"]
        claims.append(
            Claim(
                f"SLS and Soft are alike in smooth ECE ({words}; margin {margin:g}).",
                "alike",
                {name: each[name] for name in ("Soft", "SLS")},
                value,
                source=source,
                margin=margin,
                printed=printed_difference("003", "figure3", "smooth_ece", "SLS", "Soft"),
            )
        )
    return Experiment(
        key="003/figure3",
        title="How well calibrated are the methods?",
        question="How often is the top class right at a given confidence?",
        scale=scale,
        notes=run.notes,
        exhibits=tuple(exhibits),
        apart=apart,
        claims=tuple(claims),
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
    earlier = {number.column: -number.mean for number in printed_numbers("003", "figure8")}
    claims = tuple(
        Claim(
            text,
            "lower",
            {method: speed[method] for method in ("SLS", "Soft")},
            (Measured(value),),
            source=f"{CITATION}, Figure 8",
            printed=earlier[column],
        )
        for text, value, column in (
            ("SLS is near its best after fewer epochs than Soft.", "epochs_to_near_best", "epochs_to_95_earlier"),
            ("SLS has its best epoch before Soft has.", "best_epoch", "best_epoch_earlier"),
        )
    )
    return Experiment(
        key="003/figure8",
        title="Which delivery converges first?",
        question="After how many epochs is each delivery near its best?",
        scale=scale,
        notes=run.notes,
        exhibits=(curve, dots),
        claims=claims,
        apart=apart,
    )


def figure10(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The parts of the Brier score."""
    run = at(scale, seeds)
    names = ("reliability", "resolution", "uncertainty", "within_bin_variance", "within_bin_covariance")
    tables = tuple(
        ValueTable(
            key=exhibit_key("brier", checkpoint),
            title=f"Brier score of the top class, in five parts, {words}",
            cells={method: {"": run.runs(method)} for method in run.own},
            columns={
                "score": Score("brier_top", checkpoint),
                **{name.replace("_", " "): Score(f"brier_{name}", checkpoint) for name in names},
            },
            note="Event: the top class is right; 15 bins of equal mass. Score = reliability − resolution + uncertainty + "
            "variance − covariance within bins, exactly. Each method has its own event, so methods that differ in "
            "accuracy cannot be compared: one that is nearly always wrong, and never confident, scores well.",
        )
        for checkpoint, words in CHECKPOINTS.items()
    )
    claims = tuple(
        Claim(
            f"SLS has a higher resolution than Soft ({words}).",
            "lower",
            {method: run.runs(method) for method in ("Soft", "SLS")},
            (Score("brier_resolution", checkpoint),),
            source=f"{CITATION}, Figure 10",
        )
        for checkpoint, words in CHECKPOINTS.items()
    )
    return Experiment(
        key="003/figure10",
        title="What is the Brier score made of?",
        question="Do the methods differ in calibration, or in how well confidence separates right from wrong?",
        scale=scale,
        notes=run.notes,
        exhibits=tables,
        claims=claims,
    )
