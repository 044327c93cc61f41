"""ChaosNLI: one JSON object per line, with how many of 100 people chose each class.

From the files of Nie, Zhou & Bansal (EMNLP 2020): `uid`, `label_count` in the order entailment, neutral,
contradiction, `label_counter` with the letters e, n, c, and `entropy` in bits. The part on abductive NLI has two
hypotheses, 1 and 2. The three fields hold the same votes, and all must agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, LinesDocument, head_of
from dissensus.votes.exports.reader import Asked, CountRows, ExportReader, needed, refuse_asked

CLASSES = ("entailment", "neutral", "contradiction")
LETTERS = {CLASSES: "enc", ("1", "2"): "12"}  # how `label_counter` names the classes
SAME_ENTROPY = 1e-9  # bits


def chaos_counts(row: Mapping[str, Any], classes: tuple[str, ...] = CLASSES) -> list[int]:
    """`label_count` of one line, which must agree with the two other fields that hold the votes; else a ValueError."""
    counts, counter = list(row["label_count"]), row["label_counter"]
    if any(type(count) is not int or count < 0 for count in counts) or len(counts) != len(classes):
        raise ValueError(f"label_count {counts} is not {len(classes)} counts")
    letters = LETTERS[classes]
    if [counter.get(letter, 0) for letter in letters] != counts or set(counter) - set(letters):
        raise ValueError(f"label_count {counts} and label_counter {counter} differ")
    if (total := sum(counts)) == 0:
        raise ValueError("there is no vote")
    bits = -sum(count / total * math.log2(count / total) for count in counts if count)
    if abs(bits - float(row["entropy"])) > SAME_ENTROPY:
        raise ValueError(f"the entropy of {counts} is {bits:.6f} bits, not {row['entropy']}")
    return counts


def why(error: Exception) -> str:
    """What was wrong with a line, in words."""
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)


def _recognises(document: Document) -> bool:
    return any({"uid", "label_count", "label_counter"} <= set(row) for row in head_of(document))


def _read(document: JsonDocument | LinesDocument, asked: Asked) -> CountRows:
    what = "a line of ChaosNLI has one id, `uid`, and the counts of one question"
    refuse_asked(asked, "items", "labels", "annotators", what=what, path=document.path)
    items: list[str] = []
    counts: list[list[int]] = []
    abductive = any(isinstance(row.get("label_count"), list) and len(row["label_count"]) == 2 for row in document.head)
    classes = ("1", "2") if abductive else CLASSES
    for place, row in document.records():
        try:
            counts.append(chaos_counts(row, classes))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            what = f"this is not a line of ChaosNLI ({why(error)})"
            raise InputError(what, where=str(place), hint="Download the file again") from None
        items.append(needed(row.get("uid"), "uid", place))
    return CountRows(
        "ChaosNLI lines",
        {"item": "uid", "count": "label_count"},
        tuple(items),
        np.array(counts, dtype=np.int64),
        classes,
        lambda row: f"{document.path}, item {items[row]!r}",
        ignored=tuple(
            name for name in document.head[0] if name not in ("uid", "label_count", "label_counter", "entropy")
        ),
    )


CHAOSNLI = ExportReader("chaosnli", "ChaosNLI lines", _recognises, _read)
