"""What looks odd about votes that were read: each suspicion is a sentence, with the flag that settles it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from dissensus.votes.cells import encode, nameable
from dissensus.votes.inspection import alpha_of
from dissensus.votes.layouts import Wanted
from dissensus.votes.roles import ENDS_IN_ID, has_role, listed
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Votes

NO_VOTE = {"", "-1", "nan", "na", "n/a", "#n/a", "none", "null", "?", "-", "nil", "missing", "empty"}
FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]*[1-9][0-9]*(e[+-]?[0-9]+)?")
FEW_CLASSES = 5
FEW_ITEMS = 5
LONG_NAME = 80


def suspicions(votes: Votes, table: FileTable | None, wanted: Wanted) -> list[str]:
    """Everything that looks odd, in words."""
    found = [*_about_names(votes, wanted), *_about_sizes(votes, wanted)]
    if table is not None and votes.read_as is not None:
        found += _about_items(votes, table)
    return found


def _about_names(votes: Votes, wanted: Wanted) -> Iterator[str]:
    if wanted.classes is not None:
        return  # the user has named them
    absent = [name for name in votes.classes if name.strip().lower() in NO_VOTE]
    if absent:
        yield f"the class {absent[0]!r} looks like `no vote` (--missing {','.join(absent)} leaves such votes out)"
    alike: dict[str, list[str]] = defaultdict(list)
    for name in votes.classes:
        alike[" ".join(name.casefold().split())].append(name)
    same = [names for names in alike.values() if len(names) > 1]
    if same:
        pairs = "; ".join(" and ".join(map(repr, names)) for names in same[:3])
        yield f"classes differ only in case or blanks: {pairs} (correct the file, or list them in --classes)"
    known = frozenset(votes.classes)
    joined = [name for name in votes.classes if len(parts := _parts(name)) > 1 and known.issuperset(parts)]
    if joined:
        shown = f"the class {joined[0]!r} is several others at once, as where people may tick more than one"
        yield f"{shown} (--missing {joined[0]!r} leaves such votes out)"
    fractions = [name for name in votes.classes if FRACTION.fullmatch(name)]
    if len(fractions) > 10 and 2 * len(fractions) > len(votes.classes):
        shown = f"{len(fractions):,} of {len(votes.classes):,} classes are fractions ({listed(fractions[:3])}, …)"
        yield f"{shown}: continuous values are no classes (--labels names another column; round or bin them first)"
    long = next((name for name in votes.classes if "\n" in name or len(name) > LONG_NAME), None)
    if long is not None:
        yield f"the class {long[:40] + '…'!r} is long or has several lines: is it a text? (--labels names another column)"


def _parts(name: str) -> list[str]:
    """`a|b` as a and b, where answers of several choices are written in one cell."""
    return [part.strip() for part in re.split(r"[|;/]", name)]


def _about_sizes(votes: Votes, wanted: Wanted) -> Iterator[str]:
    items, classes = votes.shape
    occurring = len(np.unique(votes.cells.label)) if wanted.classes is None else 0
    if occurring > max(FEW_CLASSES, items / 10):
        yield f"{classes:,} classes for {items:,} items are many (--labels names another column)"
    if items < FEW_ITEMS:
        return
    per_item = votes.votes_per_item
    if int(per_item.max()) == 1:
        yield "every item has one vote: nobody can disagree (--items names another column)"
        return
    if len(votes.cells.item) == items:
        yield "every item is unanimous: nobody disagrees (is this an aggregated label? --labels names another column)"
        return
    alpha = alpha_of(votes.cells, per_item)
    if alpha is not None and round(alpha, 3) < 0:
        shown = f"Krippendorff's alpha is {alpha:.3f}: people agree less than by chance"
        yield f"{shown} (--items, --labels and --format say how to read the file)"


def _about_items(votes: Votes, table: FileTable) -> Iterator[str]:
    """One row per item in a long table, although another column of ids repeats: the ids may be numbers of rows."""
    assert votes.read_as is not None
    columns = votes.read_as.columns
    if votes.read_as.layout != "long table" or int(votes.votes_per_item.max()) > 1 or len(votes) < FEW_ITEMS:
        return
    candidates = [
        name
        for name in votes.read_as.ignored
        if name in table.names and (has_role(name, "item") or ENDS_IN_ID.fullmatch(name) or name.lower().endswith("id"))
    ]
    for name in candidates[:5]:
        column = table.columns([name])[0]
        if not nameable(column.type):
            continue
        codes, names = encode(column, str(table.path))
        if 1 < len(names) < len(codes):
            yield (
                f"every row has its own {columns['item']!r}, but {name!r} repeats: does that hold the items? "
                f"(--items {name})"
            )
