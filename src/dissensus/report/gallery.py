"""The items people disagree on most: the picture, what people said, and what each method says, bar beside bar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from dissensus import metrics
from dissensus.report import png
from dissensus.report.charts import Voice, bar_chart, largest_shares
from dissensus.report.comparison import Comparison
from dissensus.store.run_source import RunSource

ITEMS = 12

Predictions = Mapping[str, Mapping[str, Mapping[str, NDArray[Any]]]]
"""label -> seed -> the arrays that its run kept"""


@dataclass(frozen=True)
class Card:
    """One item: its name, its picture as a data address (None for what is no image), what people said, and the bars."""

    name: str
    picture: str | None
    shares: str
    drawing: Markup


@dataclass(frozen=True)
class Gallery:
    """Cards of the first seed that has predictions."""

    seed: str
    cards: tuple[Card, ...]
    has_truth: bool


def gallery(comparison: Comparison, predictions: Predictions, runs: RunSource) -> Gallery | None:
    """The most disputed evaluation items of one seed, judged by vote entropy; None where no run kept predictions."""
    seeds = [seed for seed in comparison.seeds if any(seed in of_seed for of_seed in predictions.values())]
    if not seeds:
        return None
    seed = seeds[0]
    kept = {label: of_seed[seed] for label, of_seed in predictions.items() if seed in of_seed}
    first = next(iter(kept.values()))
    runs_shown = [run for method in comparison.methods for run in method.runs.values()]
    classes = next((run.facts["classes"] for run in runs_shown if "classes" in run.facts), None)
    if classes is None or len(classes) != first["people"].shape[1]:
        return None
    pictures = _pictures(comparison, seed, runs)
    entropy = metrics.entropy(torch.from_numpy(first["people"]).double()).numpy()
    cards = []
    for index in np.argsort(-entropy, kind="stable")[:ITEMS].tolist():
        row, name = int(first["rows"][index]), str(first["ids"][index])
        people = first["people"][index].astype(np.float64)
        voices = [Voice("People", people)]
        if "truth" in first:
            voices.append(Voice("Truth", first["truth"][index].astype(np.float64), css="truth"))
        for method in comparison.methods:
            arrays = kept.get(method.label)
            here = np.flatnonzero(arrays["rows"] == row) if arrays is not None else None
            if arrays is not None and here is not None and len(here):
                log_probs = torch.log_softmax(torch.from_numpy(arrays["logits"][here]).double(), -1)
                distance = float(metrics.kl(log_probs, torch.from_numpy(people)[None])[0])
                voices.append(Voice(method.label, log_probs.exp().numpy()[0], method.style, kl=distance))
        drawing = bar_chart(voices, classes, f"Item {name}")
        shown = png.data_uri(pictures[row]) if row in pictures else None
        cards.append(Card(name, shown, largest_shares(people, classes), drawing))
    return Gallery(seed, tuple(cards), "truth" in first)


def _pictures(comparison: Comparison, seed: str, runs: RunSource) -> dict[int, NDArray[Any]]:
    for method in comparison.methods:
        arrays = runs.gallery(method.runs[seed].id) if seed in method.runs else None
        if arrays is not None and arrays["x"].ndim == 4:
            return dict(zip(arrays["rows"].tolist(), arrays["x"], strict=True))
    return {}
