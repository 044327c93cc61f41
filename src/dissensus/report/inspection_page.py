"""The page of `dissensus inspect`: one HTML file that needs nothing else, made from what `inspect_votes` gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dissensus.report.svg import Chart, Margins, marker, nice_ticks, padded, specks, tag
from dissensus.votes.read_as import ReadAs

MOST_ROWS = 500
MOST_CLASSES = 20
TOP_CONFUSIONS = 3
WIDTH = 480.0


def inspection_html(name: str, facts: Mapping[str, Any], read_as: ReadAs | None = None) -> str:
    """The whole page as text; equal facts give equal text. `read_as` says how the file was understood."""
    environment = Environment(
        loader=PackageLoader("dissensus.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    people = facts["annotator_table"] or []
    flagged = sum(map(_worth_a_look, people))
    by_interest = sorted(people, key=lambda person: (not _worth_a_look(person), -person["votes"]))
    return environment.get_template("inspection.html").render(
        name=name,
        facts=facts,
        read_as="" if read_as is None else str(read_as),
        notes=() if read_as is None else [note.rstrip(".") for note in read_as.notes],
        warnings=() if read_as is None else [warning.rstrip(".") for warning in read_as.warnings],
        classes_chart=_class_bars(facts["classes"]),
        entropy_chart=_entropy_bars(facts["entropy_histogram"]),
        annotator_chart=_annotator_dots(people),
        people=by_interest[:MOST_ROWS],
        left_out=max(0, len(by_interest) - MOST_ROWS),
        flagged=flagged,
        confused=_confused,
        matrix=_matrix(people, list(facts["classes"])) if len(facts["classes"]) <= MOST_CLASSES else None,
    )


def _worth_a_look(person: Mapping[str, Any]) -> bool:
    return bool(set(person["suspicious"]) - {"too few"})


def _confused(person: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """What an annotator confuses most: (what the others said, what they said, how often)."""
    cells = [
        (others, own, times) for others, row in person["confusion"].items() for own, times in row.items() if own != others
    ]
    return sorted(cells, key=lambda cell: -cell[2])[:TOP_CONFUSIONS]


def _matrix(people: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> list[tuple[str, list[int]]] | None:
    """Everybody's confusions together: per class that most others chose, how often each class was given."""
    if not people:
        return None
    table = {others: dict.fromkeys(classes, 0) for others in classes}
    for person in people:
        for others, row in person["confusion"].items():
            for own, times in row.items():
                table[others][own] += times
    return [(others, list(row.values())) for others, row in table.items()]


def _class_bars(counts: Mapping[str, int]) -> Markup:
    shown = list(counts.items())[:MOST_CLASSES]
    if len(counts) > len(shown):
        shown.append((f"{len(counts) - len(shown)} others", sum(list(counts.values())[MOST_CLASSES:])))
    return _bars(shown, "votes by class")


def _entropy_bars(histogram: Mapping[str, Any]) -> Markup:
    edges = histogram["edges"]
    bins = [("0 (unanimous)", histogram["zero"])]
    bins += [(f"to {high:.2f}", count) for high, count in zip(edges[1:], histogram["counts"], strict=True)]
    return _bars(bins, "items by the entropy of their votes, in nats")


def _bars(rows: Sequence[tuple[str, int]], label: str) -> Markup:
    line, left, right = 18.0, 130.0, 60.0
    most = max(1, *(count for _, count in rows))
    chart = Chart(WIDTH, line * len(rows) + 4, (0, most), (0, 1), Margins(left, right, 0, 0), label)
    for index, (name, count) in enumerate(rows):
        top = index * line + 2
        length = (WIDTH - left - right) * count / most
        chart.add(
            tag("text", _cut(name, 20), x=left - 6, y=top + 12, class_="name", text_anchor="end"),
            tag("rect", x=left, y=top + 2, width=length, height=line - 5, class_="bar m0"),
            tag("text", f"{count:,}", x=left + length + 5, y=top + 12, class_="tick"),
        )
    return chart.render()


def _annotator_dots(people: Sequence[Mapping[str, Any]]) -> Markup | None:
    """One dot per annotator: votes across, agreement with the others upward; a diamond for those worth a look."""
    judged = [person for person in people if person["agreement"] is not None]
    if not judged:
        return None
    across = padded([person["votes"] for person in judged])
    chart = Chart(WIDTH, 260, (max(0.0, across[0]), across[1]), (0, 1), Margins(40, 12, 20, 32), "annotators")
    chart.y_axis(nice_ticks(0, 1), "agreement with the others")
    chart.x_axis(nice_ticks(*chart.x), "votes")
    usual, striking = (
        [chart.at(person["votes"], person["agreement"]) for person in judged if _worth_a_look(person) == wanted]
        for wanted in (False, True)
    )
    chart.add(tag("path", d=specks(usual), class_="specks m0"))
    chart.add(*(marker(point, "diamond", 3.5, class_="mark m1") for point in striking))
    return chart.render()


def _cut(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"
