"""The items people disagree on most: the picture, what people said, and what each method says, bar beside bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray

from dissensus import metrics
from dissensus.report import png, svg
from dissensus.report.comparisons import Comparison
from dissensus.report.panels import Predictions
from dissensus.report.svg import Chart, Margins, Style, group, tag
from dissensus.report.wording import fixed, shortened
from dissensus.store.run_source import RunSource

ITEMS = 12
CLASSES = 12  # with more, the ones that anybody gives the largest share are drawn


@dataclass(frozen=True)
class Card:
    """One item: its name, its picture as a data address (None for what is no image), what people said, and the bars."""

    name: str
    picture: str | None
    said: str
    drawing: Markup


@dataclass(frozen=True)
class Gallery:
    """Cards of the first seed that has predictions."""

    seed: int
    cards: tuple[Card, ...]
    has_truth: bool


@dataclass(frozen=True)
class _Voice:
    """Somebody's distribution over the classes."""

    name: str
    shares: NDArray[np.float64]
    style: Style | None
    kl: float | None


def gallery(table: Comparison, predictions: Predictions, ledger: RunSource, classes: Sequence[str]) -> Gallery | None:
    """The most disputed evaluation items of one seed, judged by vote entropy; None where no run kept predictions."""
    seeds = [seed for seed in table.seeds if any(seed in of_seed for of_seed in predictions.values())]
    if not seeds:
        return None
    seed = seeds[0]
    kept = {label: of_seed[seed] for label, of_seed in predictions.items() if seed in of_seed}
    first = next(iter(kept.values()))
    pictures = _pictures(table, seed, ledger)
    disputed = np.argsort(-metrics.entropy(torch.from_numpy(first["people"]).double()).numpy(), kind="stable")[:ITEMS]
    cards = []
    for row in first["rows"][disputed].tolist():
        voices = []
        place = int(np.flatnonzero(first["rows"] == row)[0])
        people = first["people"][place].astype(np.float64)
        voices.append(_Voice("People", people, None, None))
        if "truth" in first:
            voices.append(_Voice("Truth", first["truth"][place].astype(np.float64), None, None))
        for method in table.methods:
            arrays = kept.get(method.label)
            here = np.flatnonzero(arrays["rows"] == row) if arrays is not None else np.array([], dtype=np.int64)
            if arrays is None or len(here) == 0:
                continue
            log_probs = torch.log_softmax(torch.from_numpy(arrays["logits"][here]).double(), -1)
            distance = float(metrics.kl(log_probs, torch.from_numpy(people)[None])[0])
            voices.append(_Voice(method.label, log_probs.exp().numpy()[0], method.style, distance))
        cards.append(
            Card(
                str(first["ids"][place]),
                png.data_uri(pictures[row]) if row in pictures else None,
                _said(people, classes),
                _bars(voices, classes, str(first["ids"][place])),
            )
        )
    return Gallery(seed, tuple(cards), "truth" in first)


def _pictures(table: Comparison, seed: int, ledger: RunSource) -> dict[int, NDArray[Any]]:
    for method in table.methods:
        arrays = ledger.gallery(method.runs[seed].id) if seed in method.runs else None
        if arrays is not None and arrays["x"].ndim == 4:
            return dict(zip(arrays["rows"].tolist(), arrays["x"], strict=True))
    return {}


def _said(people: NDArray[np.float64], classes: Sequence[str]) -> str:
    """`4 52%, 9 40%, 7 8%`: the three largest shares."""
    largest = [place for place in np.argsort(-people, kind="stable")[:3] if people[place] > 0]
    return ", ".join(f"{classes[place]} {people[place]:.0%}" for place in largest)


def _bars(voices: Sequence[_Voice], classes: Sequence[str], name: str) -> Markup:
    """A strip of bars for each voice, classes in the same columns; the outline in a method's strip is the people's."""
    shown = _shown_classes(voices, len(classes))
    names = [classes[place] for place in shown]
    upright = max(map(len, names)) <= 2
    pitch, top = 22.0, 4.0
    margins = Margins(112, 34, top, 16 if upright else 52)
    height = top + pitch * len(voices) + margins.bottom
    told = "; ".join(f"{voice.name}: {_said(voice.shares, classes)}" for voice in voices)
    chart = Chart(320, height, (0, len(shown)), (0, 1), margins, f"Item {name}. {told}")
    width = (320 - margins.left - margins.right) / len(shown)
    people, tallest = voices[0].shares[shown], max(float(voice.shares.max()) for voice in voices)
    for index, voice in enumerate(voices):
        ground = top + pitch * (index + 1) - 3
        label = shortened(voice.name, 17)
        pieces = [
            tag("text", label, x=margins.left - 7, y=ground - 3, class_="name", text_anchor="end"),
            tag("path", d=svg.path([(margins.left, ground), (320 - margins.right, ground)]), class_="grid"),
            tag("path", d=_strip(voice.shares[shown] / tallest, margins.left, ground, width, pitch - 5), class_="bar"),
        ]
        if voice.style is not None:
            pieces.append(tag("path", d=_strip(people / tallest, margins.left, ground, width, pitch - 5), class_="ghost"))
        if voice.kl is not None:
            pieces.append(tag("text", fixed(voice.kl, 2), x=320.0, y=ground - 3, class_="tick", text_anchor="end"))
        tooltip = f"{voice.name}: {_said(voice.shares, classes)}"
        if voice.style is None:
            chart.add(
                tag("g", tag("title", tooltip) + Markup("").join(pieces), class_="people" if index == 0 else "truth")
            )
        else:
            chart.add(group(voice.style, *pieces, tooltip=tooltip))
    for index, text in enumerate(names):
        x = margins.left + (index + 0.5) * width
        y = top + pitch * len(voices) + 9
        if upright:
            chart.add(tag("text", text, x=x, y=y, class_="tick", text_anchor="middle"))
        else:
            turned = f"rotate(-55 {svg.short(x + 3)} {svg.short(y)})"
            chart.add(tag("text", shortened(text, 11), x=x + 3, y=y, class_="tick", text_anchor="end", transform=turned))
    return chart.render()


def _shown_classes(voices: Sequence[_Voice], classes: int) -> list[int]:
    if classes <= CLASSES:
        return list(range(classes))
    largest = np.max([voice.shares for voice in voices], axis=0)
    return sorted(int(place) for place in np.argsort(-largest, kind="stable")[:CLASSES])


def _strip(shares: NDArray[np.float64], left: float, ground: float, width: float, height: float) -> str:
    """All bars of a voice as one path: bars of no visible height are left out."""
    gap = min(2.0, width * 0.15)
    parts = []
    for index, share in enumerate(shares):
        tall = float(share) * height
        if tall < 0.05:
            continue
        x = left + index * width + gap
        up, across = svg.short(tall), svg.short(width - 2 * gap)
        parts.append(f"M{svg.short(x)} {svg.short(ground)}v-{up}h{across}v{up}z")
    return "".join(parts)
