"""cifar10h: about 51 votes on each of the 10,000 CIFAR-10 test images.

Peterson, Battleday, Griffiths & Russakovsky, Human uncertainty makes classification more robust (ICCV 2019). The votes
are the released counts, in the order of the CIFAR-10 test set: 511,000 in all. Only the raw rows (`annotators=True`) say
who voted; there are slightly more of them: 2,571 annotators with 200 images each, 514,200 votes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from dissensus.datasets import cifar10
from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.votes import Votes

FOLDER = "cifar10h"
COUNTS = "cifar10h-counts.npy"
RAW = "cifar10h-raw.csv"
IMAGES = 10_000

_GET_AGAIN = "Remove it and run `dissensus data get cifar10h`"


def load(annotators: bool = False, items: int | None = None, root: Path | None = None) -> Data:
    """The test images with their votes; `annotators=True` reads the raw rows, which say who voted.

    `items` keeps only the first items, for a quick look.
    """
    root = root or data_root()
    path = root / FOLDER / (RAW if annotators else COUNTS)
    if not path.is_file():
        raise missing("cifar10h", path)
    images = cifar10.load("test", root)
    if items is not None:
        assert images.x is not None
        assert images.gold is not None
        images = replace(images, ids=images.ids[:items], x=images.x[:items], gold=images.gold[:items])
    votes = (_raw if annotators else _counts)(path, images.ids)
    note = f"{share(len(images), IMAGES)} images of CIFAR-10H are here and were used."
    return replace(images, name="cifar10h", votes=votes, notes=() if len(images) == IMAGES else (note,))


def _counts(path: Path, ids: tuple[str, ...]) -> Votes:
    """Row i of the matrix is image i of the test set."""
    try:
        counts = np.load(path)
    except (ValueError, EOFError) as error:
        raise InputError(f"this is not a NumPy file ({error})", where=str(path), hint=_GET_AGAIN, state="") from error
    if counts.ndim != 2 or counts.shape[1] != len(cifar10.CLASSES) or len(counts) < len(ids):
        raise InputError(
            f"counts of shape {list(counts.shape)} do not fit {len(ids):,} images and {len(cifar10.CLASSES)} classes",
            where=str(path),
            hint=_GET_AGAIN,
            state="",
        )
    return Votes.from_counts(counts[: len(ids)], classes=cifar10.CLASSES, items=ids)


def _raw(path: Path, ids: tuple[str, ...]) -> Votes:
    """One row per trial. Attention checks are left out: their images are not from the test set."""
    columns = ["annotator_id", "is_attn_check", "chosen_label", "cifar10_test_test_idx"]
    types = dict.fromkeys(columns, pa.int64())
    options = arrow_csv.ConvertOptions(include_columns=columns, column_types=types)
    try:
        table = arrow_csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(
            f"this is not the raw file of CIFAR-10H ({error})", where=str(path), hint=_GET_AGAIN, state=""
        ) from error
    annotator, check, label, item = (table[name].to_numpy() for name in columns)
    kept = (check == 0) & (item < len(ids))
    people, annotator = np.unique(annotator[kept], return_inverse=True)
    return Votes(item[kept], label[kept], ids, cifar10.CLASSES, annotator, tuple(map(str, people)))


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present, and how many rows of counts."""
    counts = root / FOLDER / COUNTS
    rows = len(np.load(counts, mmap_mode="r")) if counts.is_file() else 0
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
