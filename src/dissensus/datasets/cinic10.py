"""cinic10_imagenet: the images of CINIC-10 that come from ImageNet (Darlow, Crowley, Antoniou & Storkey, 2018).

The official archive, unpacked to `cinic-10/`: folders train, valid and test, in each a folder per class of CIFAR-10, in
each PNG files of 32×32. A file that came from CIFAR-10 is called `cifar10-train-123.png` and is left out; the others are
called by their ImageNet synset, `n02084071_123.png`: 210,000 in all. They take 645 MB of memory; `part` reads a third.
Where the folder is missing, a sample is read instead (see `samples`), and the notes say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch

from dissensus.datasets import samples
from dissensus.datasets.catalogue import Entry, data_root, share
from dissensus.datasets.cifar10 import CLASSES
from dissensus.datasets.data import Data
from dissensus.datasets.picture_folders import pictures_in, read_pictures
from dissensus.errors import InputError

NAME = "cinic10_imagenet"
FOLDER = "cinic-10"
PARTS = ("train", "valid", "test")
FROM_CIFAR = ("cifar10-", "cifar-10-")  # the second as the read-me writes it
PER_PART = 70_000
SAMPLE = f"{samples.FOLDER}/cinic10-imagenet-sample.npz"
_GET = (
    f"Download CINIC-10.tar.gz (https://datashare.ed.ac.uk/handle/10283/3192) and unpack it to {FOLDER}/, "
    f"or put a sample at {SAMPLE}. {samples.FORM}"
)


def load(part: Literal["all", "train", "valid", "test"] = "all", root: Path | None = None) -> Data:
    """Images uint8 [N, 3, 32, 32] and their classes; ids are `test/cat/n02123045_17`…, or `sample/0`…"""
    if part not in ("all", *PARTS):
        raise InputError(f"part {part!r} is not one of all, {', '.join(PARTS)}", where=NAME, state="")
    root = root or data_root()
    if (root / FOLDER).is_dir():
        return _from_folder(root / FOLDER, PARTS if part == "all" else (part,))
    if not (root / SAMPLE).is_file():
        raise InputError(f"{NAME} is not here: there is no such folder", where=str(root / FOLDER), hint=_GET, state="")
    return samples.sample(NAME, CLASSES, root / SAMPLE)


def _from_folder(folder: Path, parts: tuple[str, ...]) -> Data:
    files, labels, ids = list[Path](), list[int](), list[str]()
    for part in parts:
        for label, name in enumerate(CLASSES):
            if not (folder / part / name).is_dir():
                what = f"CINIC-10 has a folder {part}/{name}, and there is none"
                raise InputError(what, where=str(folder), hint=_GET, state="")
            chosen = [path for path in pictures_in(folder / part / name) if not path.name.startswith(FROM_CIFAR)]
            files += chosen
            labels += [label] * len(chosen)
            ids += [f"{part}/{name}/{path.stem}" for path in chosen]
    if not files:
        raise InputError("there are no pictures from ImageNet in it", where=str(folder), hint=_GET, state="")
    note = f"{share(len(files), PER_PART * len(parts))} images of CINIC-10's ImageNet part are here and were used."
    return Data(
        name=NAME,
        classes=CLASSES,
        ids=tuple(ids),
        x=read_pictures(files, "CINIC-10"),
        gold=torch.tensor(labels),
        notes=() if len(files) == PER_PART * len(parts) else (note,),
    )


def sizes(root: Path) -> Mapping[str, tuple[int, int]]:
    """How many images are present, by the names of the files, or in the sample."""
    if not (root / FOLDER).is_dir():
        present = samples.size(root / SAMPLE)
        return {"images (a sample)" if present else "images": (present, PER_PART * len(PARTS))}
    folders = [root / FOLDER / part / name for part in PARTS for name in CLASSES]
    present = sum(
        not path.name.startswith(FROM_CIFAR) for folder in folders if folder.is_dir() for path in pictures_in(folder)
    )
    return {"images": (present, PER_PART * len(PARTS))}


ENTRY = Entry(
    name=NAME,
    description="CINIC-10: its 210,000 images from ImageNet, of CIFAR-10's classes, 32×32",
    licence="MIT (Darlow et al., 2018); the images under ImageNet's terms, for non-commercial research",
    source="https://github.com/BayesWatch/cinic-10",
    load=load,
    sizes=sizes,
    by_hand=_GET,
)
