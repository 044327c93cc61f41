"""What was encoded once is not encoded again: vectors on disk by the content they were made of.

One folder per encoder, named by what decides its vectors; in it chunks of some hundred rows, each written whole when it
is full or the work ends, also by an interruption. Nothing is ever rewritten, so processes may share a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissensus.datasets.catalogue import user_cache
from dissensus.datasets.feature_files import file_name, write_arrays
from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Vectors
from dissensus.store.spec import canonical
from dissensus.votes.array_files import load_arrays

CHUNK = 512  # rows: about 15 s of MiniLM on one core, or a few requests to a service


class Cache:
    """Vectors by key. Used as a context, it writes what it was given also when the block ends early."""

    def __init__(self, provenance: Mapping[str, Any], folder: Path | None = None) -> None:
        digest = hashlib.sha256(canonical(provenance).encode()).hexdigest()[:12]
        name = Path(file_name(str(provenance["encoder"]), digest)).stem
        self.folder = (folder or user_cache() / "embeddings") / name
        self._fresh: dict[str, Vectors] = {}
        self._known: dict[str, Vectors] = {}
        for path in sorted(self.folder.glob("*.npz")):
            self._known.update(_read_chunk(path))

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def put(self, keys: Iterable[str], vectors: Vectors) -> None:
        """Remember one batch."""
        self._fresh.update(zip(keys, vectors, strict=True))
        self._known.update(self._fresh)
        if len(self._fresh) >= CHUNK:
            self._flush()

    def rows(self, keys: Iterable[str]) -> Vectors:
        """float32 [N, D], all of one length."""
        rows = [self._known[key] for key in keys]
        if len({row.shape for row in rows}) > 1:
            raise InputError(
                "vectors of different lengths were kept under one name",
                where=str(self.folder),
                hint="Remove the folder and run the command again",
            )
        return np.stack(rows)

    def _flush(self) -> None:
        if self._fresh:
            keys = np.array(list(self._fresh), dtype=np.str_)
            name = hashlib.sha256(keys.tobytes()).hexdigest()[:16]
            write_arrays(self.folder / f"{name}.npz", {"keys": keys, "x": np.stack(list(self._fresh.values()))})
            self._fresh = {}


def _read_chunk(path: Path) -> dict[str, Vectors]:
    """The vectors of a file by key. One that is damaged is refused: to leave it out unasked could cost money."""
    try:
        arrays = load_arrays(path)
        problem = _problem_of(arrays.get("keys"), arrays.get("x"))
    except InputError as error:
        problem = error.what
    if problem:
        raise InputError(
            f"these are no vectors that were kept ({problem})",
            where=str(path),
            hint="Remove the file: what was in it is encoded again",
        )
    return dict(zip(arrays["keys"].tolist(), arrays["x"], strict=True))


def _problem_of(keys: NDArray[Any] | None, x: NDArray[Any] | None) -> str:
    """What is wrong with the arrays of a chunk, or with vectors that would become one; empty where nothing is."""
    if keys is None or x is None:
        return "keys or vectors are missing"
    if keys.dtype.kind != "U" or x.dtype != np.float32:
        return f"keys are {keys.dtype}, vectors {x.dtype}"
    if keys.ndim != 1 or x.ndim != 2 or len(keys) != len(x) or not x.size:
        return f"keys have the shape {list(keys.shape)}, vectors {list(x.shape)}"
    return "" if np.isfinite(x).all() else "not all numbers are finite"
