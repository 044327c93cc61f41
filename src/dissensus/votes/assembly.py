"""Votes put together from what a reader found: names become classes, and nobody votes twice on an item unnoticed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.names import label_name, positions
from dissensus.votes.read_as import ReadAs
from dissensus.votes.roles import listed
from dissensus.votes.votes import Ints, Votes

Duplicates = Literal["error", "first", "last", "keep"]


def sorted_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Names in the default order of classes: as numbers if all are numbers, else as text.

    >>> sorted_classes(["10", "9", "1"])
    ('1', '9', '10')
    """
    if all(re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def default_classes(labels: Sequence[str]) -> tuple[str, ...]:
    """The classes of a table that does not list them: the labels that occur, by the rule of `names`, sorted.

    >>> default_classes(["2", "1.0", "1"])
    ('1', '2')
    """
    return sorted_classes(tuple(dict.fromkeys(map(label_name, labels))))


def assemble(
    item: Ints,
    items: tuple[str, ...],
    label: Ints,
    labels: tuple[str, ...],
    annotator: Ints | None,
    annotators: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
    duplicates: Duplicates,
    where: Callable[[int], str],
    read_as: ReadAs | None = None,
    times: Ints | None = None,
) -> Votes:
    """Votes from codes; `where` names the row of a vote in messages, `times` says how many votes a row stands for.

    Labels that the rule of `names` makes one are one class.
    """
    classes = classes if classes is not None else default_classes(labels)
    to_class = np.array(positions(labels, classes), dtype=np.int64)
    if (to_class < 0).any():
        vote = int(np.argmax(to_class[label] < 0))
        raise unknown_label(labels[label[vote]], classes, where(vote))
    if annotator is not None and annotators is not None and duplicates != "keep":
        kept = _without_duplicates(item, items, annotator, annotators, duplicates, where)
        if kept is not None:
            item, label, annotator = item[kept], label[kept], annotator[kept]
            times = None if times is None else times[kept]
    arrays = [item, to_class[label], *([] if annotator is None else [annotator])]
    for array in arrays:
        array.flags.writeable = False  # Votes takes frozen arrays without a copy
    people = arrays[2] if annotator is not None else None
    return Votes(arrays[0], arrays[1], items, classes, people, annotators, read_as, times=times)


def _without_duplicates(
    item: Ints,
    items: tuple[str, ...],
    annotator: Ints,
    annotators: tuple[str, ...],
    duplicates: Duplicates,
    where: Callable[[int], str],
) -> Ints | None:
    """The votes to keep; None for all of them, which is known after one sort."""
    pair = item * len(annotators) + annotator
    ordered = np.sort(pair)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    last_first = duplicates == "last"
    _, kept = np.unique(pair[::-1] if last_first else pair, return_index=True)
    kept = np.sort(len(pair) - 1 - kept if last_first else kept)
    if duplicates == "error":
        surplus = np.setdiff1d(np.arange(len(pair)), kept)
        again = int(surplus[0])
        before = int(np.argmax(pair == pair[again]))
        raise InputError(
            f"annotator {annotators[annotator[again]]!r} votes on item {items[item[again]]!r} for the second time "
            f"(first at {where(before)}; {len(surplus)} such rows in all)",
            where=where(again),
            hint="Correct the rows, or pass --duplicates first, last or keep",
        )
    return kept


def unknown_label(label: str, classes: tuple[str, ...], where: str) -> InputError:
    """The error for a label that is not a class; it names the nearest class."""
    near = difflib.get_close_matches(label, classes, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return InputError(
        f"label {label!r} is not one of the classes ({listed(classes)})",
        where=where,
        hint=f"{guess}Correct the row, or pass --classes to name the classes yourself; --missing {label} leaves it out",
    )
