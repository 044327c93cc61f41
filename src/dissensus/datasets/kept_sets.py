"""own: the user's own votes and features as a named data set.

A spec names its data and their digest, and never a path: whoever computes it, in another process or on another machine,
finds the data by name. `keep` writes what a command has read to `own/NAME.npz` in the data folder, or in the user's cache
where the former is read-only; the features stand where those of every data set do. NAME ends in a digest of the content,
so that another version of the same files is another set, and a plan that was made on the former can still be finished.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dissensus.datasets import feature_files
from dissensus.datasets.catalogue import Entry
from dissensus.datasets.data import Data
from dissensus.datasets.feature_files import Features
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays
from dissensus.votes.votes import Votes

OWN = "own"
GIVEN = "given"  # the name of features that the user brings, instead of an encoder's


@dataclass(frozen=True)
class KeptSet:
    """How specs name a kept set: `datasets.load("own", **options)`."""

    name: str
    features: str

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Of `datasets.load`."""
        return ("features", self.features), ("kept", self.name)


def keep(data: Data, features: Features, encoder: str = GIVEN, root: Path | None = None) -> KeptSet:
    """Write votes (or probabilities), gold labels and features; the same content gives the same name and files.

    The rows of `features` are those of the data. The name begins with that of the data's file, without folders.
    """
    whole = replace(data, name=OWN, x=torch.from_numpy(features.x), texts=None, notes=())
    name = f"{_stem(data.name)}-{whole.digest[:10]}"
    home = feature_files.writable_home(root).parent / OWN
    feature_files.write_arrays(home / f"{name}.npz", _arrays(data))
    feature_files.write(
        replace(features, ids=data.ids, keys=None), home.parent / "features" / feature_files.file_name(name, encoder)
    )
    return KeptSet(name, encoder)


def load(kept: str, root: Path | None = None) -> Data:
    """A kept set without its features, which `datasets.load` attaches."""
    paths = [home.parent / OWN / f"{kept}.npz" for home in feature_files.homes(root)]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        raise InputError(
            "this set is not here: it is written by the command that plans the work",
            where=" or ".join(map(str, paths)),
            hint="Run that command again, or set DISSENSUS_DATA to a folder that all machines share",
            state="",
        )
    arrays = load_arrays(path)
    for part, (kinds, axes) in _PARTS.items():
        if part in arrays and (arrays[part].dtype.kind not in kinds or arrays[part].ndim != axes):
            raise _damaged(path, f"{part} is {arrays[part].dtype} {list(arrays[part].shape)}")
    needed = {"ids", "classes"} | ({"item", "label"} if "probs" not in arrays else set())
    if missing := sorted(needed - arrays.keys()):
        raise _damaged(path, f"there is no {missing[0]}")
    ids, classes = _names(arrays["ids"]), _names(arrays["classes"])
    gold = torch.from_numpy(arrays["gold"].astype(np.int64)) if "gold" in arrays else None
    try:
        if "probs" in arrays:
            probs = torch.from_numpy(arrays["probs"])
            return Data(name=kept, classes=classes, ids=ids, probs=probs, gold=gold)
        annotators = _names(arrays["annotators"]) if "annotators" in arrays else None
        votes = Votes(arrays["item"], arrays["label"], ids, classes, arrays.get("annotator"), annotators)
        return Data(name=kept, classes=classes, ids=ids, votes=votes, gold=gold)
    except InputError as problem:
        raise _damaged(path, problem.what) from None


_PARTS = {
    **dict.fromkeys(("ids", "classes", "annotators"), ("U", 1)),
    **dict.fromkeys(("item", "label", "annotator", "gold"), ("iu", 1)),
    "probs": ("f", 2),
}
"""The kind and the number of axes of each array of a kept set."""


def _names(array: NDArray[Any]) -> tuple[str, ...]:
    return tuple(map(str, array.tolist()))


def _damaged(path: Path, what: str) -> InputError:
    hint = "Remove the file, and run the command that plans the work again"
    return InputError(f"this kept set is damaged ({what})", where=str(path), hint=hint, state="")


def _arrays(data: Data) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "ids": np.array(data.ids, dtype=np.str_),
        "classes": np.array(data.classes, dtype=np.str_),
    }
    if data.votes is not None:
        arrays |= {"item": data.votes.item, "label": data.votes.label}
        if data.votes.annotator is not None and data.votes.annotators is not None:
            arrays |= {"annotator": data.votes.annotator, "annotators": np.array(data.votes.annotators, dtype=np.str_)}
    else:
        arrays["probs"] = data.people.numpy()
    if data.gold is not None:
        arrays["gold"] = data.gold.numpy()
    return arrays


def _stem(path: str) -> str:
    """`folder/my votes.csv.gz` as my-votes."""
    kept = "".join(letter if letter.isalnum() else "-" for letter in Path(path).name.split(".")[0])
    return kept.strip("-")[:40] or "votes"


ENTRY = Entry(
    name=OWN,
    description="your own votes and features, as `dissensus compare` and `dissensus plan` keep them",
    licence="yours",
    source="",
    load=load,
    sizes=lambda root: {"sets": (count := len(list((root / OWN).glob("*.npz"))), count)},
)
