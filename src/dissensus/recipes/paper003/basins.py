"""Where the weights end (003, §5.3 and A.4): Tables 4 and 6, Figures 7 and 11."""

from __future__ import annotations

from dataclasses import replace

from dissensus.engine.measures import GradientVariance, Hessian
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment, Training
from dissensus.recipes.paper003.settings import (
    FAMILY,
    HIGH,
    Scale,
    Seeds,
    at,
    nodes,
    of_exhibits,
    printed,
)

HESSIAN = ("lambda_max_full", "trace_full", "lambda_max_high", "trace_high")
HESSIAN_NAMES = ("λ max", "trace", "λ max, high disagreement", "trace, high disagreement")


def _sharpness_notes(run: Scale) -> tuple[str, ...]:
    """What is measured on fewer items, or less exactly, than in the paper."""
    ours, paper = run.hessian, Hessian()
    if ours == paper:
        return ()
    said = f"Sharpness is measured on at most {ours.items} items, drawn by seed, in place of all"
    if ours.eigenvalues != paper.eigenvalues:
        said += "; the largest eigenvalue by Lanczos, in place of power iteration"
    if ours.trace_tolerance != paper.trace_tolerance:
        said += f"; traces to a standard error of {ours.trace_tolerance:.0%} of their own, or {ours.most_probes} "
        said += "probes, in place of 2%: that error is inside their ±"
    return (f"{said}.",)


def _sharpness(run: Scale, method: str) -> tuple[Analysis, ...]:
    seeds = tuple(seed for seed in run.geometry if seed in run.seeds(method))
    return tuple(Analysis(run.hessian, node) for node in run.runs(method, seeds))


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
    return of_exhibits(
        "table4",
        run,
        scale,
        "How sharp are the minima?",
        "Do hard deliveries find flatter minima than soft labels, though both aim at the same target?",
        exhibits,
        run.geometry,
        claims,
        printed("table4", titles),
        _sharpness_notes(run),
    )


def table6(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Sharpness with few votes."""
    run = at(scale, seeds)
    title = "Sharpness with K votes"
    geometry = tuple(seed for seed in run.geometry if seed in run.few)
    cells = {
        method: {
            f"K = {votes}": tuple(Analysis(run.hessian, node) for node in nodes(run.sparse(method, votes), geometry))
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
    return of_exhibits(
        "table6",
        run,
        scale,
        "How sharp are the minima with few votes?",
        "Does the difference in sharpness stay when training sees K votes an item?",
        (exhibit,),
        geometry,
        claims,
        printed("table6", places),
        _sharpness_notes(run),
    )


def figure7(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Label noise in the last layer."""
    run = at(scale, seeds)
    measured = {
        method: {"": tuple(Analysis(GradientVariance(), node) for node in run.runs(method))} for method in ("SLS", "Soft")
    }
    table = Exhibit(
        "Spearman correlation with vote entropy",
        "table",
        measured,
        ("spearman_trained", "spearman_untrained", "spearman_labels_alone", "sampled_over_closed_form"),
        names=("trained network", "untrained network", "1 − ‖p‖² alone", "sampled / closed form"),
        note="An item's gradient variance in the last layer is (1 − ‖p‖²) times a factor of its features (1 + ‖h‖² with "
        "a bias; ‖h‖² times the squared scale of the logits in speedy): the first factor alone grows with vote entropy, "
        "so the correlation is nearly a tautology. The untrained network and the factor alone show how much of it needs "
        "no training.",
    )
    curve = Exhibit(
        "Gradient variance by vote entropy",
        "curves",
        {"SLS": measured["SLS"]},
        ("facts.bins.trained.x", "facts.bins.trained.y", "facts.bins.untrained.x", "facts.bins.untrained.y"),
        names=("trained network", "untrained network"),
        axes=("vote entropy, nats", "variance"),
    )
    claim = Claim(
        "(e) The Spearman correlation of gradient variance and vote entropy is above 0.9.",
        "above",
        {"SLS": measured["SLS"][""]},
        ("spearman_trained",),
        threshold=0.9,
        source="003, §5.3",
    )
    return of_exhibits(
        "figure7",
        run,
        scale,
        "Where is the label noise?",
        "Does drawing labels put more noise into the gradient of items that people disagree on?",
        (curve, table),
        run.main,
        (claim,),
        printed(
            "figure7",
            {"": "Spearman correlation with vote entropy"},
            {
                "spearman_trained_min": "spearman_trained:lowest",
                "spearman_trained_max": "spearman_trained:highest",
            },
        ),
    )


POLICIES = {"barrier_interpolated": "interpolated", "barrier_reestimated": "measured anew"}


def figure11(scale: str, seeds: Seeds | None = None) -> Experiment:
    """The barrier between two solutions."""
    run = at(scale, seeds)
    related = {
        other: tuple(
            Analysis(run.barrier, (Training(run.own["SLS"], seed), Training(run.own[other], seed)))
            for seed in run.geometry
        )
        for other in ("Soft", "Multipass")
    }
    to_soft, control = "SLS to Soft", "SLS to Multipass"
    cells = {to_soft: {"": related["Soft"]}, control: {"": related["Multipass"]}}
    line = Exhibit(
        "Soft NLL on the line from SLS to another solution",
        "curves",
        cells,
        ("facts.x", "facts.interpolated", "facts.x", "facts.reestimated"),
        names=("batch-norm statistics interpolated", "batch-norm statistics measured anew"),
        axes=("share of the other end", "nats"),
    )
    height = Exhibit(
        "Height of the barrier",
        "table",
        cells,
        tuple(POLICIES),
        names=tuple(f"statistics {words}" for words in POLICIES.values()),
        note="The largest excess over the straight line between the losses of the two ends, 21 points, soft NLL on "
        "evaluation items; never below 0, so the claims ask for more than 0.1. The paper does not say what it does with "
        "batch-norm statistics, so both are shown. The control, which the paper does not have, is between two hard "
        "deliveries: a barrier there as well is no sign of what soft labels do.",
    )
    claims = tuple(
        claim
        for policy, words in POLICIES.items()
        for claim in (
            Claim(
                "SLS and Soft end in different basins: the barrier between them is above 0.1 nats, batch-norm statistics "
                f"{words}.",
                "above",
                {to_soft: related["Soft"]},
                (policy,),
                threshold=0.1,
                source="003, A.4",
            ),
            Claim(
                "The barrier is a sign of soft labels: it is lower between two hard deliveries, batch-norm statistics "
                f"{words}.",
                "lower",
                {control: related["Multipass"], to_soft: related["Soft"]},
                (policy,),
                source="a question that 003 does not ask",
            ),
        )
    )
    beside = printed("figure11", {"": "Height of the barrier"}, {"barrier": "barrier_interpolated"})
    return of_exhibits(
        "figure11",
        run,
        scale,
        "Is there a barrier between the solutions?",
        "Start from the same weights, deliver the same target in two ways: is the straight line between the results "
        "smooth?",
        (line, height),
        run.geometry,
        claims,
        beside=tuple(replace(one, row=to_soft) for one in beside),
    )
