"""The numbers that the papers print, as data beside each recipe: `paperNNN/printed.toml`, one TOML table per exhibit.

An exhibit for which the paper prints no number, such as a figure of curves, has an empty list; an unknown name is an
error. `attach` assigns numbers to cells by key, never by title.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from dissensus.errors import InputError
from dissensus.experiments.description import Exhibit, PaperNumber, Printed, Statistic

CITATIONS = {
    "000": "“Do Soft Labels Enhance Neural Network Training?”",
    "001": "Peterson et al. 2019",
    "002": "Singh et al. 2025",
    "003": "Gheibi & Ghazizadeh 2026",
}
"""What the key of a paper, with which its sources begin in the file, stands for."""

Keys = Mapping[str, type]
MEAN: Statistic = "mean"
E = TypeVar("E", bound=Exhibit[Any])

EXHIBIT: Keys = {"source": str, "seeds": int, "numbers": list}
NUMBER: Keys = {
    "part": str,  # where an exhibit has blocks
    "row": str,
    "column": str,
    "mean": float,  # over seeds or items; or
    "value": float,  # a count, a p-value or another single number
    "sd": float,
    "seeds": int,  # instead of the exhibit's
    "source": str,  # instead of the exhibit's
    "note": str,  # how to read the number; shown after its source
}


def printed_numbers(paper: str, exhibit: str) -> tuple[PaperNumber, ...]:
    """What a paper prints in or about a table or figure. `part` is its block, "" where it has none.

    >>> [(number.row, number.column, number.mean, number.source) for number in printed_numbers("003", "figure11")]
    [('SLS', 'barrier', 2.05, 'Gheibi & Ghazizadeh 2026, Figure 11 (to Soft)')]
    """
    stored = _paper(paper)
    if exhibit not in stored:
        raise _unknown("exhibit", exhibit, stored, f"{paper}.toml")
    return stored[exhibit]


def printed_difference(paper: str, exhibit: str, column: str, first: str, second: str, part: str = "") -> float | None:
    """How far the mean of one row is above that of another, as the paper prints them; None where it does not.

    >>> printed_difference("003", "table2", "soft_nll", "Majority", "Soft")
    0.2188
    """
    means = {
        number.row: number.mean
        for number in printed_numbers(paper, exhibit)
        if (number.part, number.column) == (part, column)
    }
    if first not in means or second not in means:
        return None
    return round(means[first] - means[second], 6)  # printed with at most four decimals


def exhibits(paper: str) -> tuple[str, ...]:
    """The tables and figures of a paper, then `text`: numbers from its text."""
    return tuple(_paper(paper))


def papers() -> tuple[str, ...]:
    """The papers whose numbers are here."""
    return tuple(
        sorted(
            folder.name.removeprefix("paper")
            for folder in files("dissensus.recipes").iterdir()
            if folder.name.startswith("paper") and (folder / "printed.toml").is_file()
        )
    )


def parse(text: str, where: str) -> dict[str, tuple[PaperNumber, ...]]:
    """The exhibits in the text of a numbers file; `where` names it in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML: {error}", where=where, state="") from error
    return {name: _exhibit(table, f"{where}, {name}") for name, table in document.items()}


@cache
def _paper(paper: str) -> dict[str, tuple[PaperNumber, ...]]:
    if paper not in papers():
        raise _unknown("paper", paper, papers(), "numbers")
    name = f"paper{paper}/printed.toml"
    return parse((files("dissensus.recipes") / name).read_text(encoding="utf-8"), name)


def _exhibit(table: Any, where: str) -> tuple[PaperNumber, ...]:
    table = _checked(table, EXHIBIT, ("source", "numbers"), where)
    numbers: dict[tuple[str, str, str], PaperNumber] = {}
    for position, entry in enumerate(table["numbers"], start=1):
        at = f"{where}, number {position}"
        number = _number(_checked(entry, NUMBER, ("row", "column"), at), table, at)
        key = (number.part, number.row, number.column)
        if key in numbers:
            raise InputError(f"{key} is listed twice", where=at, hint="Keep one of the two", state="")
        numbers[key] = number
    return tuple(numbers.values())


def _number(entry: Mapping[str, Any], table: Mapping[str, Any], where: str) -> PaperNumber:
    if ("mean" in entry) == ("value" in entry):
        raise InputError("a number has either a mean or a value", where=where, state="")
    sd = entry.get("sd")
    if sd is not None and ("value" in entry or sd < 0):
        raise InputError(f"sd is {sd}", where=where, hint="It belongs to a mean, and is not negative", state="")
    key, comma, passage = entry.get("source", table["source"]).partition(", ")
    source, note = CITATIONS.get(key, key) + comma + passage, entry.get("note")
    return PaperNumber(
        part=entry.get("part", ""),
        row=entry["row"],
        column=entry["column"],
        mean=float(entry["mean"] if "mean" in entry else entry["value"]),
        sd=None if sd is None else float(sd),
        seeds=entry.get("seeds", table.get("seeds")),
        source=f"{source} ({note})" if note else source,
    )


def _checked(entry: Any, keys: Keys, required: Iterable[str], where: str) -> dict[str, Any]:
    """The entry, if it is a table with known keys, none of the required missing, and values of the right type."""
    if not isinstance(entry, dict):
        raise InputError(f"{entry!r} is not a table", where=where, state="")
    for key, value in entry.items():
        if key not in keys:
            raise _unknown("key", key, keys, where)
        if not _fits(value, keys[key]):
            raise InputError(f"{key} is {value!r}", where=where, hint=f"It must be a {keys[key].__name__}", state="")
    missing = [key for key in required if key not in entry]
    if missing:
        raise InputError(f"there is no {' and no '.join(missing)}", where=where, state="")
    return entry


def _fits(value: Any, kind: type) -> bool:
    if kind is float:  # TOML knows inf and nan, and writes whole floats as integers
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:  # a number of seeds
        return type(value) is int and value > 0
    return isinstance(value, kind)


def _unknown(kind: str, name: str, known: Iterable[str], where: str) -> InputError:
    return InputError(f"there is no {kind} {name!r}", where=where, hint=f"Choose one of: {', '.join(known)}", state="")


def attach(
    exhibit: E,
    numbers: Iterable[PaperNumber],
    *,
    points: Mapping[str, str] | None = None,
    rows: Mapping[str, str] | None = None,
    columns: Mapping[str, str | tuple[str, Statistic]] | None = None,
) -> tuple[E, tuple[PaperNumber, ...]]:
    """The exhibit with the numbers that have a cell in it, and the other numbers.

    `points` maps parts of the paper's exhibit to points of ours; `rows` and `columns` map its names to ours. A column may
    stand for a statistic other than the mean.
    """
    placed, others = list[Printed](), list[PaperNumber]()
    for number in numbers:
        point = (points or {"": ""}).get(number.part)
        row = (rows or {}).get(number.row, number.row)
        column = (columns or {}).get(number.column, number.column)
        value, statistic = column if isinstance(column, tuple) else (column, MEAN)
        if point is not None and point in exhibit.cells.get(row, {}) and value in exhibit.value_names:
            placed.append(Printed(number, row, value, point, statistic))
        else:
            others.append(number)
    return replace(exhibit, printed=(*exhibit.printed, *placed)), tuple(others)
