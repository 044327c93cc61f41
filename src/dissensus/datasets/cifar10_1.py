"""cifar10.1_v4 and cifar10.1_v6: new test images for CIFAR-10's classes (Recht, Roelofs, Schmidt & Shankar, 2018).

The official files: `cifar10.1_v4_data.npy`, uint8 [N, 32, 32, 3], and `cifar10.1_v4_labels.npy`, N class numbers in the
order of CIFAR-10; the same for v6. v4 has 2,021 images and is not balanced; v6 has 200 per class; most are in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch

from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.cifar10 import CLASSES
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays, stored_rows
from dissensus.votes.votes import Ints

FOLDER = "cifar10.1"
IMAGES = {"v4": 2_021, "v6": 2_000}


def _load(version: str, root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their labels; ids are `v4/0`… in the official order."""
    name = _name(version)
    files = [(root or data_root()) / path for path in _paths(version)]
    for file in files:
        if not file.is_file():
            raise missing(name, file)
    x, y = (_array(file, name) for file in files)
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[1:] != (32, 32, 3) or not len(x):
        raise _refused(files[0], f"the images are {x.dtype} {list(x.shape)}, not uint8 [N, 32, 32, 3]", name)
    if y.dtype.kind not in "iu" or y.shape != x.shape[:1]:
        raise _refused(files[1], f"the labels are {y.dtype} {list(y.shape)} for {len(x):,} images", name)
    labels: Ints = y.astype(np.int64)
    if labels.min() < 0 or labels.max() >= len(CLASSES):
        raise _refused(files[1], f"labels {labels.min()}…{labels.max()} are outside 0…{len(CLASSES) - 1}", name)
    note = f"{share(len(x), IMAGES[version])} images of CIFAR-10.1 {version} are here and were used."
    return Data(
        name=name,
        classes=CLASSES,
        ids=tuple(f"{version}/{row}" for row in range(len(x))),
        x=torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2))),
        gold=torch.from_numpy(labels),
        notes=() if len(x) == IMAGES[version] else (note,),
    )


def _array(path: Path, name: str) -> np.ndarray:
    try:
        return load_arrays(path)[""]
    except KeyError:  # an .npz under this name
        raise _refused(path, "this is an archive, not one array", name) from None
    except InputError as error:
        raise _refused(path, f"this is not a NumPy file of numbers ({error.what})", name) from error


def _refused(path: Path, what: str, name: str) -> InputError:
    return InputError(what, where=str(path), hint=f"Remove it and run `dissensus data get {name}`", state="")


def _name(version: str) -> str:
    return f"cifar10.1_{version}"


def _paths(version: str) -> tuple[str, str]:
    stem = f"{FOLDER}/cifar10.1_{version}"
    return f"{stem}_data.npy", f"{stem}_labels.npy"


def _entry(version: str, description: str) -> Entry:
    def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
        return {"images": (min(stored_rows(root / path) for path in _paths(version)), IMAGES[version])}

    source = "https://raw.githubusercontent.com/modestyachts/CIFAR-10.1/master/datasets"
    return Entry(
        name=_name(version),
        description=description,
        licence="as Tiny Images; cite Recht et al. (2018) and Torralba et al. (2008)",
        source="https://github.com/modestyachts/CIFAR-10.1",
        load=partial(_load, version),
        sizes=sizes,
        remotes=tuple(
            Remote(url=f"{source}/{Path(path).name}", path=path, brings=((path, None),)) for path in _paths(version)
        ),
    )


V4 = _entry("v4", "CIFAR-10.1 v4: 2,021 new images of CIFAR-10's classes, not balanced, 32×32")
V6 = _entry("v6", "CIFAR-10.1 v6: 2,000 new images of CIFAR-10's classes, 200 of each, 32×32")
