"""Votes and predictions written to files that the readers can read back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike as PathLikeObject
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dissensus.errors import InputError
from dissensus.votes.assembly import default_classes
from dissensus.votes.decisions import Format, check_format
from dissensus.votes.delimited import DELIMITERS, swallowed_rows
from dissensus.votes.files import Kind, PathLike, kind_of
from dissensus.votes.joined_cells import separator_of
from dissensus.votes.matrix_layouts import needs_listed_classes
from dissensus.votes.parquet_files import METADATA_CLASSES
from dissensus.votes.read import classes_file
from dissensus.votes.roles import RANKS
from dissensus.votes.votes import Floats, Ints, Votes, row_names

ROWS_AT_ONCE = 1 << 20  # text is rendered in parts, so that it is never in memory as a whole


def write_votes(
    votes: Votes,
    path: PathLike,
    format: Format | None = None,  # noqa: A002  (the name a caller expects)
    *,
    drop_annotators: bool = False,
    drop_names: bool = False,
) -> None:
    """Write votes as a long table (the default), a wide table, or a count matrix (the default of .npy and .npz).

    `read_votes` gives back the same items and classes in the same order, and the same votes. What a format cannot hold
    is refused, unless you allow its loss: a count matrix has no annotators (`drop_annotators`), an .npy has no names
    (`drop_names`). Votes are written in their order if their items come in the order of `items`, else item by item;
    annotators without a vote are not kept.

    The order of the classes, and classes that nobody chose, are kept in the metadata of a Parquet file and in the header
    of a count matrix. For other tables they are written to `votes.csv.classes.json`, only where they differ from what
    `read_votes` takes by default (the labels that occur, sorted); for a count matrix, where a class would be taken for
    something else (`label`, `total`). The file is written completely or not at all.
    """
    check_format(format)
    kind = _writable_kind(path)
    layout = format or ("counts" if kind in ("npy", "npz") else "long")
    _check_names(votes, path)
    if layout == "counts" and votes.annotator is not None and not drop_annotators:
        hint = "Write a long table, or pass drop_annotators=True"
        raise InputError("a count matrix cannot hold who voted", where=str(path), hint=hint)
    if kind in ("npy", "npz"):
        if layout != "counts":
            raise InputError(f"NumPy files hold count matrices, not {layout} tables", where=str(path), hint="Write a CSV")
        _write_arrays(votes, path, kind, drop_names)
        return
    columns = _long(votes) if layout == "long" else _wide(votes, path) if layout == "wide" else _counts(votes)
    _check_lines(columns, kind, path)
    with _replacing(path) as file:
        if kind == "parquet":
            metadata = {METADATA_CLASSES: json.dumps(votes.classes)}
            pa.parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), file)
        else:
            _write_sidecar(path, votes.classes if _needs_sidecar(votes, layout) else None)
            _write_text(file, kind, columns)


def write_predictions(
    target: PathLike | BinaryIO, probs: Floats, classes: Sequence[str], ids: Sequence[str] | None = None
) -> None:
    """Write a matrix [N, K] so that `read_predictions` gives it back: one column per class, after one with the ids.

    A stream gets CSV. An .npy cannot hold names; the other formats number the rows where there are no ids.
    """
    rows = row_names(len(probs)) if ids is None else tuple(ids)
    names = {_item_column(classes): pa.array(rows, pa.string())}
    columns = names | {name: pa.array(column) for name, column in zip(classes, probs.T, strict=True)}
    if not isinstance(target, (str, PathLikeObject)):
        _write_text(target, "csv", columns)
        return
    kind = _writable_kind(target)
    with _replacing(target) as file:
        if kind == "npy":
            np.save(file, probs)
        elif kind == "npz":
            np.savez_compressed(file, probs=probs, ids=np.array(rows), classes=np.array(classes))
        elif kind == "parquet":
            pa.parquet.write_table(pa.table(columns), file)
        else:
            _write_text(file, kind, columns)


def _writable_kind(path: PathLike) -> Kind:
    kind, extension = kind_of(path), Path(path).suffix.lower()
    if kind == "json" or extension in (".gz", ".txt"):
        raise InputError(
            f"{extension} files are read but not written", where=str(path), hint="Write .csv, .jsonl or .parquet"
        )
    return kind


def _check_lines(columns: dict[str, pa.Array], kind: Kind, path: PathLike) -> None:
    """Refuse names that a reader would have to take for rows swallowed by an open quote."""
    if kind not in DELIMITERS:
        return
    for place, column in enumerate(columns.values()):
        names = column.dictionary if pa.types.is_dictionary(column.type) else column
        for name in names.to_pylist() if pa.types.is_string(names.type) else ():
            if swallowed_rows(name, place, len(columns), DELIMITERS[kind]):
                what = f"the name {name!r} looks like rows that an open quote swallowed"
                raise InputError(what, where=str(path), hint="Write a .jsonl or .parquet file")


def _check_names(votes: Votes, path: PathLike) -> None:
    for names in (votes.items, votes.classes, votes.annotators or ()):
        bad = next((name for name in names if not name or "\0" in name or not _is_unicode(name)), None)
        if bad is not None:
            what = f"the name {bad!r} cannot be written: no reader could tell it from a missing or broken one"
            raise InputError(what, where=str(path), hint="Rename it")


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _named(codes: Ints, names: Sequence[str]) -> pa.Array:
    """A column of names; a code of -1 is a missing cell."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), pa.array(names, pa.string()))


def _long(votes: Votes) -> dict[str, pa.Array]:
    first = np.empty(len(votes.items), np.int64)
    item = votes.item  # refused where there are too many to be listed, before anything of that length is made
    first[item[::-1]] = np.arange(len(item))[::-1]  # the last write wins, so the first appearance stays
    in_order = bool((np.diff(first) > 0).all())
    order = np.arange(len(item)) if in_order else np.argsort(item, kind="stable")
    columns = {"item": _named(item[order], votes.items)}
    if votes.annotator is not None and votes.annotators is not None:
        columns["annotator"] = _named(votes.annotator[order], votes.annotators)
    return {**columns, "label": _named(votes.label[order], votes.classes)}


def _wide(votes: Votes, path: PathLike) -> dict[str, pa.Array]:
    if votes.annotator is None or votes.annotators is None:
        what = "a wide table has one column per annotator, and these votes have no annotators"
        raise InputError(what, where=str(path), hint="Write a long table or counts")
    voters, person = np.unique(votes.annotator, return_inverse=True)
    cells = np.full((len(voters), len(votes.items)), -1)
    cells[person, votes.item] = votes.label
    if int((cells >= 0).sum()) < votes.n_votes:
        what = "a wide table has one cell per item and annotator, and somebody voted twice on an item"
        raise InputError(what, where=str(path), hint="Write a long table")
    names = [votes.annotators[index] for index in voters]
    columns = {name: _named(row, votes.classes) for name, row in zip(names, cells, strict=True)}
    return {_item_column(names): pa.array(votes.items, pa.string()), **columns}


def _counts(votes: Votes) -> dict[str, pa.Array]:
    columns = {name: pa.array(column) for name, column in zip(votes.classes, votes.counts.T, strict=True)}
    return {_item_column(votes.classes): pa.array(votes.items, pa.string()), **columns}


def _needs_sidecar(votes: Votes, layout: Format) -> bool:
    """Whether the reader would take other classes than these from the table alone."""
    if layout == "counts":
        return needs_listed_classes(votes.counts, votes.classes)
    if separator_of(votes.classes) is not None:  # several votes in one cell, to a reader
        return True
    return default_classes([votes.classes[index] for index in np.unique(votes.cells.label)]) != votes.classes


def _item_column(taken: Sequence[str]) -> str:
    """A name for the item column that no class or annotator has."""
    return next(name for name in ("item", *sorted(RANKS["item"][0])) if name not in taken)


def _write_arrays(votes: Votes, path: PathLike, kind: Kind, drop_names: bool) -> None:
    numbered = votes.items == row_names(len(votes.items)) and votes.classes == row_names(len(votes.classes))
    if kind == "npy" and not numbered and not drop_names:
        hint = "Write an .npz or a table, or pass drop_names=True"
        raise InputError("an .npy cannot hold the names of items and classes", where=str(path), hint=hint)
    with _replacing(path) as file:
        if kind == "npy":
            np.save(file, votes.counts)
        else:
            np.savez_compressed(file, counts=votes.counts, items=np.array(votes.items), classes=np.array(votes.classes))


def _write_text(file: BinaryIO, kind: Kind, columns: dict[str, pa.Array]) -> None:
    """Write lines of text, joined by Arrow: a name is rendered once, however many votes it has."""
    render: Callable[[str], str]
    if kind == "jsonl":
        render, missing = _json_cell, "null"
        heads = [f"{', ' if index else '{'}{_json_cell(name)}: " for index, name in enumerate(columns)]
        end = "}\n"
    else:
        delimiter, missing, end = DELIMITERS[kind], "", "\n"
        render = _delimited_cell(delimiter)
        heads = [delimiter if index else "" for index in range(len(columns))]
        file.write((delimiter.join(map(render, columns)) + end).encode())
    rendered = [_rendered(column, render) for column in columns.values()]
    for start in range(0, len(rendered[0][0]), ROWS_AT_ONCE):
        parts = [names.take(codes.slice(start, ROWS_AT_ONCE)) for codes, names in rendered]
        pieces = [piece for head, part in zip(heads, parts, strict=True) for piece in (head, part)]
        lines = pc.binary_join_element_wise(*pieces, end, "", null_handling="replace", null_replacement=missing)
        file.write("".join(lines.to_pylist()).encode())


def _rendered(column: pa.Array, render: Callable[[str], str]) -> tuple[pa.Array, pa.Array]:
    """Codes, and the text of what they stand for."""
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        column = pc.cast(column, pa.string()).dictionary_encode()
        return column.indices, column.dictionary
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return column.indices, pa.array(map(render, column.dictionary.to_pylist()), pa.string())


def _json_cell(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _delimited_cell(delimiter: str) -> Callable[[str], str]:
    def render(name: str) -> str:
        special = any(mark in name for mark in (delimiter, '"', "\n", "\r"))
        return '"' + name.replace('"', '""') + '"' if special else name

    return render


def _write_sidecar(path: PathLike, classes: tuple[str, ...] | None) -> None:
    """Write the classes beside a table; None removes a file that would describe an older table."""
    if classes is None:
        classes_file(path).unlink(missing_ok=True)
        return
    with _replacing(classes_file(path)) as file:
        file.write((json.dumps(classes, ensure_ascii=False) + "\n").encode())


@contextmanager
def _replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is complete."""
    if Path(path).exists() and not Path(path).is_file():  # a rename would put a file in the place of a device
        raise InputError("this is not a regular file", where=str(path), hint="Name a file")
    target = Path(os.path.realpath(path))  # so that a link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=str(path), hint="Check the folder") from None
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed
            partial.unlink(missing_ok=True)
