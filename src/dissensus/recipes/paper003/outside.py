"""Images that a network was not made for (003, A.5): Tables 7, 8, 9."""

from __future__ import annotations

from dataclasses import replace

from dissensus import stats
from dissensus.datasets.data_ref import DataRef
from dissensus.experiments.description import Analysis, Claim, Exhibit, Experiment
from dissensus.probes.detectors import DETECTORS
from dissensus.recipes.paper003.settings import (
    FAMILY,
    Seeds,
    at,
    of_exhibits,
    printed,
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
    apart: tuple[str, ...],
    alternative: stats.Alternative = "two-sided",
) -> Experiment:
    """`labels` are the paper's rows; those `apart` are not in its family of tests."""
    run = at(scale, seeds)
    measure = replace(run.outside, data=DataRef(data))
    cells = {method: {"": tuple(Analysis(measure, node) for node in run.runs(method))} for method in (*labels, *apart)}
    hard = "Multipass" if number == 9 else "SLS"  # SLS against Soft on CIFAR-100 is Table 8
    beside = printed(f"table{number}", {"": title}, {f"p_wilcoxon_{value}": f"{value}:p" for value in AUROC})
    means = {(one.row, one.column): one.mean for one in beside}
    note = "AUROC of the evaluation items against these images, at the last epoch; no detector is tuned."
    ours = {method: cells[method] for method in labels}
    others = {method: cells[method] for method in ("Soft", *apart)}
    exhibits = (
        Exhibit(title, "table", ours, AUROC, DETECTOR_NAMES, baseline="Soft", alternative=alternative, note=note),
        Exhibit("Not in the paper's table", "table", others, AUROC, DETECTOR_NAMES, baseline="Soft", note=note),
    )
    claims = tuple(
        Claim(
            f"{hard} notices images of {NAMES[data]} better than Soft, by {name}.",
            "lower",
            {method: cells[method][""] for method in ("Soft", hard)},
            (value,),
            source=f"003, Table {number}",
        )
        for value, name in zip(AUROC, DETECTOR_NAMES, strict=True)
        if means.get((hard, value), 0.0) > means.get(("Soft", value), 0.0)  # what the paper's numbers say
    )
    return of_exhibits(
        f"table{number}",
        run,
        scale,
        title,
        "Does the delivery of labels change how well a network notices images that it was not made for?",
        exhibits,
        run.main,
        claims,
        beside,
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
