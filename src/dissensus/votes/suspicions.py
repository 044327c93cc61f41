"""What looks odd about votes that were read: each suspicion is a sentence, with the flag that settles it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from dissensus.votes.cells import nameable
from dissensus.votes.decisions import Wanted
from dissensus.votes.inspection import alpha_of
from dissensus.votes.names import label_name
from dissensus.votes.roles import ENDS_IN_ID, has_role, listed, plain
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Votes

NO_VOTE = {"", "-1", "nan", "na", "n/a", "#n/a", "none", "null", "?", "-", "nil", "missing", "empty"}
FRACTION = re.compile(r"[+-]?[0-9]*[.,][0-9]*[1-9][0-9]*(e[+-]?[0-9]+)?")
WITH_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
FEW_CLASSES = 5
FEW_ITEMS = 5
LONG_NAME = 80
MANY_PER_ITEM = 2
MARKED = {"true", "1", "yes", "x", "t", "y"}
MARKS = {
    "golden", "isgold", "isgolden", "origgolden", "istest", "attentioncheck", "isattentioncheck", "isattncheck",
    "tainted", "missed", "rejected", "reject", "cancelled", "wascancelled", "skipped", "deleted", "isspam",
}  # fmt: skip
STATES = {"status", "state", "assignmentstatus", "annotationstatus", "responsestatus"}
NOT_COUNTED = {
    "rejected", "cancelled", "canceled", "skipped", "discarded", "expired", "draft", "pending", "deleted", "returned",
}  # fmt: skip
MOST_COLUMNS, MOST_CLASSES = 50, 100
MANY_DISPUTED = 15
PEOPLE_IN_COLUMNS = ("wide table", "matrix of answers", "peerannot answers")


def suspicions(votes: Votes, table: FileTable | None, wanted: Wanted) -> list[str]:
    """Everything that looks odd, in words."""
    found = [*_about_names(votes, wanted), *_about_sizes(votes, wanted), *_about_ids(votes), *_about_people(votes)]
    said = () if votes.read_as is None else votes.read_as.notes
    if wanted.missing and not any("--missing" in note for note in said):
        found.append(f"no vote is called {listed(wanted.missing)} (--missing)")
    if table is not None and votes.read_as is not None:
        found += [*_about_items(votes, table), *_about_rows(votes, table)]
    return found


def _about_names(votes: Votes, wanted: Wanted) -> Iterator[str]:
    if wanted.classes is not None:
        return  # the user has named them
    absent = [name for name in votes.classes if name.strip().lower() in NO_VOTE]
    if "-2" in votes.classes:  # a scale through 0
        absent = [name for name in absent if name != "-1"]
    if absent:
        yield f"the class {absent[0]!r} looks like `no vote` (--missing {','.join(absent)} leaves such votes out)"
    alike: dict[str, list[str]] = defaultdict(list)
    for name in votes.classes:
        alike[" ".join(name.casefold().split())].append(name)
    same = [names for names in alike.values() if len(names) > 1]
    if same:
        pairs = "; ".join(" and ".join(map(repr, names)) for names in same[:3])
        yield f"classes differ only in case or blanks: {pairs} (correct the file, or list them in --classes)"
    padded = [name for name in votes.classes if name != name.strip()]
    if padded and not same:
        yield f"the class {padded[0]!r} begins or ends with a blank (correct the file, or list the classes in --classes)"
    known = frozenset(votes.classes)
    joined = [name for name in votes.classes if len(parts := _parts(name)) > 1 and known.issuperset(parts)]
    if joined:
        shown = f"the class {joined[0]!r} is several others at once, as where people may tick more than one"
        yield f"{shown} (--missing {joined[0]!r} leaves such votes out)"
    fractions = [name for name in votes.classes if FRACTION.fullmatch(name)]
    if len(fractions) > 10 and 2 * len(fractions) > len(votes.classes):
        shown = f"{len(fractions):,} of {len(votes.classes):,} classes are fractions ({listed(fractions[:3])}, …)"
        yield f"{shown}: continuous values are no classes (--labels names another column; round or bin them first)"
    if commas := [name for name in votes.classes if WITH_COMMA.fullmatch(name)]:
        yield f"the class {commas[0]!r} is a number with a comma, and is named as it is written (write points instead)"
    nested = [name for name in votes.classes if re.fullmatch(r"\[\{.*\}\]|\{.*\}", name.strip(), re.DOTALL)]
    if nested:
        shown = nested[0] if len(nested[0]) < LONG_NAME else nested[0][:LONG_NAME] + "…"
        yield f"the class {shown!r} is JSON, and the answer only a part of it (write the answers into their own column)"
    long = next((name for name in votes.classes if "\n" in name or len(name) > LONG_NAME), None)
    if long is not None:
        yield f"the class {long[:40] + '…'!r} is long or has several lines: is it a text? (--labels names another column)"


def _about_ids(votes: Votes) -> Iterator[str]:
    """Ids that a spreadsheet shows as the same."""
    for what, names in (("items", votes.items), ("annotators", votes.annotators or ())):
        padded = [name for name in names if name != name.strip()]
        known = frozenset(names) if padded else frozenset()
        if same := [name for name in padded if name.strip() in known]:
            shown = f"the {what} {same[0].strip()!r} and {same[0]!r} differ only in blanks"
            yield f"{shown}, as {len(same):,} do, and count as two (correct the file)"


def _about_people(votes: Votes) -> Iterator[str]:
    """Somebody in a column who says what most others say, always: made from their votes?"""
    wide = votes.read_as is not None and votes.read_as.layout == "wide table"
    if not wide or votes.annotators is None or len(votes.annotators) < 3 or not 1 < len(votes.classes) <= MOST_CLASSES:
        return
    counts, totals = votes.counts, votes.votes_per_item
    second, first = np.partition(counts, -2, axis=1)[:, -2:].T
    for person, name in enumerate(votes.annotators[:MOST_COLUMNS]):
        own = votes.annotator == person
        row = votes.item[own]
        agree = counts[row, votes.label[own]] - 1  # of the others with this one
        others = np.where(
            agree + 1 == first[row], second[row], first[row]
        )  # for the class that most others chose instead
        disputed = np.maximum(agree, others) < totals[row] - 1
        if len(row) == len(votes) and disputed.sum() >= MANY_DISPUTED and (agree >= others).all():
            shown = f"{name!r} has the most frequent label of the others in every row: is it made from them?"
            yield f"{shown} (--ignore {name} leaves it out)"


def _parts(name: str) -> list[str]:
    """`a|b` as a and b, where answers of several choices are written in one cell."""
    return [part.strip() for part in re.split(r"[|;/,]", name)]


def _about_sizes(votes: Votes, wanted: Wanted) -> Iterator[str]:
    items, classes = votes.shape
    occurring = len(np.unique(votes.cells.label)) if wanted.classes is None else 0
    if occurring > max(FEW_CLASSES, items / 10):
        yield f"{classes:,} classes for {items:,} items are many (--labels names another column)"
    per_item = votes.votes_per_item
    if classes == 1 and wanted.classes is None and items >= FEW_ITEMS:
        yield f"there is only one class, {votes.classes[0]!r} (--labels names another column; ticks are no classes)"
    by_place = votes.read_as is not None and votes.read_as.layout in PEOPLE_IN_COLUMNS
    if by_place and votes.annotators is not None and items > 1 and len(votes.annotators) > MANY_PER_ITEM * items:
        shown = (
            f"{len(votes.annotators):,} annotators for {items:,} items: does a row hold a person, and a column an item?"
        )
        yield f"{shown} (--format transposed)"
    if items < FEW_ITEMS:
        return
    times = votes.cells.times
    if int(per_item.max()) == int(per_item.min()) == 100 and len(times) > items and (unit := np.gcd.reduce(times)) > 1:
        yield f"all items have 100 votes, in multiples of {unit}: percentages are no votes (write counts)"
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
    """One row per item in a long table, although another column of ids repeats: the ids may be numbers of rows. Or
    although other columns have the same labels: they may be annotators."""
    assert votes.read_as is not None
    columns = votes.read_as.columns
    if votes.read_as.layout != "long table" or int(votes.votes_per_item.max()) > 1 or len(votes) < FEW_ITEMS:
        return
    people = [name for name in votes.read_as.ignored if name in table.names and _has_labels(table, name, votes.classes)]
    if len(people) > 1:
        shown = ",".join(people)
        yield f"{listed(people)} have the same labels as {columns['label']!r}: are they people? (--columns {shown})"
    candidates = [
        name
        for name in votes.read_as.ignored
        if name in table.names and (has_role(name, "item") or ENDS_IN_ID.fullmatch(name) or name.lower().endswith("id"))
    ]
    for name in candidates[:5]:
        column = table.columns([name])[0]
        if not nameable(column.type):
            continue
        codes, names = table.encoded(name)
        if 1 < len(names) < len(codes):
            yield (
                f"every row has its own {columns['item']!r}, but {name!r} repeats: does that hold the items? "
                f"(--items {name})"
            )


def _about_rows(votes: Votes, table: FileTable) -> Iterator[str]:
    """Rows that a column of their own says are no votes: rejected, cancelled, answers to test questions."""
    assert votes.read_as is not None
    for name in votes.read_as.ignored:
        marks = MARKED if plain(name) in MARKS else NOT_COUNTED if plain(name) in STATES else None
        if marks is None or name not in table.names or not nameable(table.columns([name])[0].type):
            continue
        codes, names = table.encoded(name)
        for code, mark in enumerate(names):
            if mark.strip().lower() in marks:
                times = int((codes == code).sum())
                yield f"{times:,} rows have {name}={mark} and count as votes (if not, take them out of the file)"


def _has_labels(table: FileTable, name: str, classes: tuple[str, ...]) -> bool:
    """Whether every label of a column is a class."""
    column = table.columns([name])[0]
    if not nameable(column.type):
        return False
    labels = {label_name(label) for label in table.encoded(name)[1]}
    return bool(labels) and labels <= set(classes)
