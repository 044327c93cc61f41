"""PNG by hand: the gallery's pictures go into the page itself, and no imaging library is needed for that."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GREY, _COLOUR = 0, 2  # the format's own colour types


def encode(image: NDArray[Any]) -> bytes:
    """A uint8 image [C, H, W], C 1 (grey) or 3 (red, green, blue), as the bytes of a PNG file."""
    channels, height, width = image.shape
    kinds = {1: _GREY, 3: _COLOUR}
    if image.dtype != np.uint8 or channels not in kinds:
        raise ValueError(f"{image.dtype} {image.shape} is not a uint8 image of 1 or 3 channels")
    lines = np.ascontiguousarray(image.transpose(1, 2, 0)).reshape(height, width * channels)
    unfiltered = np.concatenate(
        [np.zeros((height, 1), np.uint8), lines], axis=1
    )  # a line begins with its filter: 0, none
    header = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(unfiltered.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks)


def data_uri(image: NDArray[Any]) -> str:
    """The same as an address that holds its own content."""
    return "data:image/png;base64," + base64.b64encode(encode(image)).decode("ascii")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
