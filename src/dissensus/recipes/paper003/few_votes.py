"""Gheibi and Ghazizadeh 2026 (003), §5.1 and A.3: few votes per item, and labels held for several epochs."""

from __future__ import annotations

from collections.abc import Iterator

from dissensus import stats
from dissensus.engine.measures import SparseTarget
from dissensus.experiments.description import Claim, Curve, CurvePlot, Experiment, Test, ValueTable
from dissensus.experiments.plan import Node, measured, score_table, seeded
from dissensus.experiments.values import Measured, Score, fact
from dissensus.recipes.paper003.settings import (
    CHECKPOINTS,
    CITATION,
    COLUMNS,
    HELD,
    HIGH,
    MARGINS,
    NLL,
    NOT_ASKED,
    SHRUNK,
    Scale,
    Seeds,
    at,
    exhibit_key,
)
from dissensus.recipes.printed import attach, printed_difference, printed_numbers


def table1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Few votes per item."""
    run = at(scale, seeds)
    rest = printed_numbers("003", "table1")
    tables = []
    for votes in run.votes:
        table = score_table(
            {method: run.sparse(method, votes) for method in run.sweep},
            run.few_seeds(votes),
            key=f"k{votes}",
            title=f"K = {votes}",
            baseline="Soft",
            columns=COLUMNS,
            note=f"Training sees {votes} votes per item, drawn from all its votes with replacement; scores are against "
            f"all votes. The row “{SHRUNK}” is not in the paper: votes are shrunk towards the mean of their class.",
        )
        table, rest = attach(table, rest, points={f"K = {votes}": ""})
        tables.append(table)
    points = {f"K = {votes}": votes for votes in run.votes}
    cells = {method: {point: run.sparse_runs(method, votes) for point, votes in points.items()} for method in run.sweep}
    hard = {method: cells[method] for method in ("Soft", *_hard(run))}
    reach = stats.power(len(run.few), (len(hard) - 1) * len(run.votes), alternative="less").sentence
    tested = {
        checkpoint: ValueTable(
            key=f"tested-{checkpoint}",
            title=f"Hard deliveries tested against Soft, {words}",
            cells=hard,
            columns={"soft NLL": Score("soft_nll", checkpoint)},
            baseline="Soft",
            alternative="less",
            note=f"The paper's test; Holm's correction is over hard deliveries and K. {reach}",
        )
        for checkpoint, words in CHECKPOINTS.items()
    }
    tested["best"], apart = attach(
        tested["best"], rest, points={point: point for point in points}, columns={"p_wilcoxon": ("soft_nll", "p")}
    )
    shrunk = ValueTable(
        key="shrunk",
        title=f"{SHRUNK}, tested against Soft",
        cells={method: cells[method] for method in ("Soft", SHRUNK)},
        columns={"soft NLL, last epoch": NLL, "soft NLL, best epoch": Score("soft_nll", "best")},
        baseline="Soft",
        alternative="less",
        note="In a table of its own, because the paper has no such row.",
    )
    return Experiment(
        key="003/table1",
        title="Few votes: does hard delivery help?",
        question="With K votes per item, is showing one vote per epoch better than the soft labels of those K votes?",
        scale=scale,
        notes=run.notes,
        exhibits=(*tables, *tested.values(), shrunk),
        apart=apart,
        claims=_sparse_claims(run),
    )


def _hard(run: Scale) -> tuple[str, ...]:
    """The hard deliveries that are trained on few votes."""
    return tuple(method for method in run.sweep if method not in ("Soft", SHRUNK))


def _sparse_claims(run: Scale) -> tuple[Claim[Node], ...]:
    claims: list[Claim[Node]] = []
    for votes in run.votes:
        runs = {method: run.sparse_runs(method, votes) for method in run.sweep}
        hard = _hard(run)
        claims += [
            Claim(
                f"(f) At K = {votes}, {method} has a lower soft NLL than Soft ({words}).",
                "lower",
                {method: runs[method], "Soft": runs["Soft"]},
                (Score("soft_nll", checkpoint),),
                source=f"{CITATION}, §5.1",
                printed=printed_difference("003", "table1", "soft_nll", method, "Soft", f"K = {votes}"),
                is_main=votes == 5 and checkpoint == "last",
            )
            for method in hard
            for checkpoint, words in CHECKPOINTS.items()
        ]
        claims += [
            Claim(
                f"At K = {votes}, {method} and Soft are alike in accuracy (margin {MARGINS['accuracy']:g}).",
                "alike",
                {method: runs[method], "Soft": runs["Soft"]},
                (Score("accuracy"),),
                source=f"{CITATION}, §5.1",
                margin=MARGINS["accuracy"],
            )
            for method in hard
        ]
        if SHRUNK in runs:
            claims += [
                Claim(
                    f"(h) At K = {votes}, shrunk soft labels are better than plain soft labels.",
                    "lower",
                    {SHRUNK: runs[SHRUNK], "Soft": runs["Soft"]},
                    (NLL,),
                    source=NOT_ASKED,
                    is_main=votes == 5,
                ),
                Claim(
                    f"(h) At K = {votes}, shrunk soft labels are at least as good as SLS.",
                    "not_higher",
                    {SHRUNK: runs[SHRUNK], "SLS": runs["SLS"]},
                    (NLL,),
                    source=NOT_ASKED,
                ),
                Claim(
                    f"(h) What remains at K = {votes} of the gap between Soft and SLS after temperature scaling, "
                    "fitted to all votes of other evaluation items (not available to those who have only K votes).",
                    "remaining",
                    {"Soft": runs["Soft"], "SLS": runs["SLS"]},
                    (NLL, Score("soft_nll", calibration="tempered_votes")),
                    source=NOT_ASKED,
                ),
            ]
    if len(run.votes) > 1:
        claims += [
            Claim(
                f"At K = {run.votes[-1]}, the largest K here, the entropy of {method} correlates more with that of the "
                "votes than the entropy of Soft.",
                "lower",
                {label: run.sparse_runs(label, run.votes[-1]) for label in ("Soft", method)},
                (Score("entropy_spearman"),),
                source=f"{CITATION}, §5.1",
            )
            for method in _hard(run)
        ]
    return (*claims, *_counts(run))


def _counts(run: Scale) -> Iterator[Claim[Node]]:
    """The counts of cells that the paper prints, over the cells that are run here."""
    cells: dict[str, dict[str, Node]] = {}
    for votes in run.votes:
        for method in _hard(run):
            cells[f"{method} at K = {votes}"] = run.sparse_runs(method, votes)
            cells[f"Soft beside {method} at K = {votes}"] = run.sparse_runs("Soft", votes)
    counts: tuple[tuple[str, Test, float], ...] = (
        (
            "Every hard delivery has a lower mean soft NLL than Soft, at every K (in the paper 12 of 12 cells)",
            "cells_lower",
            1.0,
        ),
        (
            "In at least 3 of 4 cells a hard delivery is lower than Soft in every seed (in the paper 9 of 12)",
            "cells_unanimous",
            0.75,
        ),
        ("No cell is significant after Holm's correction (in the paper none of 12)", "cells_significant", 0.0),
    )
    for checkpoint, words in CHECKPOINTS.items():
        for text, test, share in counts:
            yield Claim(
                f"(f) {text} ({words}).",
                test,
                cells,
                (Score("soft_nll", checkpoint),),
                threshold=share,
                source=f"{CITATION}, §5.1",
            )


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The scores of Table 1 as curves."""
    run = at(scale, seeds)
    table = ValueTable(
        key="sweep",
        title="Scores by the number of votes",
        cells={method: {str(votes): run.sparse_runs(method, votes) for votes in run.votes} for method in run.sweep},
        columns={
            "soft NLL": NLL,
            "accuracy": Score("accuracy"),
            "entropy corr. (Spearman)": Score("entropy_spearman"),
        },
        picture="lines",
        axes=("votes per item", ""),
        note="Last epoch, scored against all votes. Mean over seeds, with a band of one standard deviation.",
    )
    table, apart = attach(table, printed_numbers("003", "figure1"))
    return Experiment(
        key="003/figure1",
        title="Few votes: scores by K",
        question="How do the deliveries compare when each item has fewer votes?",
        scale=scale,
        notes=run.notes,
        exhibits=(table,),
        apart=apart,
    )


PARTS = {
    "train": "training items",
    "evaluation": "evaluation items (control)",
    "train_high": "training items of high disagreement",
    "evaluation_high": "evaluation items of high disagreement (control)",
}


def _by_error(
    name: str, error: str, parts: tuple[str, str], distance: str, scale: str, seeds: Seeds | None, title: str
) -> Experiment[Node]:
    run = at(scale, seeds)
    apart = printed_numbers("003", name)
    exhibits: list[CurvePlot[Node] | ValueTable[Node]] = []
    claims: list[Claim[Node]] = []
    for checkpoint, words in run.checkpoints.items():
        related = {
            method: {
                f"K = {votes}": measured(
                    SparseTarget(checkpoint), run.sparse_runs(method, votes), run.sparse_runs("Soft", votes)
                )
                for votes in run.votes
            }
            for method in _hard(run)
        }
        exhibits += [
            CurvePlot(
                key=exhibit_key(f"improvement-{part.replace('_', '-')}", checkpoint),
                title=f"Improvement over Soft, {PARTS[part]}, {words}",
                cells=related,
                curves={PARTS[part]: Curve(fact("bins", part, error, "y"), fact("bins", part, error, "x"))},
                axes=(distance, "nats"),
                note="Soft NLL of an item under Soft minus that under the hard delivery, by the distance of its few "
                "votes from all its votes. The first point has the items at distance 0, if there are any; then five bins "
                f"of equal mass. Mean over seeds.{f' {HIGH}' if part.endswith('_high') else ''}",
            )
            for part in parts
        ]
        kinds = {"spearman": "Spearman", "partial_spearman": "given vote entropy"}
        correlations: ValueTable[Node] = ValueTable(
            key=exhibit_key("correlations", checkpoint),
            title=f"Correlation of error and improvement, {words}",
            cells=related,
            columns={
                f"{kind_words}, {PARTS[part]}": Measured(f"{kind}_{error}_{part}")
                for part in parts
                for kind, kind_words in kinds.items()
            },
            note="Over items, separately for each seed; also the partial correlation given vote entropy. Training used "
            "the few votes of training items, but never those of evaluation items, so the columns of the latter are a "
            "control.",
        )
        if checkpoint == run.printed_at:
            correlations, apart = attach(correlations, apart)
        exhibits.append(correlations)
        for votes in run.votes:
            for method in _hard(run):
                groups, value = {method: related[method][f"K = {votes}"]}, (Measured(f"spearman_{error}_{parts[0]}"),)
                subject = (
                    f"At K = {votes}, the improvement of {method} over Soft, positive or negative, grows with the "
                    f"distance of an item's few votes from all its votes: over {PARTS[parts[0]]} its correlation with "
                    f"{distance} is"
                )
                source = f"{CITATION}, §5.1"
                claims.append(
                    Claim(f"{subject} above 0 ({words}).", "above", groups, value, threshold=0.0, source=source)
                )
                if name == "figure2":  # the only one for which the paper prints numbers
                    low, high = (number.mean for number in printed_numbers("003", name))
                    text = f"{subject} between {low:g} and {high:g}, as in the paper ({words})."
                    claims.append(Claim(text, "between", groups, value, threshold=low, upper=high, source=source))
    return Experiment(
        key=f"003/{name}",
        title=title,
        question="Does an item gain more from hard delivery if its few votes are further from all its votes?",
        scale=scale,
        notes=run.notes,
        exhibits=tuple(exhibits),
        claims=tuple(claims),
        apart=apart,
    )


WHERE = "Where does hard delivery help? By"


def figure2(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """By JS distance."""
    return _by_error("figure2", "js", ("train", "evaluation"), "JS distance", scale, seeds, f"{WHERE} JS distance")


def figure5(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """By L1 distance."""
    return _by_error("figure5", "l1", ("train", "evaluation"), "L1 distance", scale, seeds, f"{WHERE} L1 distance")


def figure6(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """By JS distance, where people disagree most."""
    title = f"{WHERE} JS distance, where people disagree most"
    return _by_error("figure6", "js", ("train_high", "evaluation_high"), "JS distance", scale, seeds, title)


def figure4(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Labels held for several epochs."""
    run = at(scale, seeds)
    rows = {"SLS": run.runs("SLS", run.held)}
    rows |= {f"Held {epochs}": seeded(run.holding(epochs), run.held) for epochs in HELD}
    table = ValueTable(
        key="held",
        title="Labels held for several epochs",
        cells={label: {"": runs} for label, runs in rows.items()},
        columns={
            "soft NLL, last epoch": NLL,
            "soft NLL, best epoch": Score("soft_nll", "best"),
            "accuracy": Score("accuracy"),
        },
        picture="dots",
        baseline="SLS",
        note=f"A run has {run.base.epochs} epochs: labels held at least that long are drawn only once. The paper's runs "
        "have 200 epochs, in which labels held for 50 are drawn four times.",
    )
    table, apart = attach(table, printed_numbers("003", "figure4"))
    source = f"{CITATION}, §5.1 and Figure 4"
    beside: dict[str, dict[str, Node]] = {}
    for epochs in HELD:
        beside |= {f"SLS beside Held {epochs}": rows["SLS"], f"Held {epochs}": rows[f"Held {epochs}"]}
    claims = tuple(
        claim
        for checkpoint, words in CHECKPOINTS.items()
        for value in ((Score("soft_nll", checkpoint),),)
        for claim in (
            Claim(
                f"(c) The longer labels are held, the higher the soft NLL ({words}).",
                "rising",
                rows,
                value,
                source=source,
                printed=printed_difference("003", "figure4", "soft_nll", f"Held {HELD[-1]}", "SLS"),
                is_main=checkpoint == "last",
            ),
            Claim(
                f"(c) Labels held 5, 10 or 50 epochs are worse than SLS in every seed (in the paper 5 of 5; {words}).",
                "cells_unanimous",
                beside,
                value,
                threshold=1.0,
                source=source,
            ),
        )
    )
    return Experiment(
        key="003/figure4",
        title="What if labels are drawn less often?",
        question="SLS draws one label per item in every epoch. What if it keeps each label for 5, 10 or 50 epochs?",
        scale=scale,
        notes=run.notes,
        exhibits=(table,),
        claims=claims,
        apart=apart,
    )
