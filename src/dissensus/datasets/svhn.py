"""svhn: the 26,032 cropped digits of house numbers in the official test part; out of distribution for CIFAR-10.

Netzer, Wang, Coates, Bissacco, Wu & Ng, Reading Digits in Natural Images with Unsupervised Feature Learning (2011). The
file is a MATLAB file: X uint8 [32, 32, 3, N] and y [N, 1], in which 10 means the digit 0. A file with fewer digits is a
smaller set, and its notes say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import scipy.io
import torch

from dissensus.datasets.catalogue import Entry, Remote, data_root, missing, share
from dissensus.datasets.data import Data
from dissensus.errors import InputError

FILE = "svhn/test_32x32.mat"
IMAGES = 26_032
CLASSES = tuple(map(str, range(10)))


def load(root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their digits; ids are `test/0`… in the official order."""
    path = (root or data_root()) / FILE
    if not path.is_file():
        raise missing("svhn", path)
    try:
        stored = scipy.io.loadmat(path, variable_names=["X", "y"])
        x, y = stored["X"], stored["y"].ravel()
    except Exception as error:  # SciPy may raise anything on broken bytes
        raise _refused(path, f"this is not a MATLAB file with X and y ({error})") from error
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.shape[3] != len(y) or not len(y):
        raise _refused(path, f"X is {x.dtype} {list(x.shape)} with {len(y)} labels, not uint8 [32, 32, 3, N] with N")
    if y.min() < 1 or y.max() > 10:
        raise _refused(path, f"labels {y.min()}…{y.max()} are outside 1…10")
    note = f"{share(len(y), IMAGES)} test images of SVHN are here and were used."
    return Data(
        name="svhn",
        classes=CLASSES,
        ids=tuple(f"test/{row}" for row in range(len(y))),
        x=torch.from_numpy(np.ascontiguousarray(x.transpose(3, 2, 0, 1))),
        gold=torch.from_numpy(y.astype(np.int64) % 10),
        notes=() if len(y) == IMAGES else (note,),
    )


def _refused(path: Path, what: str) -> InputError:
    return InputError(what, where=str(path), hint="Remove it and run `dissensus data get svhn`", state="")


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present, read from the header of the file."""
    try:
        shapes = {name: shape for name, shape, _ in scipy.io.whosmat(root / FILE)}
        present = int(shapes["y"][0])
    except Exception:  # missing or broken: `load` says what is wrong
        present = 0
    return {"test images": (present, IMAGES)}


ENTRY = Entry(
    name="svhn",
    description="SVHN: 26,032 test images of house-number digits, 32×32 (out of distribution for CIFAR-10)",
    licence="non-commercial use only; cite Netzer et al. (2011)",
    source="http://ufldl.stanford.edu/housenumbers/",
    load=load,
    sizes=sizes,
    remotes=(
        Remote(
            url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            path=FILE,
            brings=((FILE, None),),
            md5="eb5a983be6a315427106f1b164d9cef3",
            md5_source="https://github.com/pytorch/vision/blob/main/torchvision/datasets/svhn.py",
        ),
    ),
)
