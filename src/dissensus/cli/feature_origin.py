"""features.json of a model folder: how the features of its items were made and what they are called, so that those of new
items are made alike and come in the same order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissensus.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dissensus.models.encoders.encoder import Reads
    from dissensus.votes.matrices import Matrix

ORIGIN = "features.json"

DECISIVE = ("encoder", "model", "input", "pooling", "pairs", "dimension")
"""The parts of a provenance that must be the same; versions of packages may differ."""


def origin_of(features_file: str) -> dict[str, Any]:
    """What the encoder wrote beside the features in an .npz; empty for features from elsewhere."""
    from dissensus.votes.array_files import load_arrays
    from dissensus.votes.files import kind_of
    from dissensus.votes.json_rows import parse_json

    written = load_arrays(features_file).get("provenance") if kind_of(features_file) == "npz" else None
    origin = {} if written is None else parse_json(str(written), features_file)
    return origin if isinstance(origin, dict) else {}


def reads_of(origin: Mapping[str, Any]) -> Reads | None:
    """What the encoder of these features reads; None where it is not known."""
    from dissensus.models.encoders import ENCODERS, Name

    if "encoder" not in origin:
        return None
    reads: Reads | None = getattr(ENCODERS.get(Name.parse(str(origin["encoder"])).family), "reads", None)
    return reads


def write_origin(folder: Path, origin: Mapping[str, Any]) -> None:
    """Always, also where nothing is known: a model that was in this folder before may have had another."""
    from dissensus.store.atomic_files import write_whole

    write_whole(folder / ORIGIN, (json.dumps(origin, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


def read_origin(folder: Path) -> dict[str, Any]:
    """What `write_origin` wrote; empty where nothing is known."""
    from dissensus.votes.files import check_utf8, read_text_bytes
    from dissensus.votes.json_rows import parse_json

    path = folder / ORIGIN
    if not path.is_file():
        return {}
    content = read_text_bytes(path)
    check_utf8(content, path)
    origin = parse_json(content.decode(), str(path))
    columns = origin.get("columns", []) if isinstance(origin, dict) else None
    is_named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    if not isinstance(origin, dict) or not isinstance(origin.get("encoder", ""), str) or not is_named:
        raise InputError("this does not say how features were made", where=str(path), hint="Train the model again")
    return origin


def in_order_learnt(features: Matrix, origin: Mapping[str, Any]) -> NDArray[np.float32]:
    """The columns in the order in which the model has learnt them: by name, where both sides have names."""
    import numpy as np

    from dissensus.votes.roles import listed

    learnt, columns = origin.get("columns"), features.classes
    if not learnt or columns is None or list(columns) == learnt:
        return features.values
    if set(columns) != set(learnt) or len(columns) != len(learnt):
        absent = [name for name in learnt if name not in set(columns)]
        foreign = [name for name in columns if name not in set(learnt)]
        what = f"there is no feature {absent[0]!r}" if absent else f"the model knows no feature {foreign[0]!r}"
        hint = f"Write the features that the model has learnt from: {listed(learnt)}"
        raise InputError(what, where=str(features.path), hint=hint)
    place = {name: index for index, name in enumerate(columns)}
    ordered = features.values[:, [place[name] for name in learnt]]
    return np.ascontiguousarray(ordered)  # sums over another layout are rounded otherwise


def check_made_alike(origin: Mapping[str, Any], made: Mapping[str, Any], folder: Path) -> None:
    """Refuse features that another encoder made, or in another way, than those that the model has learnt from."""
    for part in DECISIVE:
        if origin.get(part) != made.get(part):
            hint = "Use the same --encoder" + (", and --pair as in training" if part == "pairs" else "")
            problem = (
                f"the model has learnt from features with {part} {origin.get(part)!r}, and these have {made.get(part)!r}"
            )
            raise InputError(problem, where=str(folder / ORIGIN), hint=hint)
