"""cifar10h: about 51 votes on each of the 10,000 CIFAR-10 test images.

Peterson, Battleday, Griffiths & Russakovsky, Human uncertainty makes classification more robust (ICCV 2019). The votes
are the released counts, in the order of the CIFAR-10 test set: 511,000 in all. Only the raw rows (`annotators=True`) say
who voted: 2,571 annotators with 200 images each, 514,200 votes, before those who failed attention checks are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from dissensus.datasets import cifar10
from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays, stored_rows
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.trials import Cleaning, is_trials, read_trials
from dissensus.votes.votes import Votes

FOLDER = "cifar10h"
COUNTS = "cifar10h-counts.npy"
RAW = "cifar10h-raw.csv"
IMAGES = 10_000

_GET_AGAIN = "Remove it and run `dissensus data get cifar10h`"


def load(annotators: bool = False, items: int | None = None, passing: float = 0.75, root: Path | None = None) -> Data:
    """The test images with their votes; `annotators=True` reads the raw rows, which say who voted.

    Of the raw rows, those of annotators with less than `passing` of their attention checks right are left out, as in the
    paper; 0 keeps everybody. `items` keeps only the first items, for a quick look.
    """
    root = root or data_root()
    path = root / FOLDER / (RAW if annotators else COUNTS)
    if not path.is_file():
        raise missing("cifar10h", path)
    images = cifar10.load("test", items, root)
    votes, notes = _raw(path, images.ids, Cleaning(passing)) if annotators else (_counts(path, images.ids), ())
    if len(images) != IMAGES:
        notes = (f"{share(len(images), IMAGES)} images of CIFAR-10H are here and were used.", *notes)
    return replace(images, name="cifar10h", votes=votes, notes=notes)


def _counts(path: Path, ids: tuple[str, ...]) -> Votes:
    """Row i of the matrix is image i of the test set."""
    try:
        counts = load_arrays(path)[""]
    except (InputError, KeyError) as error:
        what = f"this is not a NumPy file of counts ({getattr(error, 'what', 'it is an archive')})"
        raise InputError(what, where=str(path), hint=_GET_AGAIN, state="") from error
    if counts.ndim != 2 or counts.shape[1] != len(cifar10.CLASSES) or len(counts) < len(ids):
        raise InputError(
            f"counts of shape {list(counts.shape)} do not fit {len(ids):,} images and {len(cifar10.CLASSES)} classes",
            where=str(path),
            hint=_GET_AGAIN,
            state="",
        )
    return Votes.from_counts(counts[: len(ids)], classes=cifar10.CLASSES, items=ids)


def _raw(path: Path, ids: tuple[str, ...], cleaning: Cleaning) -> tuple[Votes, tuple[str, ...]]:
    """The votes that cleaning leaves, and sentences on what it removed."""
    trials = read_trials(_table(path))
    sifted = trials.sift(cleaning)
    kept = sifted.kept & (trials.image < len(ids))
    people, annotator = np.unique(trials.annotator[kept], return_inverse=True)
    names = tuple(trials.people[person] for person in people)
    notes = tuple(f"{count:,} {reason} were left out." for reason, count in sifted.removed.items() if count)
    return Votes(trials.image[kept], trials.label[kept], ids, cifar10.CLASSES, annotator, names), notes


def _table(path: Path) -> FileTable:
    try:
        table = open_table(path)
    except InputError as problem:
        what = f"this is not the raw file of CIFAR-10H ({problem.what})"
        raise InputError(what, where=problem.where, hint=_GET_AGAIN, state="") from None
    if not is_trials(table.names):
        what = f"this is not the raw file of CIFAR-10H (its columns are {', '.join(table.names[:20])})"
        raise InputError(what, where=str(path), hint=_GET_AGAIN, state="")
    return table


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present, and how many rows of counts."""
    rows = stored_rows(root / FOLDER / COUNTS)
    images, _ = cifar10.sizes(root)["test images"]
    return {"rows of counts": (rows, IMAGES), "test images": (images, IMAGES)}


_DATA = "https://raw.githubusercontent.com/jcpeterson/cifar-10h/master/data"

ENTRY = Entry(
    name="cifar10h",
    description="CIFAR-10H: 511,000 human votes on the CIFAR-10 test images",
    licence="CC BY-NC-SA 4.0 (votes); cite Peterson et al. (2019)",
    source="https://github.com/jcpeterson/cifar-10h",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(url=f"{_DATA}/{COUNTS}", path=f"{FOLDER}/{COUNTS}", brings=((f"{FOLDER}/{COUNTS}", 800_128),)),
        Remote(url=f"{_DATA}/cifar10h-raw.zip", path=FOLDER, brings=((f"{FOLDER}/{RAW}", None),)),
        *cifar10.ENTRY.remotes,
    ),
)
