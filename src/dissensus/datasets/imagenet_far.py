"""imagenet_far: ImageNet classes that stand apart from CIFAR-10's own, under the nearest of its labels.

Peterson et al. (2019) built ImageNet-Far "from classes that might not be under direct inheritance from the
CIFAR10-synonymous classes" and print three examples: ibex and gazelle as deer, zebra as horse. They publish no list. Ours
is `FAR`: their three, and lion, cougar (cat) and bison (deer). `imagenet32/far-classes.csv`, with the columns
synset,class, takes its place where it exists, and the notes say so.

The images come from one of these, the first that exists:
- `imagenet32/`: the .npz files of the downsampled ImageNet (Chrabaszcz et al. 2017; `data` [N, 3072], `labels` 1…1000)
  with `map_clsloc.txt`, which says which synset a number is. Its pickles are never opened;
- `imagenet/`: a folder per synset (n02391049/…) with pictures of any size, scaled with a box filter;
- a sample (see `samples`); the notes say so.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dissensus.datasets import samples
from dissensus.datasets.catalogue import Entry, data_root
from dissensus.datasets.cifar10 import CLASSES
from dissensus.datasets.data import Data
from dissensus.datasets.picture_folders import pictures_in, read_pictures
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays
from dissensus.votes.votes import Ints

NAME = "imagenet_far"
FAR = {
    "n02417914": "deer",  # ibex, printed in the paper
    "n02423022": "deer",  # gazelle, printed
    "n02391049": "horse",  # zebra, printed
    "n02410509": "deer",  # bison
    "n02129165": "cat",  # lion
    "n02125311": "cat",  # cougar
}
ARRAYS, PICTURES = "imagenet32", "imagenet"
LIST, NUMBERS = f"{ARRAYS}/far-classes.csv", f"{ARRAYS}/map_clsloc.txt"
SAMPLE = f"{samples.FOLDER}/imagenet-far-sample.npz"
PIXELS = 3 * 32 * 32
_GET = (
    f"Put the npz files of ImageNet32 (https://image-net.org/download-images.php) and map_clsloc.txt into {ARRAYS}/, "
    f"or a folder per synset into {PICTURES}/, or a sample at {SAMPLE}. {samples.FORM}"
)


def load(root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their CIFAR-10 classes; ids are `n02391049/17`…, or `sample/0`…"""
    root = root or data_root()
    if not (root / ARRAYS).is_dir() and not (root / PICTURES).is_dir():
        if not (root / SAMPLE).is_file():
            raise InputError(
                f"{NAME} is not here: there is no such folder", where=str(root / ARRAYS), hint=_GET, state=""
            )
        return samples.sample(NAME, CLASSES, root / SAMPLE)
    far = _class_list(root / LIST)
    x, synsets, ids = _from_arrays(root, far) if (root / ARRAYS).is_dir() else _from_pictures(root / PICTURES, far)
    if not ids:
        what = f"there is no image of {', '.join(far)} in it"
        raise InputError(what, where=str(root / (ARRAYS if (root / ARRAYS).is_dir() else PICTURES)), hint=_GET, state="")
    own_list = (root / LIST).is_file()
    absent = sorted(far.keys() - set(synsets))
    notes = [
        f"ImageNet-Far was built from {len(far) - len(absent)} ImageNet classes by "
        + (f"the list {LIST}." if own_list else "our list: the paper prints three examples and no list.")
    ]
    notes += [f"No image of {', '.join(absent)} is here."] if absent else []
    gold = torch.tensor([CLASSES.index(far[synset]) for synset in synsets])
    return Data(name=NAME, classes=CLASSES, ids=ids, x=x, gold=gold, notes=tuple(notes))


def _class_list(path: Path) -> dict[str, str]:
    """Synset to CIFAR-10 class: the user's list, or ours."""
    if not path.is_file():
        return FAR
    hint = f"Write a line synset,class and then one per synset, such as n02391049,horse; classes are {', '.join(CLASSES)}"
    with path.open(encoding="utf-8", newline="") as stream:
        try:
            rows = list(csv.DictReader(stream))
        except (csv.Error, UnicodeDecodeError) as problem:
            raise InputError(f"this is not a table ({problem})", where=str(path), hint=hint, state="") from None
    if not rows or not {"synset", "class"} <= rows[0].keys():
        raise InputError("there is no table with the columns synset and class", where=str(path), hint=hint, state="")
    far: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        synset, name = str(row["synset"] or "").strip(), str(row["class"] or "").strip()
        if not re.fullmatch(r"n\d{8}", synset) or name not in CLASSES or synset in far:
            what = f"{synset!r} as {name!r} is no synset with a class of CIFAR-10, or is there twice"
            raise InputError(what, where=f"{path}:{number}", hint=hint, state="")
        far[synset] = name
    return far


def _from_arrays(root: Path, far: Mapping[str, str]) -> tuple[Tensor, list[str], tuple[str, ...]]:
    files = sorted((root / ARRAYS).glob("*.npz"))
    if not files:
        what = "there is no .npz file in it; the pickled form is never opened, since it could run any code"
        raise InputError(what, where=str(root / ARRAYS), hint=_GET, state="")
    numbers = _numbers(root / NUMBERS)
    synset_of = {numbers[synset]: synset for synset in far if synset in numbers}
    wanted = np.array(sorted(synset_of), dtype=np.int64)
    parts, synsets, ids = list[Tensor](), list[str](), list[str]()
    for file in files:  # one at a time: each has up to 130,000 images
        data, labels = _arrays(file)
        rows = np.flatnonzero(np.isin(labels, wanted))
        parts.append(torch.from_numpy(data[rows].reshape(-1, 3, 32, 32)))
        chosen = [synset_of[int(label)] for label in labels[rows]]
        synsets += chosen
        ids += [f"{synset}/{file.stem}/{row}" for synset, row in zip(chosen, rows.tolist(), strict=True)]
    return torch.cat(parts), synsets, tuple(ids)


def _numbers(path: Path) -> dict[str, int]:
    """Which number each synset has in the labels of ImageNet32."""
    hint = "Take map_clsloc.txt from the devkit of ILSVRC2012: its lines are `n02119789 1 kit_fox`"
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), hint=hint, state="")
    lines = [line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        if len(line) < 2 or not re.fullmatch(r"n\d{8}", line[0]) or not re.fullmatch(r"\d{1,4}", line[1]):
            raise InputError(f"{' '.join(line)!r} is no synset and number", where=f"{path}:{number}", hint=hint, state="")
    return {line[0]: int(line[1]) for line in lines}


def _arrays(path: Path) -> tuple[np.ndarray, Ints]:
    try:
        arrays = load_arrays(path)
        data, labels = arrays["data"], arrays["labels"]
    except (InputError, KeyError) as problem:
        what = f"this is not a file of ImageNet32 with data and labels ({getattr(problem, 'what', problem)})"
        raise InputError(what, where=str(path), hint=_GET, state="") from None
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS or labels.shape != data.shape[:1]:
        what = f"data are {data.dtype} {list(data.shape)} and labels {labels.dtype} {list(labels.shape)}"
        raise InputError(f"{what}, not uint8 [N, {PIXELS}] and N", where=str(path), hint=_GET, state="")
    if labels.dtype.kind not in "iu" or (len(labels) and not 1 <= labels.min() <= labels.max() <= 1000):
        raise InputError("the labels are not whole numbers from 1 to 1000", where=str(path), hint=_GET, state="")
    return data, labels.astype(np.int64)


def _from_pictures(folder: Path, far: Mapping[str, str]) -> tuple[Tensor, list[str], tuple[str, ...]]:
    found = [(synset, file) for synset in far if (folder / synset).is_dir() for file in pictures_in(folder / synset)]
    x = read_pictures([file for _, file in found], "ImageNet-Far", scale=True)
    return x, [synset for synset, _ in found], tuple(f"{synset}/{file.stem}" for synset, file in found)


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present; there is no official number. Those in arrays are counted when they are loaded."""
    if (root / ARRAYS).is_dir():
        files = len(list((root / ARRAYS).glob("*.npz")))
        return {"files of ImageNet32": (files, max(files, 1))}
    if (root / PICTURES).is_dir():
        folders = [root / PICTURES / synset for synset in FAR]
        present = sum(len(pictures_in(folder)) for folder in folders if folder.is_dir())
        return {"images": (present, max(present, 1))}
    present = samples.size(root / SAMPLE)
    return {"images (a sample)" if present else "images": (present, max(present, 1))}


ENTRY = Entry(
    name=NAME,
    description="ImageNet-Far: ImageNet classes apart from CIFAR-10's (ibex, gazelle as deer; zebra as horse; …), 32×32",
    licence="ImageNet's terms, for non-commercial research",
    source="https://www.image-net.org/download.php",
    load=load,
    sizes=sizes,
    by_hand=_GET,
)
