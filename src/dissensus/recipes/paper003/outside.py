"""Gheibi and Ghazizadeh 2026 (003), A.5, out-of-distribution images: Tables 7, 8, 9."""

from __future__ import annotations

from dissensus import stats
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import OutOfDistribution
from dissensus.experiments.description import Claim, Experiment, ValueTable
from dissensus.experiments.plan import Node, measured
from dissensus.experiments.values import Measured
from dissensus.recipes.paper003.settings import CITATION, FAMILY, Seeds, at
from dissensus.recipes.printed import attach, printed_numbers

NAMES = {"svhn": "SVHN", "cifar100": "CIFAR-100"}
OTHERS = ("Majority", "Label smoothing", "Mixup")
DETECTORS = {
    "Energy": Measured("auroc_energy"),
    "MSP": Measured("auroc_msp"),
    "ODIN": Measured("auroc_odin"),
    "entropy": Measured("auroc_predictive_entropy"),
    "margin": Measured("auroc_margin"),
    "KNN": Measured("auroc_knn"),
}


def _outside(
    number: int,
    title: str,
    data: str,
    labels: tuple[str, ...],
    scale: str,
    seeds: Seeds | None,
    apart: tuple[str, ...],
    alternative: stats.Alternative = "two-sided",
) -> Experiment[Node]:
    """`labels` are the rows of the paper's table; methods in `apart` get a table of their own."""
    run = at(scale, seeds)
    measure = OutOfDistribution(DataRef(data), items=run.outside.items, neighbour=run.outside.neighbour)
    runs = {method: measured(measure, run.runs(method)) for method in (*labels, *apart)}
    note = "AUROC of the evaluation items against these images, at the last epoch; no detector is tuned."
    table: ValueTable[Node] = ValueTable(
        key="auroc",
        title=title,
        cells={method: {"": runs[method]} for method in labels},
        columns=DETECTORS,
        baseline="Soft",
        alternative=alternative,
        note=note,
    )
    p_values = {f"p_wilcoxon_{value.name}": (value.name, "p") for value in DETECTORS.values()}
    numbers = printed_numbers("003", f"table{number}")
    table, unplaced = attach(table, numbers, columns=p_values)  # type: ignore[arg-type]
    others: ValueTable[Node] = ValueTable(
        key="others",
        title="Not in the paper's table",
        cells={method: {"": runs[method]} for method in ("Soft", *apart)},
        columns=DETECTORS,
        baseline="Soft",
        note=note,
    )
    hard = "Multipass" if number == 9 else "SLS"  # SLS against Soft on CIFAR-100 is Table 8
    means = {(printed.row, printed.column): printed.mean for printed in numbers}
    claims = tuple(
        Claim(
            f"{hard} detects {NAMES[data]} images better than Soft, with the {name} score.",
            "lower",
            {method: runs[method] for method in ("Soft", hard)},
            (value,),
            source=f"{CITATION}, Table {number}",
        )
        for name, value in DETECTORS.items()
        if means.get((hard, value.name), 0.0) > means.get(("Soft", value.name), 0.0)  # what the paper's numbers say
    )
    return Experiment(
        key=f"003/table{number}",
        title=title,
        question="Does the delivery of labels change how well a network detects out-of-distribution images?",
        scale=scale,
        notes=run.notes,
        exhibits=(table, others),
        claims=claims,
        apart=unplaced,
    )


def table7(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Far from the training images."""
    return _outside(7, "Out of distribution: SVHN", "svhn", FAMILY, scale, seeds, ("Shuffled SLS", *OTHERS))


def table8(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Near the training images; tested one-sided, as the printed p-values imply."""
    title = "Out of distribution: CIFAR-100"
    return _outside(8, title, "cifar100", ("SLS", "Soft"), scale, seeds, OTHERS, "greater")


def table9(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """Near the training images, all hard deliveries."""
    title = "Out of distribution: CIFAR-100, hard-delivery family"
    return _outside(9, title, "cifar100", FAMILY, scale, seeds, ("Shuffled SLS",))
