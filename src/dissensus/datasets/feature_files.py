"""Features of a data set: a file that an encoder made, found by the encoder's name and matched by id.

A spec then holds that name and, through the digest of the data, the features themselves; never a path. A file is
`<data set>-<name>.npz` in the folder `features` of the data folder, or of the user's cache where the former is read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.datasets.catalogue import data_root, user_cache
from dissensus.datasets.data import Data, Text
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays
from dissensus.votes.json_rows import parse_json
from dissensus.votes.matrices import array_names
from dissensus.votes.votes import Ints

Contents = Sequence[Text] | Tensor
"""What an encoder reads: texts, pairs of texts, or images uint8 [N, C, H, W]."""

REPORTED = ("encoder", "model", "input", "pooling", "pairs")  # the parts of a provenance that a report names


@dataclass(frozen=True, eq=False)
class Features:
    """`x` float32 [N, D], one row per id, and how it was made as plain JSON.

    `keys` are digests of the content that each row was made from; a file from elsewhere has none, and is trusted.
    `columns` are the names of the features, where their file has any.
    """

    ids: tuple[str, ...]
    x: NDArray[np.float32]
    provenance: dict[str, Any]
    keys: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    @property
    def sentence(self) -> str:
        """What a report says about the inputs."""
        origin = "; ".join(str(self.provenance[part]) for part in REPORTED if part in self.provenance)
        return f"The inputs are {self.x.shape[1]:,} frozen features per item" + (f": {origin}." if origin else ".")


def content_keys(contents: Contents) -> tuple[str, ...]:
    """A digest of each item's content: equal content, equal key, whatever the data set.

    >>> content_keys(["a", "b", "a"])[0] == content_keys(["a"])[0] != content_keys([("a", "a")])[0]
    True
    """
    if isinstance(contents, Tensor):
        shape = repr(tuple(contents.shape[1:])).encode()
        parts = [shape + image.tobytes() for image in np.ascontiguousarray(contents.numpy())]
    else:
        parts = [repr(text).encode() for text in contents]
    return tuple(hashlib.sha256(part).hexdigest()[:32] for part in parts)


def contents_of(data: Data) -> Contents:
    """What an encoder would read: the texts or the images of these data."""
    if data.texts is not None:
        return data.texts
    if data.x is not None and data.x.dtype == torch.uint8 and data.x.ndim == 4:
        return data.x
    raise InputError("these data have neither texts nor images", where=data.name, state="")


def attach(data: Data, name: str, root: Path | None = None) -> Data:
    """The data with these features as `x`, found by the name of their encoder, and a note that says so."""
    paths = [home / file_name(data.name, name) for home in homes(root)]
    command = f"Run `dissensus embed {data.name} {name}`"
    problems = []
    for path in filter(Path.is_file, paths):  # features in a read-only folder may be stale, and newer ones in the cache
        features = read(path)
        try:
            rows = _matched(data, features)
        except InputError as problem:
            problems.append(InputError(problem.what, where=str(path), hint=f"{command}{problem.hint}", state=""))
        else:
            x = torch.from_numpy(features.x[rows])
            return replace(data, x=x, notes=(*data.notes, features.sentence), moments=None)
    if problems:
        raise problems[0]
    what = f"{data.name} has no features by {name!r} here: there is no such file"
    raise InputError(what, where=str(paths[0]), hint=command, state="")


def _matched(data: Data, features: Features) -> Ints:
    """The row of each item, which must exist and be made from the item's present content."""
    row_of = {row_id: row for row, row_id in enumerate(features.ids)}
    if absent := [row_id for row_id in data.ids if row_id not in row_of]:
        what = f"{len(absent):,} of {len(data):,} items have no features, {absent[0]!r} among them"
        raise InputError(what, hint=" with the data set's options (--option)")
    rows = np.array([row_of[row_id] for row_id in data.ids], dtype=np.int64)
    if features.keys is not None:
        now = content_keys(contents_of(data))
        if other := [row_id for row_id, row, key in zip(data.ids, rows, now, strict=True) if features.keys[row] != key]:
            what = f"the features of {other[0]!r} were made from other content than it has now"
            raise InputError(f"{what} ({len(other):,} such items)")
    return rows


def store(features: Features, dataset: str, name: str, root: Path | None = None) -> Path:
    """Write a data set's features to the first of its folders that can be written to.

    Features that the same encoder made earlier for other items (another draw, another part) are kept.
    """
    path = writable_home(root) / file_name(dataset, name)
    before = read(path) if path.is_file() else None
    if before is not None and before.keys is not None and features.keys is not None:
        now = set(features.ids)
        others = [row for row, row_id in enumerate(before.ids) if row_id not in now]
        if others and before.provenance == features.provenance:
            features = Features(
                ids=features.ids + tuple(before.ids[row] for row in others),
                x=np.concatenate([features.x, before.x[others]]),
                provenance=features.provenance,
                keys=features.keys + tuple(before.keys[row] for row in others),
            )
    write(features, path)
    return path


def read(path: Path) -> Features:
    """An .npz with `x` [N, D], `ids` [N] and, if an encoder of ours made it, `keys` and `provenance`; checked."""
    arrays = load_arrays(path)
    if "ids" not in arrays or "x" not in arrays or arrays["x"].ndim != 2 or arrays["x"].dtype.kind not in "fiu":
        raise _bad(path, f"there are no `ids` and no matrix of numbers `x` in it ({', '.join(arrays) or 'it is empty'})")
    x = arrays["x"].astype(np.float32, copy=False)
    listed = {name: arrays[name] for name in ("ids", "keys") if name in arrays}
    if any(array.ndim != 1 for array in listed.values()):
        raise _bad(path, "its ids are not a list")
    names = {name: array_names(array) for name, array in listed.items()}
    for name, values in names.items():
        if len(values) != len(x):
            raise _bad(path, f"there are {len(values):,} {name} for {len(x):,} rows")
    ids = names["ids"]
    if len(set(ids)) < len(ids):
        raise _bad(path, "an id occurs twice")
    finite = np.isfinite(x).all(1)
    if not finite.all():
        raise _bad(path, f"the features of {ids[int(np.argmin(finite))]!r} are not all finite")
    provenance = parse_json(str(arrays["provenance"]), str(path)) if "provenance" in arrays else {}
    if not isinstance(provenance, dict):
        raise _bad(path, "its provenance is not a JSON object")
    return Features(ids, x, provenance, names.get("keys"))


def _bad(path: Path, what: str) -> InputError:
    return InputError(what, where=str(path), hint="Write the file again: `x` [N, D] and `ids` [N]", state="")


def write(features: Features, path: Path) -> None:
    """Write the file, completely or not at all."""
    arrays = {
        "x": features.x,
        "ids": np.array(features.ids, dtype=np.str_),
        "provenance": np.array(json.dumps(features.provenance, sort_keys=True, ensure_ascii=False)),
    }
    if features.keys is not None:
        arrays["keys"] = np.array(features.keys, dtype=np.str_)
    write_arrays(path, arrays)


def write_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write an .npz that gets its name only when it is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-") as aside:
            np.savez(Path(aside) / path.name, **arrays)  # type: ignore[arg-type]
            (Path(aside) / path.name).replace(path)
    except OSError as error:
        raise InputError(f"this cannot be written ({error.strerror or error})", where=str(path)) from error


def file_name(dataset: str, name: str) -> str:
    """The file's name: an encoder's name without colons and slashes."""
    return f"{dataset}-{re.sub(r'[^A-Za-z0-9.+@-]+', '_', name)}.npz"


def homes(root: Path | None = None) -> tuple[Path, ...]:
    """The folders where features are looked for, in this order."""
    return tuple(dict.fromkeys(folder / "features" for folder in (root or data_root(), user_cache())))


def writable_home(root: Path | None = None) -> Path:
    """The first folder for features that can be written to."""
    folders = homes(root)
    for folder in folders:
        if _writable(folder):
            return folder
    raise InputError(
        "features cannot be written there",
        where=" or ".join(map(str, folders)),
        hint="Set DISSENSUS_DATA or XDG_CACHE_HOME to a folder you may write to",
    )


def _writable(folder: Path) -> bool:
    """Whether the folder, or its nearest parent that exists, may be written to.

    A folder whose mode allows nobody to write counts as read-only for root too, whom the system would not stop.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    write_bits = nearest.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return nearest.is_dir() and bool(write_bits) and os.access(nearest, os.W_OK | os.X_OK)
