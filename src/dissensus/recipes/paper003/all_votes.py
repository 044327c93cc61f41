"""All votes (003, §5.2 and A.2): Tables 2, 3, 5, Figures 3, 8, 10."""

from __future__ import annotations

import dataclasses

from dissensus.engine.measures import Convergence, Reliability
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment, Panel
from dissensus.recipes.paper003.settings import (
    CHECKPOINTS,
    COLUMNS,
    HIGH,
    NLL,
    Scale,
    Seeds,
    at,
    of_exhibits,
    printed,
)


def _comparison(
    number: int, title: str, question: str, labels: tuple[str, ...], scale: str, seeds: Seeds | None
) -> Experiment:
    run = at(scale, seeds)
    panel = Panel(
        title, {label: run.own[label] for label in labels}, "Soft", seeds={label: run.seeds(label) for label in labels}
    )
    return Experiment(
        name=f"003/table{number}",
        title=title,
        question=question,
        panels=(panel,),
        seeds=run.main,
        scale=scale,
        columns=COLUMNS,
        notes=run.notes,
        printed=printed(f"table{number}", {"": title}),
    )


def table2(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The main comparison, and what one temperature leaves of it."""
    run = at(scale, seeds)
    found = _comparison(
        2,
        "Main comparison",
        "All votes of CIFAR-10H: which way of giving them to the optimiser yields probabilities that match them?",
        ("Soft", "SLS", "Multipass", "Majority", "Label smoothing", "Mixup"),
        scale,
        seeds,
    )
    of = {method: run.runs(method, run.main) for method in ("Soft", "SLS", "Multipass", "Majority")}
    gap = {"Majority": of["Majority"], "Soft": of["Soft"]}
    claims = (
        Claim(
            "(a) Soft, SLS and Multipass cannot be told apart in soft NLL.",
            "alike",
            {method: of[method] for method in ("Soft", "SLS", "Multipass")},
            (NLL,),
            source="003, §5.2",
        ),
        *(
            Claim(
                f"(a) {method} is below Majority in soft NLL (the paper: by about 0.22).",
                "lower",
                {method: of[method], "Majority": of["Majority"]},
                (NLL,),
                source="003, §5.2",
            )
            for method in ("Soft", "SLS", "Multipass")
        ),
        *(
            Claim(
                f"(g) What remains of the gap between Majority and Soft after one temperature fitted to {what}.",
                "remaining",
                gap,
                (NLL, f"last.{calibration}.soft_nll"),
                source="a question that 003 does not ask",
            )
            for what, calibration in (("votes", "tempered_votes"), ("labels alone", "tempered_gold"))
        ),
        Claim(
            "Mixup is more accurate than Soft.",
            "lower",
            {method: run.runs(method) for method in ("Soft", "Mixup")},
            ("last.raw.accuracy",),
            source="003, §5.2",
        ),
    )
    return _with(found, claims=claims, **_tested(found, run, 2, "Soft"))


def table3(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The family of hard deliveries and its controls."""
    run = at(scale, seeds)
    found = _comparison(
        3,
        "Hard-delivery family",
        "Is it the drawing of labels that matters, or only that each epoch shows one label an item?",
        ("Soft", "SLS", "Deterministic", "Multipass", "Shuffled SLS"),
        scale,
        seeds,
    )
    shuffled = {"Shuffled SLS": run.runs("Shuffled SLS")}
    claims = (
        Claim(
            "(b) Labels shuffled between items leave nothing to learn: soft NLL is above 2.2, and ln 10 is 2.303.",
            "above",
            shuffled,
            (NLL,),
            threshold=2.2,
            source="003, §5.2",
        ),
        Claim(
            "(b) Labels shuffled between items leave nothing to learn: accuracy is below 0.15, and chance is 0.1.",
            "below",
            shuffled,
            ("last.raw.accuracy",),
            threshold=0.15,
            source="003, §5.2",
        ),
        Claim(
            "SLS, Multipass and Deterministic cannot be told apart in soft NLL.",
            "alike",
            {method: run.runs(method) for method in ("SLS", "Multipass", "Deterministic")},
            (NLL,),
            source="003, §5.2",
        ),
    )
    return _with(found, claims=claims, **_tested(found, run, 3, "SLS"))


def _tested(experiment: Experiment, run: Scale, number: int, baseline: str) -> dict[str, object]:
    """The exact tests that the text around a comparison speaks of, as exhibits, with the paper's p beside."""
    (panel,) = experiment.panels
    cells = {label: {"": run.runs(label)} for label in panel.rows}
    exhibits = tuple(
        Exhibit(
            f"Tested against {baseline}, {words}",
            "table",
            cells,
            tuple(f"{checkpoint}.raw.{column}" for column in COLUMNS),
            baseline=baseline,
        )
        for checkpoint, words in CHECKPOINTS.items()
    )
    columns = {"p_wilcoxon": "soft_nll:p"} | {f"p_wilcoxon_{column}": f"{column}:p" for column in COLUMNS}
    beside = printed(f"table{number}", {"": f"Tested against {baseline}, {CHECKPOINTS['best']}"}, columns)
    p_values = tuple(one for one in beside if ":" in one.column)
    others = tuple(one for one in experiment.printed if one.column not in columns)
    return {"exhibits": exhibits, "printed": (*others, *p_values)}


def table5(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Other proper scores of the same runs."""
    found = _comparison(
        5,
        "Other proper scores",
        "Do KL and Brier score tell the same story as soft NLL?",
        ("SLS", "Soft", "Majority", "Label smoothing", "Mixup"),
        scale,
        seeds,
    )
    return _with(found, columns=("soft_nll", "kl", "soft_brier"))


def _with(experiment: Experiment, **changes: object) -> Experiment:
    return dataclasses.replace(experiment, **changes)  # type: ignore[arg-type]


def figure3(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Reliability."""
    run = at(scale, seeds)
    labels = ("Soft", "SLS", "Multipass", "Majority", "Label smoothing", "Mixup")
    pooled = {method: {"": (Analysis(Reliability(), run.runs(method)),)} for method in labels}
    diagram = Exhibit(
        "Smooth reliability",
        "curves",
        pooled,
        ("facts.full.x", "facts.full.y", "facts.high.x", "facts.high.y"),
        names=("all evaluation items", "items of high disagreement"),
        axes=("confidence", "share right"),
        note="How often the top class is right, by confidence, smoothed with the kernel of smooth ECE; all seeds "
        "pooled, last epoch. Below the diagonal a method is too sure.",
    )
    each = {method: {"": tuple(Analysis(Reliability(), node) for node in run.runs(method))} for method in labels}
    values = Exhibit(
        "Smooth ECE",
        "table",
        each,
        ("smooth_ece_full", "smooth_ece_high"),
        names=("smooth ECE", "on items of high disagreement"),
        baseline="Soft",
        note=HIGH,
    )
    claims = tuple(
        Claim(
            f"{method} is better calibrated than Majority: its smooth ECE is the lower.",
            "lower",
            {one: each[one][""] for one in (method, "Majority")},
            ("smooth_ece_full",),
            source="003, §5.2 and Figure 3",
        )
        for method in ("Soft", "SLS")
    )
    return of_exhibits(
        "figure3",
        run,
        scale,
        "Are the methods as sure as they should be?",
        "How often is the top class right, given how sure the network was?",
        (diagram, values),
        run.main,
        claims,
        beside=printed("figure3", {"": "Smooth ECE"}, {"smooth_ece": "smooth_ece_full"}),
    )


def figure8(scale: str, seeds: Seeds | None = None) -> Experiment:
    """How fast."""
    run = at(scale, seeds)
    cells = {
        method: {"": tuple(Analysis(Convergence(), node) for node in run.runs(method))}
        for method in ("Soft", "SLS", "Multipass", "Majority")
    }
    dots = Exhibit(
        "Epochs to near the best",
        "dots",
        cells,
        ("epochs_to_near_best", "best_epoch"),
        names=("epochs to 95% of the best soft NLL", "best epoch"),
        baseline="Soft",
        note="The first epoch with soft NLL at most best / 0.95, and the epoch of the best. A run has "
        f"{run.base.epochs} epochs; the paper's have 200, and it prints by how many SLS is ahead. Where the learning "
        "rate falls to 0 and weights are averaged, the best epoch is seldom far from the last.",
    )
    curve = Exhibit(
        "Soft NLL over the epochs",
        "curves",
        {method: {"": run.runs(method)} for method in cells},
        ("", "curve.soft_nll"),
        names=("soft NLL on evaluation items",),
        axes=("epoch", "nats"),
    )
    claim = Claim(
        "SLS comes near its best in fewer epochs than Soft.",
        "lower",
        {method: cells[method][""] for method in ("SLS", "Soft")},
        ("epochs_to_near_best",),
        source="003, Figure 8",
    )
    return of_exhibits(
        "figure8",
        run,
        scale,
        "Who gets there first?",
        "After how many epochs is each delivery near its best?",
        (curve, dots),
        run.main,
        (claim,),
        beside=printed(
            "figure8",
            {"": "Epochs to near the best"},
            {"epochs_to_95_earlier": "epochs_to_near_best:below", "best_epoch_earlier": "best_epoch:below"},
        ),
    )


def figure10(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The parts of the Brier score."""
    run = at(scale, seeds)
    names = ("reliability", "resolution", "uncertainty", "within_bin_variance", "within_bin_covariance")
    exhibit = Exhibit(
        "Brier score of the top class, in five parts",
        "table",
        {method: {"": run.runs(method)} for method in run.own},
        tuple(f"last.raw.brier_{name}" for name in ("top", *names)),
        names=("score", *(name.replace("_", " ") for name in names)),
        note="Event: the top class is right; 15 bins of equal mass; last epoch. Score = reliability − resolution + "
        "uncertainty + variance − covariance within bins, exactly. The event is each method's own, so methods that "
        "differ in accuracy do not compare: one that is nearly always wrong, and never sure, scores well.",
    )
    claim = Claim(
        "SLS has a higher resolution than Soft.",
        "lower",
        {method: run.runs(method) for method in ("Soft", "SLS")},
        ("last.raw.brier_resolution",),
        source="003, Figure 10",
    )
    return of_exhibits(
        "figure10",
        run,
        scale,
        "What is the Brier score made of?",
        "Do the methods differ in calibration or in telling right from wrong?",
        (exhibit,),
        run.main,
        (claim,),
    )
