"""Votes from what people have: exports of annotation platforms and files of published crowds, recognised by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dissensus.errors import InputError
from dissensus.votes.assembly import Duplicates, assemble, unknown_label
from dissensus.votes.cells import encode
from dissensus.votes.exports.annotator_folder import ANNOTATOR_FOLDER
from dissensus.votes.exports.answer_matrices import ANSWER_MATRIX, TORCH_MATRIX, answers_in
from dissensus.votes.exports.argilla import ARGILLA
from dissensus.votes.exports.chaos_lines import CHAOSNLI
from dissensus.votes.exports.cifar10h_trials import CIFAR10H_TRIALS
from dissensus.votes.exports.cifar_n import CIFAR_N
from dissensus.votes.exports.crowd_tables import CLEANLAB, CROWD_KIT
from dissensus.votes.exports.crowdflower import CROWDFLOWER
from dissensus.votes.exports.doccano import DOCCANO
from dissensus.votes.exports.documents import (
    Document,
    FolderDocument,
    NotJsonError,
    NumbersDocument,
    TableDocument,
    open_document,
)
from dissensus.votes.exports.label_studio import LABEL_STUDIO
from dissensus.votes.exports.lewidi import LEWIDI
from dissensus.votes.exports.mturk import MTURK
from dissensus.votes.exports.nested_votes import NESTED
from dissensus.votes.exports.peerannot import PEERANNOT
from dissensus.votes.exports.prodigy import PRODIGY
from dissensus.votes.exports.published_counts import DAVIDSON, FER_PLUS
from dissensus.votes.exports.reader import Asked, CountRows, ExportReader, VoteRows
from dissensus.votes.exports.sagemaker import SAGEMAKER
from dissensus.votes.exports.toloka import TOLOKA
from dissensus.votes.exports.zooniverse import ZOONIVERSE
from dissensus.votes.files import PathLike
from dissensus.votes.names import label_name, positions
from dissensus.votes.read_as import ReadAs
from dissensus.votes.trials import Cleaning
from dissensus.votes.votes import Ints, Votes

__all__ = ["EXPORTS", "Cleaning", "ExportReader", "open_export", "read_export"]

EXPORTS: dict[str, ExportReader] = {
    reader.name: reader
    for reader in (
        LABEL_STUDIO,
        ARGILLA,
        PRODIGY,
        DOCCANO,
        CROWD_KIT,
        TOLOKA,
        MTURK,
        CROWDFLOWER,
        SAGEMAKER,
        ZOONIVERSE,
        CLEANLAB,
        PEERANNOT,
        CHAOSNLI,
        LEWIDI,
        ANSWER_MATRIX,
        FER_PLUS,
        DAVIDSON,
        CIFAR_N,
        CIFAR10H_TRIALS,
        TORCH_MATRIX,
        ANNOTATOR_FOLDER,
        NESTED,
    )
}
"""Every reader, by the name that `--format` takes."""

NO_VOTE = "Export the file after it was annotated, or check which annotations count as votes"
FEW_CLASSES = 20  # so many labels are classes, however few votes there are


def open_export(path: PathLike, name: str | None = None) -> Document | None:
    """The file as `read_export` takes it; None for what no platform writes."""
    try:
        return open_document(Path(path))
    except NotJsonError:
        if name is None:
            return None  # whoever reads the table says what is wrong with it
        raise


def read_export(
    path: PathLike,
    *,
    name: str | None = None,
    items: str | None = None,
    labels: str | None = None,
    annotators: str | None = None,
    classes: Sequence[str] | None = None,
    missing: Sequence[str] = (),
    ignore: Sequence[str] = (),
    duplicates: Duplicates = "error",
    cleaning: Cleaning | None = None,
    transposed: bool = False,
    document: Document | None = None,
) -> Votes | None:
    """Votes from the export of a platform, or from a file of a published crowd; None where no reader recognises it.

    The reader is found by the content of the file, or is the one called `name` in `EXPORTS`. `labels` names the question
    to read where an export has several; `items` and `annotators` name other fields than the platform's own ids. Labels
    in `missing` are no votes; columns of a table in `ignore` are left out. What is recognised but is not single-choice
    (several choices, spans, free text, rankings), or is ambiguous, is refused.

    `transposed` reads only what has people where items should be: matrices of answers and peerannot's.

    `cleaning` says which votes of trials with attention checks are left out (`cifar-10h`); as the paper did by default.

    `read_as` of the votes says which platform it was, which fields were used, and what was skipped and why: cancelled,
    rejected and unfinished annotations, predictions by models, answers to control tasks.

    `document` is what `open_export` made of the file, for who has it already.
    """
    if name is not None and name not in EXPORTS:
        raise InputError(f"there is no export {name!r} (there are: {', '.join(EXPORTS)})", where=str(path), state="")
    document = document or open_export(path, name)
    reader = None if document is None else _find(document) if name is None else EXPORTS[name]
    if transposed and reader is None and isinstance(document, NumbersDocument):
        reader = ANSWER_MATRIX
    if transposed and reader not in (None, ANSWER_MATRIX, TORCH_MATRIX, PEERANNOT):
        return None
    if document is None or reader is None:
        if isinstance(document, FolderDocument):
            what = f"this is a folder, not a file, and its {len(document.files)} files are no votes that are known"
            raise InputError(what, where=str(path), hint="Name a file in it, or keep one table per annotator in it")
        if name is not None:
            raise _not_layout(EXPORTS[name], str(path))
        return None
    if ignore:
        document = _without_columns(document, ignore)
    if name is not None and not (reader.accepts or reader.recognises)(document):
        raise _not_layout(reader, str(path))
    if cleaning is not None and reader is not CIFAR10H_TRIALS:
        what = f"{reader.title} has no attention checks to clean by"
        raise InputError(what, where=str(path), hint="Clean trials in the layout of CIFAR-10H's cifar10h-raw.csv")
    asked = Asked(items, labels, annotators, tuple(missing), cleaning, transposed)
    rows = reader.read(document, asked)
    if used := sorted(set(ignore) & {name for columns in rows.columns.values() for name in columns.split(", ")}):
        what = f"the columns of {reader.title} are known, and {used[0]!r} holds votes"
        hint = "Leave --ignore away; --classes and --missing leave out classes, --format reads another layout"
        raise InputError(what, where=str(path), hint=hint)
    order = None if classes is None else tuple(classes)
    if isinstance(rows, CountRows):
        return _from_counts(rows, order, asked, str(path))
    return _from_votes(rows, order, duplicates, asked, str(path))


def read_answers(
    matrix: Ints,
    path: PathLike,
    *,
    classes: Sequence[str] | None,
    missing: Sequence[str],
    duplicates: Duplicates,
    transposed: bool,
) -> Votes:
    """Votes from a matrix of answers [items, annotators]; every number but -1 is one, unless `missing` says otherwise."""
    asked = Asked(missing=tuple(missing) or ("-1",), transposed=transposed)
    order = None if classes is None else tuple(classes)
    return _from_votes(answers_in(matrix, Path(path), asked), order, duplicates, asked, str(path))


def _not_layout(reader: ExportReader, path: str) -> InputError:
    hint = "Leave --format away to let the content decide, or export the file again"
    return InputError(f"this is not the layout of {reader.title}", where=path, hint=hint)


def _without_columns(document: Document, ignore: Sequence[str]) -> Document:
    if not isinstance(document, TableDocument):
        what = "columns can only be ignored in a table"
        raise InputError(what, where=str(document.path), hint="Leave --ignore away: what is not needed is not read")
    return replace(document, table=document.table.without(ignore))


def _find(document: Document) -> ExportReader | None:
    return next((reader for reader in EXPORTS.values() if reader.recognises(document)), None)


def _from_votes(
    rows: VoteRows, classes: tuple[str, ...] | None, duplicates: Duplicates, asked: Asked, where: str
) -> Votes:
    skipped = dict(rows.skipped)
    marks = [*asked.missing, *map(label_name, asked.missing)]
    no_vote = pc.is_in(pc.cast(rows.labels, pa.string()), value_set=pa.array(marks, pa.string())).to_numpy(False)
    if no_vote.any():
        skipped[f"votes for {', '.join(asked.missing)} (--missing)"] = int(no_vote.sum())
    kept = np.flatnonzero(~no_vote)
    if not len(kept):
        raise InputError(f"there is no vote in it{_skips(skipped, '; skipped: ')}", where=where, hint=NO_VOTE)
    label, names = encode(pa.chunked_array([rows.labels.take(kept)]), where)
    if no_vote.any():
        skipped["items without another vote"] = (
            pc.count_distinct(rows.items).as_py() - pc.count_distinct(rows.items.take(kept)).as_py()
        )
    if len(names) > max(FEW_CLASSES, len(kept) / 2) and asked.labels is None:
        question = rows.columns["label"]
        what = f"{question!r} has {len(names):,} different answers in {len(kept):,} votes: it looks like free text"
        hint = f"If these are classes, pass --labels {question}; otherwise name the question with a single choice"
        raise InputError(what, where=where, hint=hint)
    item, items = encode(pa.chunked_array([rows.items.take(kept)]), where)
    people = None if rows.annotators is None else encode(pa.chunked_array([rows.annotators.take(kept)]), where)
    for role, codes in (("item", item), ("label", label), *(() if people is None else (("annotator", people[0]),))):
        if (codes < 0).any():
            place = rows.where(int(kept[np.argmax(codes < 0)]))
            raise InputError(f"the {role} is empty", where=place, hint="Correct or drop the record")
    order = classes if classes is not None else rows.classes
    return assemble(
        item,
        items,
        label,
        names,
        None if people is None else people[0],
        None if people is None else people[1],
        order,
        duplicates,
        lambda vote: rows.where(int(kept[vote])),
        _read_as(rows, skipped),
    )


def _from_counts(rows: CountRows, classes: tuple[str, ...] | None, asked: Asked, where: str) -> Votes:
    counts, order, skipped = rows.counts, rows.classes, dict(rows.skipped)
    items = rows.items
    if asked.missing:
        marks = set(map(label_name, asked.missing))
        if absent := marks - set(order):
            what = f"{min(absent)!r} is none of the classes ({', '.join(order)})"
            raise InputError(what, where=where, hint="Pass --missing with some of these names")
        kept = [name not in marks for name in order]
        skipped[f"votes for {', '.join(asked.missing)} (--missing)"] = int(counts[:, np.invert(kept)].sum())
        counts, order = counts[:, kept], tuple(name for name in order if name not in marks)
        left = counts.sum(1) > 0
        skipped["items without another vote"] = int((~left).sum())
        counts, items = counts[left], tuple(name for name, stays in zip(items, left, strict=True) if stays)
    if classes is not None:
        chosen = positions(classes, order)
        if -1 in chosen:
            raise unknown_label(classes[chosen.index(-1)], order, where)
        before = int(counts.sum())
        counts, order = counts[:, chosen], classes
        if lost := before - int(counts.sum()):
            skipped["votes for classes that --classes leaves out"] = lost
        if not counts.sum(1).all():
            what = f"item {items[int(np.argmin(counts.sum(1)))]!r} has no vote for one of these classes"
            raise InputError(what, where=where, hint="Name more of the classes")
    return Votes.from_counts(counts, classes=order, items=items, read_as=_read_as(rows, skipped))


def _read_as(rows: VoteRows | CountRows, skipped: dict[str, int]) -> ReadAs:
    notes = (_skips(skipped, "skipped: "), *rows.notes)
    said = tuple(note for note in notes if note)
    return ReadAs(rows.layout, rows.columns, rows.ignored, said, rows.warnings, rows.unnamed)


def _skips(skipped: dict[str, int], lead: str) -> str:
    reasons = ", ".join(f"{reason} ({times:,})" for reason, times in skipped.items() if times)
    return lead + reasons if reasons else ""
