"""CIFAR-10H: `cifar10h-raw.csv`, one row per trial of every annotator, cleaned as the paper did (see `votes.trials`).

Attention checks are no votes: their images are not from the test set (`cifar10_test_test_idx` is -99999). The item is the
image's position in CIFAR-10's test set, and the votes come in its order, so that row i of their counts is image i.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, refuse_asked
from dissensus.votes.trials import CLASSES, IMAGE, LABEL, WHO, Cleaning, is_trials, read_trials


def _recognises(document: Document) -> bool:
    return isinstance(document, TableDocument) and is_trials(document.names)


def _read(document: TableDocument, asked: Asked) -> VoteRows:
    what = "the columns of CIFAR-10H's per-annotator file are known"
    refuse_asked(asked, "items", "labels", "annotators", what=what, path=document.path)
    trials = read_trials(document.table)
    sifted = trials.sift(asked.cleaning or Cleaning())
    kept = np.flatnonzero(sifted.kept)
    rows = kept[np.argsort(trials.image[kept], kind="stable")]
    columns = {"item": IMAGE, "annotator": WHO, "label": LABEL}
    return VoteRows(
        "trials of CIFAR-10H",
        columns,
        pa.array(trials.image[rows].astype(str), pa.string()),
        pa.array(np.array(CLASSES)[trials.label[rows]], pa.string()),
        pa.array(np.array(trials.people)[trials.annotator[rows]], pa.string()),
        lambda vote: document.where(int(rows[vote])),
        classes=CLASSES,
        ignored=tuple(name for name in document.names if name not in columns.values()),
        skipped=sifted.removed,
        notes=sifted.notes,
    )


CIFAR10H_TRIALS = ExportReader("cifar-10h", "trials of CIFAR-10H", _recognises, _read)
