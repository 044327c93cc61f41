"""Gheibi and Ghazizadeh 2026 (003), §5.3 and A.4, sharpness and barriers: Tables 4 and 6, Figures 7 and 11."""

from __future__ import annotations

from dissensus.engine.measures import GradientVariance, Hessian
from dissensus.experiments.description import Claim, Curve, CurvePlot, Experiment, ValueTable
from dissensus.experiments.plan import Node, measured, seeded
from dissensus.experiments.values import Measured, fact
from dissensus.recipes.paper003.settings import CITATION, FAMILY, HIGH, NOT_ASKED, Scale, Seeds, at
from dissensus.recipes.printed import attach, printed_difference, printed_numbers

SHARPNESS = {
    "λ max": Measured("lambda_max_full"),
    "trace": Measured("trace_full"),
    "λ max, high disagreement": Measured("lambda_max_high"),
    "trace, high disagreement": Measured("trace_high"),
}


SHARPNESS_IN_WORDS = {
    "lambda_max_full": "The largest eigenvalue",
    "trace_full": "The trace",
    "lambda_max_high": "The largest eigenvalue on items of high disagreement",
    "trace_high": "The trace on items of high disagreement",
}


def _printed_sharpness(value: str, method: str) -> float | None:
    """A hard delivery minus Soft. The paper has Soft in its main comparison alone, Multipass in the other part."""
    means = {
        (number.part, number.row): number.mean for number in printed_numbers("003", "table4") if number.column == value
    }
    part = "Main comparison" if method == "SLS" else "Hard-delivery family"
    if (part, method) not in means:
        return None
    return round(means[part, method] - means["Main comparison", "Soft"], 6)


def _sharpness_notes(measure: Hessian) -> tuple[str, ...]:
    """How the measurement differs from the paper's: fewer items, or less precision."""
    usual = Hessian()
    if measure == usual:
        return ()
    note = f"Sharpness is measured on at most {measure.items} items, drawn by seed, instead of all"
    if measure.eigenvalues != usual.eigenvalues:
        note += "; the largest eigenvalue by Lanczos instead of power iteration"
    if measure.trace_tolerance != usual.trace_tolerance:
        note += f"; traces to a relative standard error of {measure.trace_tolerance:.0%} instead of 2%, with at most "
        note += f"{measure.most_probes} probes: the ± includes that error"
    return (f"{note}.",)


def _sharpness(run: Scale, method: str) -> dict[str, Node]:
    seeds = tuple(seed for seed in run.geometry if seed in run.seeds(method))
    return measured(run.hessian, run.runs(method, seeds))


def table4(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Sharpness."""
    run = at(scale, seeds)
    sharpness = {method: _sharpness(run, method) for method in (*FAMILY, "Shuffled SLS")}
    rows = {
        "Main comparison": ("Soft", "SLS"),
        "Hard-delivery family": ("SLS", "Deterministic", "Multipass", "Shuffled SLS"),
    }
    tables, apart = [], printed_numbers("003", "table4")
    for part, labels in rows.items():
        table: ValueTable[Node] = ValueTable(
            key=part.split()[0].lower(),
            title=part,
            cells={method: {"": sharpness[method]} for method in labels},
            columns=SHARPNESS,
            baseline=labels[0],
            note="Largest eigenvalue and trace of the Hessian of soft NLL to all votes of the evaluation items, at "
            f"the best epoch; batch norm frozen, without weight decay. {HIGH}",
        )
        table, apart = attach(table, apart, points={part: ""})
        tables.append(table)
    claims = tuple(
        Claim(
            f"(d) {name} is lower for {method} than for Soft.",
            "lower",
            {method: sharpness[method], "Soft": sharpness["Soft"]},
            (Measured(value),),
            source=f"{CITATION}, §5.3",
            printed=_printed_sharpness(value, method),
            is_main=(method, value) in (("SLS", "lambda_max_full"), ("SLS", "trace_full")),
        )
        for method in ("SLS", "Multipass", "Deterministic")
        for value, name in SHARPNESS_IN_WORDS.items()
    ) + tuple(
        Claim(
            f"{name} is lower for Shuffled SLS, which learns nothing, than for SLS.",
            "lower",
            {method: sharpness[method] for method in ("Shuffled SLS", "SLS")},
            (Measured(value),),
            source=f"{CITATION}, §5.3",
        )
        for value, name in SHARPNESS_IN_WORDS.items()
    )
    return Experiment(
        key="003/table4",
        title="How sharp are the minima?",
        question="Do hard deliveries find flatter minima than soft labels, although the target is the same?",
        scale=scale,
        notes=(*run.notes, *_sharpness_notes(run.hessian)),
        exhibits=tuple(tables),
        claims=claims,
        apart=apart,
    )


def table6(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Sharpness with few votes."""
    run = at(scale, seeds)
    geometry = tuple(seed for seed in run.geometry if seed in run.few)
    swept = run.votes[:1] if scale in ("laptop", "miniature") else run.votes
    cells = {
        method: {f"K = {votes}": measured(run.hessian, seeded(run.sparse(method, votes), geometry)) for votes in swept}
        for method in ("SLS", "Soft")
    }
    table: ValueTable[Node] = ValueTable(
        key="sharpness",
        title="Sharpness with K votes",
        cells=cells,
        columns={name: SHARPNESS[name] for name in ("λ max", "λ max, high disagreement")},
        baseline="Soft",
        note=HIGH,
    )
    points = [f"K = {votes}" for votes in swept]
    table, apart = attach(table, printed_numbers("003", "table6"), points={point: point for point in points})
    claims = tuple(
        Claim(
            f"(d) At {point}: {SHARPNESS_IN_WORDS[value].lower()} is lower for SLS than for Soft.",
            "lower",
            {method: cells[method][point] for method in ("SLS", "Soft")},
            (Measured(value),),
            source=f"{CITATION}, A.3",
            printed=printed_difference("003", "table6", value, "SLS", "Soft", point),
        )
        for point in points
        for value in ("lambda_max_full", "lambda_max_high")
    )
    return Experiment(
        key="003/table6",
        title="How sharp are the minima with few votes?",
        question="Does the difference in sharpness remain when training sees K votes per item?",
        scale=scale,
        notes=(*run.notes, *_sharpness_notes(run.hessian)),
        exhibits=(table,),
        claims=claims,
        apart=apart,
    )


def figure7(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Gradient variance in the last layer, by vote entropy."""
    run = at(scale, seeds)
    noise = {method: measured(GradientVariance(), run.runs(method)) for method in ("SLS", "Soft")}
    table: ValueTable[Node] = ValueTable(
        key="correlations",
        title="Spearman correlation with vote entropy",
        cells={method: {"": runs} for method, runs in noise.items()},
        columns={
            "trained network": Measured("spearman_trained"),
            "untrained network": Measured("spearman_untrained"),
            "1 − ‖p‖² alone": Measured("spearman_labels_alone"),
            "sampled / closed form": Measured("sampled_over_closed_form"),
        },
        note="An item's gradient variance in the last layer is (1 − ‖p‖²) times a factor of its features (1 + ‖h‖² with "
        "a bias; ‖h‖² times the squared scale of the logits in speedy): the first factor alone grows with vote entropy, "
        "so the correlation is nearly a tautology. The untrained network and the factor alone show how much of it exists "
        "without training.",
    )
    table, apart = attach(
        table,
        printed_numbers("003", "figure7"),
        columns={
            "spearman_trained_min": ("spearman_trained", "lowest"),
            "spearman_trained_max": ("spearman_trained", "highest"),
        },
    )
    curve: CurvePlot[Node] = CurvePlot(
        key="variance",
        title="Gradient variance by vote entropy",
        cells={"SLS": {"": noise["SLS"]}},
        curves={
            "trained network": Curve(fact("bins", "trained", "y"), fact("bins", "trained", "x")),
            "untrained network": Curve(fact("bins", "untrained", "y"), fact("bins", "untrained", "x")),
        },
        axes=("vote entropy, nats", "variance"),
    )
    text, groups = "(e) The Spearman correlation of gradient variance and vote entropy is", {"SLS": noise["SLS"]}
    value, source = (Measured("spearman_trained"),), f"{CITATION}, §5.3"
    printed = {number.column: number.mean for number in printed_numbers("003", "figure7")}
    low, high = printed["spearman_trained_min"], printed["spearman_trained_max"]
    claims: tuple[Claim[Node], ...] = (
        Claim(
            f"{text} above 0.9.",
            "above",
            groups,
            value,
            threshold=0.9,
            source=source,
            printed=printed["spearman_trained"],
            is_main=True,
        ),
        Claim(
            f"{text} between {low:g} and {high:g}, the range over the paper's seeds.",
            "between",
            groups,
            value,
            threshold=low,
            upper=high,
            source=source,
        ),
    )
    return Experiment(
        key="003/figure7",
        title="Which items have noisy gradients?",
        question="Does drawing labels add more noise to the gradients of items on which people disagree?",
        scale=scale,
        notes=run.notes,
        exhibits=(curve, table),
        claims=claims,
        apart=apart,
    )


POLICIES = {"barrier_interpolated": "interpolated", "barrier_reestimated": "measured again"}


def figure11(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The barrier between two solutions."""
    run = at(scale, seeds)
    to_soft, control = "SLS to Soft", "SLS to Multipass"
    barriers = {
        label: measured(run.barrier, run.runs("SLS", run.geometry), run.runs(other, run.geometry))
        for label, other in ((to_soft, "Soft"), (control, "Multipass"))
    }
    cells = {label: {"": runs} for label, runs in barriers.items()}
    line: CurvePlot[Node] = CurvePlot(
        key="line",
        title="Soft NLL on the line from SLS to another solution",
        cells=cells,
        curves={
            "batch-norm statistics interpolated": Curve(fact("interpolated"), fact("x")),
            "batch-norm statistics measured again": Curve(fact("reestimated"), fact("x")),
        },
        axes=("share of the other end", "nats"),
    )
    height: ValueTable[Node] = ValueTable(
        key="height",
        title="Height of the barrier",
        cells=cells,
        columns={f"statistics {words}": Measured(policy) for policy, words in POLICIES.items()},
        note="The largest excess of soft NLL on evaluation items, at 21 points between the two solutions, over the "
        "straight line between the losses of the two ends. It is never below 0, so the claims ask for more than 0.1. The "
        "paper does not say how it treats batch-norm statistics, so both ways are shown. The control, not in the paper, "
        "is between two hard deliveries: if it has a barrier as well, the barrier is not caused by soft labels.",
    )
    height, apart = attach(
        height, printed_numbers("003", "figure11"), rows={"SLS": to_soft}, columns={"barrier": "barrier_interpolated"}
    )
    claims = tuple(
        claim
        for policy, words in POLICIES.items()
        for claim in (
            Claim(
                "SLS and Soft end in different basins: the barrier between them is above 0.1 nats, with batch-norm "
                f"statistics {words}.",
                "above",
                {to_soft: barriers[to_soft]},
                (Measured(policy),),
                threshold=0.1,
                source=f"{CITATION}, A.4",
                printed=2.05 if policy == "barrier_interpolated" else None,
                is_main=policy == "barrier_interpolated",
            ),
            Claim(
                "The barrier is due to soft labels: it is lower between two hard deliveries, with batch-norm statistics "
                f"{words}.",
                "lower",
                {control: barriers[control], to_soft: barriers[to_soft]},
                (Measured(policy),),
                source=NOT_ASKED,
            ),
        )
    )
    return Experiment(
        key="003/figure11",
        title="Is there a barrier between the solutions?",
        question="Two runs start from the same weights and deliver the same target in two ways. Is there a loss barrier "
        "between their solutions?",
        scale=scale,
        notes=run.notes,
        exhibits=(line, height),
        claims=claims,
        apart=apart,
    )
