"""Small pictures from files: decoded, scaled to 32×32 where they are larger, one array."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dissensus.errors import InputError

SIDE = 32
ENDINGS = frozenset({".png", ".jpg", ".jpeg"})


def pictures_in(folder: Path) -> list[Path]:
    """The picture files in a folder itself, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)


def read_pictures(files: Sequence[Path], name: str, *, scale: bool = False) -> Tensor:
    """uint8 [N, 3, 32, 32], in the order of the files; grey pictures become colour.

    With `scale`, pictures of another size are scaled with a box filter, as CINIC-10 and ImageNet32 did; without
    they are refused.
    """
    try:
        from PIL import Image
    except ImportError as problem:
        hint = "Run `pip install 'dissensus[images]'`"
        raise InputError(f"reading the pictures of {name} needs Pillow ({problem})", where=name, hint=hint) from None
    pixels = np.empty((len(files), SIDE, SIDE, 3), dtype=np.uint8)
    for row, file in enumerate(files):
        try:
            with warnings.catch_warnings(action="ignore"), Image.open(file) as opened:
                picture = opened.convert("RGB")
        except Exception as problem:  # Pillow has no one error for bytes that are no picture, or a bomb
            hint = "Unpack the data set again, or remove the file"
            what = f"this picture cannot be read ({problem or type(problem).__name__})"
            raise InputError(what, where=str(file), hint=hint, state="") from None
        if picture.size != (SIDE, SIDE):
            if not scale:
                what = f"this picture has {picture.size[0]}×{picture.size[1]} pixels, not {SIDE}×{SIDE}"
                raise InputError(
                    what, where=str(file), hint=f"Use the pictures of {name} as they were published", state=""
                )
            picture = picture.resize((SIDE, SIDE), Image.Resampling.BOX)
        pixels[row] = np.asarray(picture)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
