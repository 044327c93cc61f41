"""cifar10: the official binary version (Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009).

A record is one label byte and 3,072 pixel bytes: 32×32 red, then green, then blue. Five training files and one test
file of 10,000 records each. Missing files or records make a smaller set, and its notes say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MOMENTS = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the 50,000 training images

Part = Literal["train", "test", "all"]
FOLDER = "cifar-10-batches-bin"
FILES: dict[str, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    "test": ("test_batch.bin",),
}
PER_FILE = 10_000
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32


def load(part: Part = "train", items: int | None = None, root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their labels; ids are `train/0`… and `test/0`… in the official order.

    `all` is the training images and, after them, the test images. `items` keeps only the first of a part, for a quick
    look.
    """
    if part == "all":
        return _joined(load("train", items, root), load("test", items, root))
    if part not in FILES:
        raise InputError(f"part {part!r} is not one of {', '.join(FILES)}, all", where="cifar10", state="")
    folder = (root or data_root()) / FOLDER
    here = [(number, folder / name) for number, name in enumerate(FILES[part]) if (folder / name).is_file()]
    if not here:
        raise missing("cifar10", folder / FILES[part][0])
    records = [_records(path) for _, path in here]
    ids = [
        f"{part}/{number * PER_FILE + row}"
        for (number, _), rows in zip(here, records, strict=True)
        for row in range(len(rows))
    ]
    together = np.concatenate(records)[:items]
    ids = ids[:items]
    official = PER_FILE * len(FILES[part])
    kind = {"train": "training", "test": "test"}[part]
    note = f"{share(len(ids), official)} {kind} images of CIFAR-10 are here and were used."
    return Data(
        name="cifar10",
        classes=CLASSES,
        ids=tuple(ids),
        x=torch.from_numpy(together[:, 1:].reshape(-1, *SHAPE).copy()),
        gold=torch.from_numpy(together[:, 0].astype(np.int64)),
        notes=() if len(ids) == official else (note,),
        moments=MOMENTS,
    )


def _joined(first: Data, second: Data) -> Data:
    """The items of both, one after the other."""
    assert first.x is not None
    assert second.x is not None
    assert first.gold is not None
    assert second.gold is not None
    return replace(
        first,
        ids=first.ids + second.ids,
        x=torch.cat([first.x, second.x]),
        gold=torch.cat([first.gold, second.gold]),
        notes=(*first.notes, *second.notes),
    )


def _records(path: Path) -> NDArray[np.uint8]:
    """[n, RECORD], checked."""
    flat = np.fromfile(path, dtype=np.uint8)
    if not len(flat) or len(flat) % RECORD:
        raise InputError(
            f"{len(flat):,} bytes are not a whole number of records of {RECORD:,} bytes",
            where=str(path),
            hint="Remove the broken file and run `dissensus data get cifar10`",
            state="",
        )
    records = flat.reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= len(CLASSES))
    if len(wrong):
        raise InputError(
            f"record {wrong[0]} has label {records[wrong[0], 0]}, not 0…{len(CLASSES) - 1}",
            where=str(path),
            hint="Get the binary version of CIFAR-10: run `dissensus data get cifar10`",
            state="",
        )
    return records


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images of each part are present, by the sizes of the files."""
    present = {
        part: sum((root / FOLDER / name).stat().st_size // RECORD for name in names if (root / FOLDER / name).is_file())
        for part, names in FILES.items()
    }
    return {f"{part} images": (present[part], PER_FILE * len(names)) for part, names in FILES.items()}


ENTRY = Entry(
    name="cifar10",
    description="CIFAR-10: 60,000 colour images, 32×32, ten classes",
    licence="none stated; its page asks to cite Krizhevsky (2009)",
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            path=".",  # the archive has its own folder inside
            brings=tuple((f"{FOLDER}/{name}", PER_FILE * RECORD) for names in FILES.values() for name in names),
            md5="c32a1d4ab5d03f1284b67883e8d87530",
            md5_source="https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
    ),
)
