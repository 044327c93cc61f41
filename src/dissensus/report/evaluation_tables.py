"""The judgement of a checkpoint as tables: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dissensus.store.spec import Json

COLUMNS: dict[str, dict[str, str]] = {
    "Scores": {
        "accuracy": "accuracy",
        "nll_gold": "nll_gold",
        "soft_nll": "soft_nll",
        "second_best_accuracy": "SBA",
        "second_best_accuracy_well_defined": "strict",
    },
    "Calibration": {
        "ece_mass_15": "ece_mass_15",
        "smooth_ece": "smooth_ece",
        "confidence_right": "if right",
        "confidence_wrong": "if wrong",
    },
}
"""The metrics of each table, and what their columns are called: narrow enough for 80 characters."""
CALIBRATIONS = {"raw": "", "tempered_votes": ", tempered (votes)", "tempered_gold": ", tempered (labels)"}


@dataclass(frozen=True)
class TextTable:
    """A table of words: one row of heads, and rows of the same length."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def evaluation_tables(document: Json) -> list[TextTable]:
    """What a person reads first; the JSON file has every metric."""
    tables = [
        TextTable(
            title,
            ("", "items", *columns.values()),
            tuple(
                (condition, f"{items:,}", *(_number(scores.get(column)) for column in columns))
                for condition, items, scores in _conditions(document)
                if "accuracy" in scores
            ),
        )
        for title, columns in COLUMNS.items()
    ]
    if document["ood"]:
        names = list(next(iter(document["ood"].values()))["scores"])
        outside = tuple(
            (data, f"{part['items']:,}", *(_number(part["scores"][name]) for name in names))
            for data, part in document["ood"].items()
        )
        heads = ("", "items", *(name.removeprefix("auroc_").removeprefix("predictive_") for name in names))
        tables.append(TextTable("Out of distribution: AUROC of each detector", heads, outside))
    return tables


def evaluation_markdown(document: Json) -> str:
    """The tables, and the notes below them."""
    parts = [f"# {document['model']} on {document['data']['name']}\n"]
    for table in evaluation_tables(document):
        lines = [" | ".join(cells) for cells in (table.heads, ("---",) * len(table.heads), *table.rows)]
        parts.append(f"## {table.title}\n\n" + "\n".join(f"| {line} |" for line in lines) + "\n")
    parts += ["\n".join(f"- {note}" for note in document["notes"]) + "\n"] if document["notes"] else []
    return "\n".join(parts)


def evaluation_csv(document: Json) -> str:
    """One line per number: condition, items, metric, value; an undefined value is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["condition", "items", "metric", "value"])
    for condition, items, scores in _conditions(document):
        writer.writerows(
            [condition, items, metric, "" if value is None else repr(value)]
            for metric, value in scores.items()
            if not isinstance(value, str)
        )
    return stream.getvalue()


def _conditions(document: Json) -> Iterator[tuple[str, int, Mapping[str, float | None]]]:
    """(condition, items, scores), in the order in which they are shown."""
    name, items = document["data"]["name"], document["data"]["items"]
    for calibration, scores in document["scores"].items():
        yield f"{name}{CALIBRATIONS[calibration]}", items, scores
    for attack, part in document["attacks"].items():
        for state, words in (("clean", "before"), ("attacked", "after"), ("noise", "noise sized as")):
            yield f"{words} {attack}", part["items"], part["scores"][state]
    for data, part in document["shifted"].items():
        yield data, part["items"], part["scores"]
    for data, part in document["ood"].items():
        yield f"outside: {data}", part["items"], part["scores"]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
