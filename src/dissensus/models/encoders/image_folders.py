"""A folder of pictures as one array for an encoder: the file's name, without its ending, is the item."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dissensus.errors import InputError

ENDINGS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
PIXELS = 256
"""Width and height that pictures are scaled to; encoders scale further down by themselves."""


def picture_names(folder: Path) -> tuple[str, ...]:
    """All pictures of a folder, sorted, without their endings; with them where two differ in nothing else."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in ENDINGS]
    if not paths:
        hint = f"It should hold files that end in {', '.join(sorted(ENDINGS))}"
        raise InputError("there is no picture in this folder", where=str(folder), hint=hint)
    stems = Counter(path.stem for path in paths)
    names = tuple(path.stem if stems[path.stem] == 1 else path.name for path in paths)
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        what = f"two pictures are called {repeated[0]!r}"
        raise InputError(what, where=str(folder), hint="Give every picture its own name")
    return names


def read_folder(folder: Path, items: Sequence[str], pixels: int = PIXELS) -> Tensor:
    """uint8 [N, 3, pixels, pixels], one picture per item; a picture may be named with or without its ending.

    The middle square of each picture is scaled bicubically. Pictures of no item are left alone.
    """
    try:
        from PIL import Image
    except ImportError as problem:
        hint = "Run `pip install 'dissensus[images]'`"
        raise InputError(f"reading pictures needs Pillow ({problem})", where=str(folder), hint=hint) from None
    named = _by_name(folder)
    if absent := [item for item in items if item not in named]:
        what = f"{len(absent):,} of {len(items):,} items have no picture, {absent[0]!r} among them"
        raise InputError(what, where=str(folder), hint="Name each file as its item, such as img17.png for img17")
    if doubtful := [item for item in items if len(named[item]) > 1]:
        paths = " and ".join(str(path.relative_to(folder)) for path in named[doubtful[0]][:2])
        what = f"{len(doubtful):,} items have several pictures: {doubtful[0]!r} may be {paths}"
        raise InputError(what, where=str(folder), hint="Give every picture its own name, or leave one out")
    pictures = np.empty((len(items), pixels, pixels, 3), dtype=np.uint8)
    for row, item in enumerate(items):
        try:
            with warnings.catch_warnings(action="ignore"), Image.open(named[item][0]) as opened:
                picture = opened.convert("RGB")
        except Exception as problem:  # Pillow has no one error for bytes that are no picture, or a bomb
            what = f"this picture cannot be read ({problem or type(problem).__name__})"
            hint = "Save it again as PNG, or remove the file"
            raise InputError(what, where=str(named[item][0]), hint=hint) from None
        side = min(picture.size)
        left, top = ((length - side) // 2 for length in picture.size)
        square = picture.crop((left, top, left + side, top + side))
        pictures[row] = np.asarray(square.resize((pixels, pixels), Image.Resampling.BICUBIC))
    return torch.from_numpy(pictures.transpose(0, 3, 1, 2).copy())


def _by_name(folder: Path) -> dict[str, list[Path]]:
    """The pictures that an item of this name may mean: files of exactly this name, else those that add an ending."""
    full, stems = dict[str, list[Path]](), dict[str, list[Path]]()
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in ENDINGS:
            full.setdefault(path.name, []).append(path)
            stems.setdefault(path.stem, []).append(path)
    return stems | full
