"""Gheibi and Ghazizadeh 2026 (003), A.4, similarity between seeds: Figures 9 and 12."""

from __future__ import annotations

from collections.abc import Mapping

from dissensus.engine.measures import Cka, GradCam
from dissensus.experiments.description import Claim, Experiment, ValueTable
from dissensus.experiments.plan import Node, measured_in_pairs
from dissensus.experiments.values import Checkpoint, Measured, Value, fact
from dissensus.recipes.paper003.settings import CITATION, HIGH, MAIN, Seeds, at, exhibit_key
from dissensus.recipes.printed import attach, printed_difference, printed_numbers

PAIRS_OF_SEEDS = "(the pairs share seeds, so the interval is narrower than it should be)."
STABILITY = {"all items": Measured("stability"), "items of high disagreement": Measured("stability_high")}
MAPS: dict[str, Value] = {
    **STABILITY,
    "maps left out": fact("left_out", "all"),
    "of high disagreement, left out": fact("left_out", "high"),
}
CKA = {"as printed (biased)": Measured("cka"), "unbiased": Measured("cka_unbiased")}


def _others(
    runs: Mapping[str, dict[str, Node]], columns: Mapping[str, Value], checkpoint: Checkpoint, words: str
) -> ValueTable[Node]:
    """In a table of their own, without a picture, whose scale the shuffled labels would dominate."""
    cells = {method: {"": of_method} for method, of_method in runs.items() if method not in MAIN}
    return ValueTable(
        key=exhibit_key("others", checkpoint), title=f"The other methods, {words}", cells=cells, columns=columns
    )


def figure9(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Stability of Grad-CAM maps across seeds."""
    run = at(scale, seeds)
    apart = printed_numbers("003", "figure9")
    exhibits: list[ValueTable[Node]] = []
    claims: list[Claim[Node]] = []
    for checkpoint, words in run.checkpoints.items():
        stability = {method: measured_in_pairs(GradCam(checkpoint), run.runs(method)) for method in run.own}
        table: ValueTable[Node] = ValueTable(
            key=exhibit_key("stability", checkpoint),
            title=f"Grad-CAM stability across seeds, {words}",
            cells={method: {"": stability[method]} for method in MAIN},
            columns=MAPS,
            picture="dots",
            note="Correlation of the maps of two seeds over the items that both held out; one dot per pair of seeds. "
            "Pairs share seeds, so the dots are not independent. Maps that are 0 everywhere have no correlation and are "
            f"left out. {HIGH}",
        )
        if checkpoint == run.printed_at:
            table, apart = attach(table, apart)
        exhibits += [table, _others(stability, MAPS, checkpoint, words)]
        claims += [
            Claim(
                f"Grad-CAM maps are more similar between seeds with SLS than with Soft, {where}, {words} "
                f"{PAIRS_OF_SEEDS}",
                "lower",
                {method: stability[method] for method in ("Soft", "SLS")},
                (value,),
                source=f"{CITATION}, §5.3 and Figure 9",
                printed=printed_difference("003", "figure9", value.name, "Soft", "SLS"),
            )
            for value, where in zip(STABILITY.values(), ("on all items", "where people disagree"), strict=True)
        ]
    return Experiment(
        key="003/figure9",
        title="Do networks of different seeds look at the same places?",
        question="Are the image regions that determine the class the same from seed to seed?",
        scale=scale,
        notes=run.notes,
        exhibits=tuple(exhibits),
        claims=tuple(claims),
        apart=apart,
    )


def figure12(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Similarity of features."""
    run = at(scale, seeds)
    apart = printed_numbers("003", "figure12")
    exhibits: list[ValueTable[Node]] = []
    claims: list[Claim[Node]] = []
    for checkpoint, words in run.checkpoints.items():
        measure = Cka(checkpoint)
        within = {method: measured_in_pairs(measure, run.runs(method)) for method in run.own}
        across = {
            f"SLS with {method}": measured_in_pairs(measure, run.runs("SLS"), run.runs(method))
            for method in ("Soft", "Majority")
        }
        shown = {label: runs for label, runs in (within | across).items() if label in (*MAIN, *across)}
        table: ValueTable[Node] = ValueTable(
            key=exhibit_key("cka", checkpoint),
            title=f"Linear CKA of penultimate features, {words}",
            cells={label: {"": runs} for label, runs in shown.items()},
            columns=CKA,
            picture="dots",
            note="Between two seeds of one method, or of two methods, on the items that both held out; one dot per pair.",
        )
        if checkpoint == run.printed_at:
            table, apart = attach(table, apart, columns={"cka_within": "cka"})
        exhibits += [table, _others(within, CKA, checkpoint, words)]
        claims.append(
            Claim(
                f"Features are more similar between seeds with SLS than with Soft, by CKA, {words} {PAIRS_OF_SEEDS}",
                "lower",
                {method: within[method] for method in ("Soft", "SLS")},
                (Measured("cka"),),
                source=f"{CITATION}, §5.3 and Figure 12",
                printed=printed_difference("003", "figure12", "cka_within", "Soft", "SLS"),
                is_main=checkpoint == "last",
            )
        )
    return Experiment(
        key="003/figure12",
        title="Do the networks learn similar features?",
        question="Are features more similar within a delivery than across deliveries?",
        scale=scale,
        notes=run.notes,
        exhibits=tuple(exhibits),
        claims=tuple(claims),
        apart=apart,
    )
