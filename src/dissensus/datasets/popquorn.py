"""popquorn: how polite 3,718 emails are, about 7 ratings each by 506 people.

Pei & Jurgens, When Do Annotator Demographics Matter? Measuring the Influence of Annotator Demographics with the POPQUORN
Dataset (LAW 2023): its politeness ratings, from 1 (not polite at all) to 5 (very polite). One row per rating, in the
columns `instance_id, user_id, text, politeness`; others (who the rater is) are not read. "Soft-Label Training Preserves
Epistemic Uncertainty" (2025) counts 3,700 texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.cells import encode, numbers
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.votes import Ints, Votes

CLASSES = ("1", "2", "3", "4", "5")
FILE = "popquorn/politeness_ratings.csv"
COLUMNS = ("instance_id", "user_id", "text", "politeness")
RATINGS = 25_042


def load(root: Path | None = None) -> Data:
    """Texts with their ratings and raters; items in order of first appearance. There is no gold."""
    path = (root or data_root()) / FILE
    if not path.is_file():
        raise missing("popquorn", path)
    table = open_table(path)
    if absent := [name for name in COLUMNS if name not in table.names]:
        what = f"there is no column {', '.join(absent)} (the columns are: {', '.join(table.names)})"
        raise _not_popquorn(what, str(path))
    columns = dict(zip(COLUMNS, table.columns(COLUMNS), strict=True))
    item, items = _names(table, "instance_id", columns)
    annotator, annotators = _names(table, "user_id", columns)
    text, texts = _names(table, "text", columns)
    note = f"{share(len(item), RATINGS)} ratings of POPQUORN are here and were used."
    return Data(
        name="popquorn",
        classes=CLASSES,
        ids=items,
        votes=Votes(item, _ratings(table, columns["politeness"]), items, CLASSES, annotator, annotators),
        texts=tuple(texts[code] for code in _one_each(table, item, items, text)),
        notes=() if len(item) == RATINGS else (note,),
    )


def _names(table: FileTable, name: str, columns: Mapping[str, pa.ChunkedArray]) -> tuple[Ints, tuple[str, ...]]:
    codes, names = encode(columns[name], f"{table.path}, column {name!r}")
    if (codes < 0).any():
        raise _not_popquorn(f"{name} is empty", table.where(int(np.argmax(codes < 0))))
    return codes, names


def _ratings(table: FileTable, column: pa.ChunkedArray) -> Ints:
    """0…4 [V]; the file may write 3 or 3.0."""
    values = numbers(column)
    if values is None:
        raise _not_popquorn("not every cell of politeness is a number", str(table.path))
    wrong = ~np.isin(values, np.arange(1, len(CLASSES) + 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _not_popquorn(f"politeness is {values[row]:g}, not one of {', '.join(CLASSES)}", table.where(row))
    return values.astype(np.int64) - 1


def _one_each(table: FileTable, item: Ints, items: tuple[str, ...], text: Ints) -> Ints:
    """The text of each item [N], which must be the same in all its rows."""
    of_item = np.empty(len(items), dtype=np.int64)
    of_item[item[::-1]] = text[::-1]  # the last write wins: that of the first row
    differs = of_item[item] != text
    if differs.any():
        row = int(np.argmax(differs))
        raise _not_popquorn(f"instance {items[item[row]]} has another text above", table.where(row))
    return of_item


def _not_popquorn(what: str, where: str) -> InputError:
    return InputError(what, where=where, hint="Remove the file and run `dissensus data get popquorn`", state="")


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many ratings are present."""
    try:
        table = open_table(root / FILE)
        present = len(table.columns(["politeness"])[0]) if "politeness" in table.names else 0
    except InputError:  # missing or broken: `load` says what is wrong
        present = 0
    return {"ratings": (present, RATINGS)}


ENTRY = Entry(
    name="popquorn",
    description="POPQUORN: 25,042 ratings of how polite 3,718 emails are",
    licence="none stated; cite Pei & Jurgens (2023)",
    source="https://github.com/Jiaxin-Pei/Potato-Prolific-Dataset",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(
            url="https://raw.githubusercontent.com/Jiaxin-Pei/Potato-Prolific-Dataset/main/dataset/politeness_rating/raw_data.csv",
            path=FILE,
            brings=((FILE, None),),
        ),
    ),
)
