"""What an encoder is, and what all of them share: names with settings, and packages that may be missing."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from dissensus.errors import InputError

Vectors = NDArray[np.float32]
Reads = Literal["texts", "images"]


class Encoder(Protocol):
    """Texts or images in, vectors out: a pure function with frozen weights.

    `provenance` decides the vectors: what is the same in it may share a cache. `batch` is how many items at once suit it.
    """

    reads: Reads
    batch: int
    provenance: dict[str, Any]

    def __call__(self, items: Any) -> Vectors:
        """float32 [B, D] of a sequence of texts, or of images uint8 [B, C, H, W]."""
        ...


@dataclass(frozen=True)
class Name:
    """An encoder by name, as a spec carries it: `minilm`, `minilm+joint`, `openai:text-embedding-3-large`.

    `family:model@size+joint`: the model where the family has many, the edge in pixels to which images are resized, and
    pairs of texts read as one instead of apart.

    >>> Name.parse("hf:facebook/dinov2-small@224")
    Name(family='hf', model='facebook/dinov2-small', size=224, joint=False)
    """

    family: str
    model: str = ""
    size: int | None = None
    joint: bool = False

    @classmethod
    def parse(cls, text: str) -> Name:
        """The inverse of `str`."""
        match = re.fullmatch(r"([\w-]+)(?::([^@+\s][^@\s]*?))?(?:@([1-9]\d{0,3}))?(\+joint)?", text)
        if match is None:
            raise InputError(
                f"{text!r} is no name of an encoder",
                where="encoder",
                hint="Write it as `minilm`, `minilm+joint` (pairs), `openai:MODEL`, `st:NAME` or `hf:NAME@224` (images)",
                state="",
            )
        family, model, size, joint = match.groups()
        return cls(family, model or "", int(size) if size else None, joint is not None)

    @override
    def __str__(self) -> str:
        model, size = f":{self.model}" if self.model else "", f"@{self.size}" if self.size else ""
        return f"{self.family}{model}{size}" + "+joint" * self.joint


def package(module: str, install: str) -> ModuleType:
    """An optional package, imported; where it is missing, how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"this encoder needs the package {module} ({error})", where="encoder", hint=f"Run `{install}`"
        ) from None
