"""Gheibi and Ghazizadeh 2026 (003), A.5, out-of-distribution images: Tables 7, 8, 9."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dissensus import stats
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import OutOfDistribution
from dissensus.experiments.description import Claim, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Node, measured
from dissensus.experiments.values import Measured
from dissensus.recipes.paper003.settings import CITATION, FAMILY, Seeds, at, exhibit_key
from dissensus.recipes.printed import attach, printed_difference, printed_numbers

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
    numbers = printed_numbers("003", f"table{number}")
    p_values = {f"p_wilcoxon_{value.name}": (value.name, "p") for value in DETECTORS.values()}
    exhibits: list[ValueTable[Node]] = []
    claims: list[Claim[Node]] = []
    unplaced: tuple[PaperNumber, ...] = ()
    for checkpoint, words in run.checkpoints.items():
        measure = OutOfDistribution(
            DataRef(data), checkpoint=checkpoint, items=run.outside.items, neighbour=run.outside.neighbour
        )
        runs = {method: measured(measure, run.runs(method)) for method in (*labels, *apart)}
        note = "AUROC of the evaluation items against these images; no detector is tuned."
        table: ValueTable[Node] = ValueTable(
            key=exhibit_key("auroc", checkpoint),
            title=f"{title}, {words}",
            cells={method: {"": runs[method]} for method in labels},
            columns=DETECTORS,
            baseline="Soft",
            alternative=alternative,
            note=note,
        )
        if checkpoint == run.printed_at:
            table, unplaced = attach(table, numbers, columns=p_values)  # type: ignore[arg-type]
        others: ValueTable[Node] = ValueTable(
            key=exhibit_key("others", checkpoint),
            title=f"Not in the paper's table, {words}",
            cells={method: {"": runs[method]} for method in ("Soft", *apart)},
            columns=DETECTORS,
            baseline="Soft",
            note=note,
        )
        exhibits += [table, others]
        for method in labels:
            if method != "Soft":
                claims += _detects_better(method, number, data, runs, words)
    return Experiment(
        key=f"003/table{number}",
        title=title,
        question="Does the delivery of labels change how well a network detects out-of-distribution images?",
        scale=scale,
        notes=run.notes,
        exhibits=tuple(exhibits),
        claims=tuple(claims),
        apart=unplaced,
    )


def _detects_better(
    method: str, number: int, data: str, runs: Mapping[str, dict[str, Node]], words: str
) -> Iterator[Claim[Node]]:
    """A hard delivery is above Soft with each score for which the paper's numbers say so, and with how many of them."""
    gains = {
        name: gain
        for name, value in DETECTORS.items()
        if (gain := printed_difference("003", f"table{number}", value.name, "Soft", method)) is not None
    }
    source = f"{CITATION}, Table {number}"
    for name, gain in gains.items():
        if gain < 0:
            yield Claim(
                f"{method} detects {NAMES[data]} images better than Soft, with the {name} score ({words}).",
                "lower",
                {label: runs[label] for label in ("Soft", method)},
                (DETECTORS[name],),
                source=source,
                printed=gain,
                is_main=(number, method, name) == (8, "SLS", "Energy") and words.startswith("last"),
            )
    better = sum(gain < 0 for gain in gains.values())
    cells: dict[str, dict[str, Node]] = {}
    for name in gains:
        cells |= {f"Soft beside {method}, {name}": runs["Soft"], f"{method}, {name}": runs[method]}
    yield Claim(
        f"{method} has the higher mean AUROC against {NAMES[data]} than Soft with at least {better} of {len(gains)} "
        f"scores, as in the paper ({words}).",
        "cells_lower",
        cells,
        tuple(DETECTORS[name] for name in gains),
        threshold=better / len(gains),
        source=source,
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
