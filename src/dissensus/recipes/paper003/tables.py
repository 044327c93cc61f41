"""The tables of 003."""

from __future__ import annotations

import dataclasses

from dissensus import stats
from dissensus.analyses.geometry import hessian
from dissensus.analyses.ood import out_of_distribution
from dissensus.experiment import Analysis, Claim, Dataset, Exhibit, Experiment, Panel
from dissensus.ood import DETECTORS
from dissensus.recipes.paper003.settings import HIGH, SHRUNK, Scale, Seeds, at, nodes, printed

COLUMNS = ("soft_nll", "accuracy", "ece_mass_15", "entropy_spearman")
NLL = "last.raw.soft_nll"
CHECKPOINTS = {"last": "last epoch", "best": "best epoch, as printed"}
FAMILY = ("Soft", "SLS", "Multipass", "Deterministic")


def table1(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Few votes an item."""
    run = at(scale, seeds)
    titles = {votes: f"K = {votes}" for votes in run.votes}
    panels = tuple(
        Panel(
            titles[votes],
            {method: run.sparse(method, votes) for method in run.sweep},
            "Soft",
            f"Training sees {votes} votes an item, drawn from its full votes with replacement; judged by the full votes. "
            f"{SHRUNK}, is not in the paper: the few votes are shrunk towards the mean of their class.",
        )
        for votes in run.votes
    )
    cells = {
        method: {titles[votes]: nodes(run.sparse(method, votes), run.few) for votes in run.votes} for method in run.sweep
    }
    hard = {method: of for method, of in cells.items() if method != SHRUNK}
    tested = (len(hard) - 1) * len(run.votes)
    reach = stats.power(len(run.few), tested, alternative="less").sentence
    exhibits = [
        Exhibit(
            f"{TESTED}, {words}",
            "table",
            hard,
            (f"{checkpoint}.raw.soft_nll",),
            names=("soft NLL",),
            baseline="Soft",
            alternative="less",
            note=f"The paper's test, with its family of hard deliveries by K. {reach}",
        )
        for checkpoint, words in CHECKPOINTS.items()
    ]
    exhibits.append(
        Exhibit(
            f"{SHRUNK}, tested against Soft",
            "table",
            {method: cells[method] for method in ("Soft", SHRUNK)},
            (NLL, "best.raw.soft_nll"),
            names=("soft NLL, last epoch", "soft NLL, best epoch"),
            baseline="Soft",
            alternative="less",
            note="Apart, because the paper has no such row.",
        )
    )
    as_printed = f"{TESTED}, {CHECKPOINTS['best']}"
    beside = tuple(
        dataclasses.replace(one, panel=f"{as_printed} / {one.panel}", column="soft_nll:p")
        if one.column == "p_wilcoxon"
        else one
        for one in printed("table1", {"": as_printed} | {title: title for title in titles.values()})
    )
    return Experiment(
        name="003/table1",
        title="Few votes: does hard delivery help?",
        question="With K votes an item, are labels that are drawn or cycled better than the soft labels of those K "
        "votes?",
        panels=panels,
        seeds=run.few,
        scale=scale,
        columns=COLUMNS,
        notes=run.notes,
        printed=beside,
        exhibits=tuple(exhibits),
        claims=_sparse_claims(run),
    )


TESTED = "Hard deliveries tested against Soft"


def _sparse_claims(run: Scale) -> tuple[Claim, ...]:
    claims = []
    for votes in run.votes:
        cells = {method: nodes(run.sparse(method, votes), run.few) for method in run.sweep}
        hard = [method for method in run.sweep if method not in ("Soft", SHRUNK)]
        claims += [
            Claim(
                f"(f) At K = {votes}, {method} is at least as good as Soft in soft NLL.",
                "not_higher",
                {method: cells[method], "Soft": cells["Soft"]},
                (NLL,),
                source="003, §5.1",
            )
            for method in hard
        ]
        if SHRUNK in cells:
            claims += [
                Claim(
                    f"(h) At K = {votes}, shrinking the votes makes soft labels better than the plain ones.",
                    "lower",
                    {SHRUNK: cells[SHRUNK], "Soft": cells["Soft"]},
                    (NLL,),
                    source="a question that 003 does not ask",
                ),
                Claim(
                    f"(h) At K = {votes}, shrunk soft labels are at least as good as SLS.",
                    "not_higher",
                    {SHRUNK: cells[SHRUNK], "SLS": cells["SLS"]},
                    (NLL,),
                    source="a question that 003 does not ask",
                ),
                Claim(
                    f"(h) What remains at K = {votes} of the gap between Soft and SLS after one temperature fitted to "
                    "all votes of other evaluation items, which whoever has K votes does not have.",
                    "remaining",
                    {"Soft": cells["Soft"], "SLS": cells["SLS"]},
                    (NLL, "last.tempered_votes.soft_nll"),
                    source="a question that 003 does not ask",
                ),
            ]
    return tuple(claims)


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
                f"(a) {method} is below Majority in soft NLL (the paper: by 0.22 or more).",
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


HESSIAN = ("lambda_max_full", "trace_full", "lambda_max_high", "trace_high")
HESSIAN_NAMES = ("λ max", "trace", "λ max, high disagreement", "trace, high disagreement")


def _sharpness_notes(run: Scale) -> tuple[str, ...]:
    """What is measured on fewer items, or less exactly, than in the paper; all of it where nothing is said."""
    asked = dict(run.hessian)
    if not asked:
        return run.notes
    said = f"Sharpness is measured on {asked['items']} evaluation items, drawn by seed, and on those of high disagreement"
    said += ", in place of all"
    if "eigenvalues" in asked:
        said += "; the largest eigenvalue by Lanczos, in place of power iteration"
    if "trace_tolerance" in asked:
        said += f"; traces to a standard error of {asked['trace_tolerance']:.0%} of their own, or {asked['most_probes']} "
        said += "probes, in place of 2%: that error is inside their ±"
    return (*run.notes, f"{said}.")


def _sharpness(run: Scale, method: str) -> tuple[Analysis, ...]:
    seeds = tuple(seed for seed in run.geometry if seed in run.seeds(method))
    return tuple(Analysis(hessian, node, run.hessian) for node in run.runs(method, seeds))


def table4(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Sharpness."""
    run = at(scale, seeds)
    titles = {"Main comparison": "Main comparison", "Hard-delivery family": "Hard-delivery family"}
    of = {method: _sharpness(run, method) for method in (*FAMILY, "Shuffled SLS")}
    rows = {
        "Main comparison": ("Soft", "SLS"),
        "Hard-delivery family": ("SLS", "Deterministic", "Multipass", "Shuffled SLS"),
    }
    exhibits = tuple(
        Exhibit(
            title,
            "table",
            {method: {"": of[method]} for method in rows[part]},
            HESSIAN,
            HESSIAN_NAMES,
            baseline=rows[part][0],
            note="Largest eigenvalue and trace of the Hessian of soft NLL to the full votes on evaluation items, at "
            f"the best epoch; batch norm frozen, without weight decay. {HIGH}",
        )
        for part, title in titles.items()
    )
    claims = tuple(
        Claim(
            f"(d) {name} is lower for {method} than for Soft.",
            "lower",
            {method: of[method], "Soft": of["Soft"]},
            (value,),
            source="003, §5.3",
        )
        for method in ("SLS", "Multipass")
        for value, name in zip(HESSIAN[:2], ("The largest eigenvalue", "The trace"), strict=True)
    )
    return Experiment(
        name="003/table4",
        title="How sharp are the minima?",
        question="Do hard deliveries find flatter minima than soft labels, though both aim at the same target?",
        panels=(),
        seeds=run.geometry,
        scale=scale,
        notes=_sharpness_notes(run),
        printed=printed("table4", titles),
        exhibits=exhibits,
        claims=claims,
    )


def table6(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Sharpness with few votes."""
    run = at(scale, seeds)
    title = "Sharpness with K votes"
    geometry = tuple(seed for seed in run.geometry if seed in run.few)
    cells = {
        method: {
            f"K = {votes}": tuple(
                Analysis(hessian, node, run.hessian) for node in nodes(run.sparse(method, votes), geometry)
            )
            for votes in (run.votes if scale != "laptop" else run.votes[:1])
        }
        for method in ("SLS", "Soft")
    }
    points = list(next(iter(cells.values())))
    places = {point: title if len(points) == 1 else f"{title} / {point}" for point in points}
    values = ("lambda_max_full", "lambda_max_high")
    names = ("λ max", "λ max, high disagreement")
    exhibit = Exhibit(title, "table", cells, values, names, baseline="Soft", note=HIGH)
    claims = tuple(
        Claim(
            f"(d) At {point} the largest eigenvalue is lower for SLS than for Soft.",
            "lower",
            {method: cells[method][point] for method in ("SLS", "Soft")},
            (values[0],),
            source="003, A.3",
        )
        for point in points
    )
    return Experiment(
        name="003/table6",
        title="How sharp are the minima with few votes?",
        question="Does the difference in sharpness stay when training sees K votes an item?",
        panels=(),
        seeds=geometry,
        scale=scale,
        notes=_sharpness_notes(run),
        printed=printed("table6", places),
        exhibits=(exhibit,),
        claims=claims,
    )


NAMES = {"svhn": "SVHN", "cifar100": "CIFAR-100"}
OTHERS = ("Majority", "Label smoothing", "Mixup")
AUROC = tuple(f"auroc_{detector}" for detector in DETECTORS)
DETECTOR_NAMES = ("Energy", "MSP", "ODIN", "entropy", "margin", "KNN")


def _outside(
    number: int,
    title: str,
    data: str,
    labels: tuple[str, ...],
    scale: str,
    seeds: Seeds | None,
    apart: tuple[str, ...] = (),
    alternative: stats.Alternative = "two-sided",
) -> Experiment:
    """`labels` are the paper's rows; those `apart` are not in its family of tests."""
    run = at(scale, seeds)
    cells = {
        method: {
            "": tuple(Analysis(out_of_distribution, node, run.outside, data=Dataset(data)) for node in run.runs(method))
        }
        for method in (*labels, *apart)
    }
    hard = "Multipass" if number == 9 else "SLS"  # SLS against Soft on CIFAR-100 is Table 8
    note = "AUROC of the evaluation items against these images, at the last epoch; no detector is tuned."
    exhibits = [
        Exhibit(
            title,
            "table",
            {method: cells[method] for method in labels},
            AUROC,
            DETECTOR_NAMES,
            baseline="Soft",
            alternative=alternative,
            note=note,
        )
    ]
    if apart:
        others = {method: cells[method] for method in ("Soft", *apart)}
        exhibits.append(
            Exhibit("Not in the paper's table", "table", others, AUROC, DETECTOR_NAMES, baseline="Soft", note=note)
        )
    return Experiment(
        name=f"003/table{number}",
        title=title,
        question="Does the delivery of labels change how well a network notices images that it was not made for?",
        panels=(),
        seeds=run.main,
        scale=scale,
        notes=run.notes,
        printed=printed(f"table{number}", {"": title}, {f"p_wilcoxon_{value}": f"{value}:p" for value in AUROC}),
        exhibits=tuple(exhibits),
        claims=tuple(
            Claim(
                f"{hard} notices images of {NAMES[data]} better than Soft, by {name}.",
                "lower",
                {method: cells[method][""] for method in ("Soft", hard)},
                (value,),
                source=f"003, Table {number}",
            )
            for value, name in zip(AUROC, DETECTOR_NAMES, strict=True)
        ),
    )


def table7(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Far from the training images."""
    return _outside(7, "Out of distribution: SVHN", "svhn", FAMILY, scale, seeds, ("Shuffled SLS", *OTHERS))


def table8(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Near the training images; tested one-sided, as the p that are printed must have been."""
    title = "Out of distribution: CIFAR-100"
    return _outside(8, title, "cifar100", ("SLS", "Soft"), scale, seeds, OTHERS, "greater")


def table9(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Near the training images, the family."""
    title = "Out of distribution: CIFAR-100, hard-delivery family"
    return _outside(9, title, "cifar100", FAMILY, scale, seeds, ("Shuffled SLS",))
