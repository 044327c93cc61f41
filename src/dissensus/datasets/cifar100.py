"""cifar100: the 10,000 test images of CIFAR-100 (Krizhevsky, 2009): like CIFAR-10, but none of its classes.

The official binary version: a record is a coarse label byte, a fine label byte, and 3,072 pixel bytes as in CIFAR-10.
Where the official file is missing, a sample is read instead (see `samples`): 40 images per class from both official
parts. The notes then say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dissensus.datasets import samples
from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.cifar10 import SHAPE
from dissensus.datasets.data import Data
from dissensus.errors import InputError

FILE = "cifar-100-binary/test.bin"
SAMPLE = f"{samples.FOLDER}/cifar100-sample.npz"
IMAGES = 10_000
RECORD = 2 + 3 * 32 * 32

_NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CLASSES = tuple(_NAMES.split())


def load(root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their fine labels; ids are `test/0`… in the official order, or `sample/0`…"""
    root = root or data_root()
    if (root / FILE).is_file():
        part, (x, gold) = "test", _records(root / FILE)
        note = f"{share(len(x), IMAGES)} test images of CIFAR-100 are here and were used."
    elif (root / SAMPLE).is_file():
        part, (x, gold) = "sample", samples.read(root / SAMPLE, len(CLASSES))
        note = f"A sample of {len(x):,} images of CIFAR-100 was used in place of its {IMAGES:,} test images."
    else:
        raise missing("cifar100", root / FILE)
    return Data(
        name="cifar100",
        classes=CLASSES,
        ids=tuple(f"{part}/{row}" for row in range(len(x))),
        x=x,
        gold=gold,
        notes=() if part == "test" and len(x) == IMAGES else (note,),
    )


def _records(path: Path) -> tuple[Tensor, Tensor]:
    flat = np.fromfile(path, dtype=np.uint8)
    whole = len(flat) > 0 and len(flat) % RECORD == 0
    records = flat.reshape(-1, RECORD) if whole else flat[:0].reshape(0, RECORD)
    if not whole or records[:, 1].max() >= len(CLASSES):
        what = (
            f"fine label {records[:, 1].max()} is not a class"
            if whole
            else f"{len(flat):,} bytes are not a whole number of records"
        )
        raise InputError(
            f"{what} (a record has {RECORD:,} bytes, a coarse and a fine label first)",
            where=str(path),
            hint="Remove it and run `dissensus data get cifar100`",
            state="",
        )
    return torch.from_numpy(records[:, 2:].reshape(-1, *SHAPE).copy()), torch.from_numpy(records[:, 1].astype(np.int64))


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present, in the official file or in the sample."""
    if (root / FILE).is_file():
        return {"test images": ((root / FILE).stat().st_size // RECORD, IMAGES)}
    present = samples.size(root / SAMPLE)
    return {"test images (a sample of both parts)" if present else "test images": (present, IMAGES)}


ENTRY = Entry(
    name="cifar100",
    description="CIFAR-100: 10,000 test images, 32×32, a hundred classes (like CIFAR-10, but none of its classes)",
    licence="none stated; its page asks to cite Krizhevsky (2009)",
    source="https://www.cs.toronto.edu/~kriz/cifar.html",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            path=".",  # the archive has its own folder inside
            brings=((FILE, IMAGES * RECORD),),
            md5="03b5dce01913d631647c71ecec9e9cb8",
            md5_source="https://www.cs.toronto.edu/~kriz/cifar.html",
        ),
    ),
)
