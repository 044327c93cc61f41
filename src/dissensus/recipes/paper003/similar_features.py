"""What networks look at (003, A.4): Figures 9 and 12."""

from __future__ import annotations

from collections.abc import Mapping

from dissensus.engine.measures import Cka, GradCam
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment, Training
from dissensus.recipes.paper003.settings import (
    HIGH,
    MAIN,
    Seeds,
    at,
    of_exhibits,
    pairs,
    printed,
)

PAIRS_OF_SEEDS = "(pairs of seeds share seeds, so the interval is narrower than it should be)."


def _others(cells: Mapping[str, tuple[Analysis, ...]], values: tuple[str, ...], names: tuple[str, ...]) -> Exhibit:
    """Apart, and without a picture: labels that were shuffled would set its scale."""
    rest = {method: {"": of} for method, of in cells.items() if method not in MAIN}
    return Exhibit("The other methods", "table", rest, values, names)


def figure9(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Do seeds look at the same places?"""
    run = at(scale, seeds)
    title = "Grad-CAM stability across seeds"
    values, names = ("stability", "stability_high"), ("all items", "items of high disagreement")
    cells = {
        method: tuple(Analysis(GradCam(), run.runs(method, both)) for both in pairs(run.seeds(method)))
        for method in run.own
    }
    exhibit = Exhibit(
        title,
        "dots",
        {method: {"": cells[method]} for method in MAIN},
        values,
        names,
        note="Correlation of the maps of two seeds over the items that both held out; every pair of seeds a dot. Pairs "
        f"share seeds, so the dots are not independent. {HIGH}",
    )
    claims = tuple(
        Claim(
            f"Grad-CAM maps agree more from seed to seed with SLS than with Soft, {where} {PAIRS_OF_SEEDS}",
            "lower",
            {method: cells[method] for method in ("Soft", "SLS")},
            (value,),
            source="003, §5.3 and Figure 9",
        )
        for value, where in zip(values, ("on all items", "where people disagree"), strict=True)
    )
    return of_exhibits(
        "figure9",
        run,
        scale,
        "Do seeds look at the same places?",
        "Are the places that decide the class the same from seed to seed?",
        (exhibit, _others(cells, values, names)),
        run.main,
        claims,
        beside=printed("figure9", {"": title}),
    )


def figure12(scale: str, seeds: Seeds | None = None) -> Experiment:
    """Features."""
    run = at(scale, seeds)
    title = "Linear CKA of penultimate features"
    values, names = ("cka", "cka_unbiased"), ("as printed (biased)", "unbiased")
    within = {
        method: tuple(Analysis(Cka(), run.runs(method, both)) for both in pairs(run.seeds(method))) for method in run.own
    }
    across = {
        f"SLS with {method}": tuple(
            Analysis(Cka(), (Training(run.own["SLS"], a), Training(run.own[method], b)))
            for a, b in pairs(run.seeds("SLS"))
        )
        for method in ("Soft", "Majority")
    }
    exhibit = Exhibit(
        title,
        "dots",
        {label: {"": of} for label, of in (within | across).items() if label in (*MAIN, *across)},
        values,
        names,
        note="Between two seeds of one method, or of two methods, on the items that both held out; every pair a dot.",
    )
    claim = Claim(
        f"Features agree more from seed to seed with SLS than with Soft, by CKA {PAIRS_OF_SEEDS}",
        "lower",
        {method: within[method] for method in ("Soft", "SLS")},
        ("cka",),
        source="003, §5.3 and Figure 12",
    )
    return of_exhibits(
        "figure12",
        run,
        scale,
        "Do the networks see alike?",
        "Are features more alike within a delivery than across deliveries?",
        (exhibit, _others(within, values, names)),
        run.main,
        (claim,),
        beside=printed("figure12", {"": title}, {"cka_within": "cka"}),
    )
