"""Samples of image sets that are too large or scattered to download: one .npz of `x` uint8 [N, 32, 32, 3] and `y` [N].

They are images from other sources: with the ten labels of CIFAR-10, in place of the official files of cinic10_imagenet
and imagenet_far, or outside them (tinyimagenet_other). There is no official file of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dissensus.datasets.catalogue import Entry, data_root
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays, stored_rows

FOLDER = "images"
FORM = "It must hold x, uint8 [N, 32, 32, 3], and y, N class numbers"


def read(path: Path, classes: int) -> tuple[Tensor, Tensor]:
    """Images uint8 [N, 3, 32, 32] and labels int64 [N], checked."""
    try:
        arrays = load_arrays(path)
        x, y = arrays["x"], arrays["y"]
    except (InputError, KeyError) as error:
        what = f"this is not a sample of images ({getattr(error, 'what', error)})"
        raise InputError(what, where=str(path), hint=FORM, state="") from error
    images = x.dtype == np.uint8 and x.ndim == 4 and x.shape[1:] == (32, 32, 3) and len(x) > 0
    if not images or y.shape != x.shape[:1] or y.dtype.kind not in "iu":
        raise InputError(
            f"x is {x.dtype} {list(x.shape)} and y is {y.dtype} {list(y.shape)}", where=str(path), hint=FORM, state=""
        )
    labels = y.astype(np.int64)
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"labels {labels.min()}…{labels.max()} are outside 0…{classes - 1}", where=str(path), hint=FORM, state=""
        )
    return torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), torch.from_numpy(labels)


def size(path: Path) -> int:
    """How many images a sample has, read from its header; 0 where the file is missing or broken."""
    return stored_rows(path, "y")


def sample(name: str, classes: tuple[str, ...], path: Path) -> Data:
    """A sample as a data set, whose notes say what it is."""
    x, gold = read(path, len(classes))
    ids = tuple(f"sample/{row}" for row in range(len(x)))
    note = f"{name} is a sample of {len(x):,} images."
    return Data(name=name, classes=classes, ids=ids, x=x, gold=gold, notes=(note,))


OTHER = f"{FOLDER}/tinyimagenet-other-sample.npz"


def load_other(root: Path | None = None) -> Data:
    """Tiny ImageNet images of classes outside CIFAR-10; there is only a sample."""
    path = (root or data_root()) / OTHER
    if not path.is_file():
        raise InputError("tinyimagenet_other is not here: there is no such file", where=str(path), hint=FORM, state="")
    return sample("tinyimagenet_other", tuple(map(str, range(200))), path)


def _sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    present = size(root / OTHER)
    return {"images": (present, max(present, 1))}  # a sample has no official size


TINYIMAGENET_OTHER = Entry(
    name="tinyimagenet_other",
    description="Tiny ImageNet images of classes outside CIFAR-10, 32×32",
    licence="ImageNet's terms, for non-commercial research",
    source="https://www.image-net.org/download.php",
    load=load_other,
    sizes=_sizes,
    by_hand=f"Put it at {OTHER}. {FORM}",
)
