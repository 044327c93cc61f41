"""One rule for the names of classes, in every kind of file; and names matched with names.

- Text is a name as it is written: `01` is not `1`, `Cat` is not `cat`, `NA` is a name (unless --missing says otherwise).
- Two exceptions, for labels alone: a number without a fraction is named without one (`1.0`, `1.` and `1` are `1`), and
  `True`, `TRUE` and `true` are `true`; likewise `false`. Spreadsheets and pandas rewrite these behind the user's back.
- Values of typed files (JSON, Parquet, NumPy) are named as they would be written: 1 and 1.0 are `1`, true is `true`.

The exceptions give way where the classes are listed (--classes, Parquet metadata, `votes.csv.classes.json`) with the very
spelling of the file. Ids of items and annotators are taken as written; where the ids of two files are not the same, the
rule for labels decides whether they are the same after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dissensus.votes.votes import row_names

WHOLE = re.compile(r"([+-]?[0-9]+)\.0*")
BOOLEANS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}


def label_name(text: str) -> str:
    """The name of the class that a label means.

    >>> [label_name(text) for text in ("1", "1.0", "01", "2.50", "False", "cat ")]
    ['1', '1', '01', '2.50', 'false', 'cat ']
    """
    if text and text[-1] in "0." and (whole := WHOLE.fullmatch(text)):
        return whole[1]
    return BOOLEANS.get(text, text)


def positions(names: Iterable[str], among: Sequence[str]) -> list[int]:
    """The position of each name in `among`, as written or else by the rule for labels; -1 where it is not there.

    >>> positions(["2.0", "10", "x"], ["10", "2"])
    [1, 0, -1]
    """
    exact = {name: index for index, name in enumerate(among)}
    by_rule: dict[str, int] = {}
    for index, name in enumerate(among):
        key = label_name(name)
        by_rule[key] = -1 if key in by_rule else index  # two that the rule makes one are told apart only as written
    return [exact[name] if name in exact else by_rule.get(label_name(name), -1) for name in names]


def class_positions(names: Sequence[str], classes: Sequence[str]) -> tuple[list[int], bool]:
    """The class of each name, or -1; and whether the names are numbers of classes, because none of them is a name of one.

    >>> class_positions(["10", "2"], ["10", "2"]), class_positions(["1", "0"], ["cat", "dog"])
    (([0, 1], False), ([1, 0], True))
    """
    found = positions(names, classes)
    if names and all(index < 0 for index in found):
        by_number = positions(names, row_names(len(classes)))
        if any(index >= 0 for index in by_number):
            return by_number, True
    return found, False
