"""CIFAR-10N and CIFAR-100N: `CIFAR-10_human.pt`, a dictionary that torch saved.

From the read-me of Wei et al. (ICLR 2022). `random_label1`, `random_label2` and `random_label3` are three people's
labels of each training image, in the order of CIFAR-10; which people they are differs from image to image, so nobody
is named. `aggre_label` (majority) and `worse_label` (a wrong one, if any) are made from them and are no votes;
`clean_label` is CIFAR-10's own. CIFAR-100N has one label per image, `noisy_label`. The classes are CIFAR's numbers.
The `.npy` form is a pickle, which is never opened.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, TensorDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, refuse_asked
from dissensus.votes.files import row_of_array
from dissensus.votes.votes import Ints, row_names

VOTES = re.compile(r"random_label\d+|noisy_label")
CLASSES = {True: 10, False: 100}  # of CIFAR-10N, which has random labels, and of CIFAR-100N


def _voters(document: Document) -> list[str]:
    if not isinstance(document, TensorDocument) or not isinstance(document.value, dict):
        return []
    random_labels = [name for name in document.value if name.startswith("random_label")]
    return [name for name in random_labels or document.value if VOTES.fullmatch(name)]


def _recognises(document: Document) -> bool:
    return isinstance(document, TensorDocument) and isinstance(document.value, dict)


def _read(document: TensorDocument, asked: Asked) -> VoteRows:
    refuse_asked(
        asked, "items", "annotators", what="images are known by their position, voters not at all", path=document.path
    )
    where = str(document.path)
    names = _voters(document) if asked.labels is None else [asked.labels]
    if not names or names[0] not in document.value:
        there = ", ".join(map(str, list(document.value)[:12]))
        what = f"there is no random_label1 … and no noisy_label in it (there are: {there})"
        raise InputError(what, where=where, hint="Save a matrix of counts or answers, or pass --labels with one of these")
    arrays = [_labels(document, name) for name in names]
    if len({len(array) for array in arrays}) > 1:
        raise InputError("the lists of labels have different lengths", where=where, hint="Download the file again")
    classes = CLASSES[names[0].startswith("random_label")]
    cells = np.stack(arrays, axis=1)
    if cells.size and (cells.min() < 0 or cells.max() >= classes):
        row = int(np.argmax(((cells < 0) | (cells >= classes)).any(1)))
        what = f"a label is {cells[row].tolist()}, outside 0 to {classes - 1}"
        raise InputError(what, where=row_of_array(where, row), hint="Download the file again")
    n, voters = cells.shape
    return VoteRows(
        "CIFAR-N labels",
        {"item": "the position", "label": ", ".join(names)},
        pa.array(np.repeat(np.array(row_names(n), dtype=object), voters), pa.string()),
        pa.array(cells.ravel().astype(str), pa.string()),
        None,
        lambda vote: row_of_array(where, vote // voters),
        classes=row_names(classes),
        ignored=tuple(str(name) for name in document.value if name not in names),
        unnamed=("items", "classes"),
    )


def _labels(document: TensorDocument, name: str) -> Ints:
    assert isinstance(document.value, dict), "only such a document is recognised"
    labels = document.value[name]
    if labels is None or labels.ndim != 1 or labels.dtype.kind not in "iu" or not len(labels):
        which = "" if labels is None else f" (shape {labels.shape}, type {labels.dtype})"
        what = f"{name!r} is no list of whole numbers{which}"
        raise InputError(what, where=str(document.path), hint="Download the file again")
    return labels.astype(np.int64)


CIFAR_N = ExportReader("cifar-n", "CIFAR-N labels", _recognises, _read)
