"""Texts or images to frozen features: encoders by name, and the one function that runs any of them.

`minilm` and `efficientnet-lite0` have their weights inside pip packages and need no hub; `openai:MODEL` asks a service,
`st:NAME` and `hf:NAME` load any sentence-transformers or Hugging Face image model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from dissensus.datasets.feature_files import Contents, Features, content_keys
from dissensus.errors import InputError
from dissensus.models.encoders.cache import Cache
from dissensus.models.encoders.efficientnet import EfficientNetLite0
from dissensus.models.encoders.encoder import Encoder, Name, Vectors
from dissensus.models.encoders.huggingface import HuggingFaceImages
from dissensus.models.encoders.minilm import MiniLM
from dissensus.models.encoders.openai import OpenAI
from dissensus.models.encoders.sentence import SentenceTransformer

__all__ = ["ENCODERS", "Encoder", "Features", "Name", "build", "encode"]

ENCODERS: Mapping[str, Callable[[Name], Encoder]] = {
    "minilm": MiniLM,
    "efficientnet-lite0": EfficientNetLite0,
    "openai": OpenAI,
    "st": SentenceTransformer,
    "hf": HuggingFaceImages,
}
"""From the family, the part of a name before the colon, to its constructor."""

APART = "[u, v, |u−v|, u∘v]"
JOINT = "First: {}\nSecond: {}"

Progress = Callable[[int, int], None]
"""(items done, items in all); what the cache had counts as done at once."""


def build(name: str) -> Encoder:
    """An encoder, its weights loaded. An unknown family is bad input."""
    parsed = Name.parse(name)
    if parsed.family not in ENCODERS:
        raise InputError(f"{parsed.family!r} is not one of {', '.join(ENCODERS)}", where="encoder", state="")
    return ENCODERS[parsed.family](parsed)


def encode(
    ids: Sequence[str],
    contents: Contents,
    encoder: str,
    *,
    batch: int | None = None,
    cache: Path | None = None,
    progress: Progress = lambda done, of: None,  # noqa: ARG005
) -> Features:
    """Features of texts, pairs of texts or images uint8 [N, C, H, W], one row per id.

    What the cache (a folder; the user's own unless given) has of this encoder is not computed again, and an interrupted
    call loses no finished batch. Equal contents are encoded once. A pair becomes [u, v, |u−v|, u∘v] of its texts'
    vectors, or, where the encoder's name ends in `+joint`, the vector of one text made of both.

    The numbers depend on who shares a batch in the last bits only (padding and the order of sums).
    """
    made, name = build(encoder), Name.parse(encoder)
    readable, pairs = _readable(ids, contents, made, name)
    vectors = _vectors(made, readable, batch or made.batch, cache, progress)
    provenance = {**made.provenance, "dimension": int(vectors.shape[1])}
    if pairs:
        provenance["pairs"] = f"pairs as one text, {JOINT!r}" if name.joint else f"pairs as {APART}"
    if pairs and not name.joint:
        vectors = combine(vectors[0::2], vectors[1::2])
    return Features(tuple(ids), vectors, provenance, content_keys(contents))


def _readable(ids: Sequence[str], contents: Contents, made: Encoder, name: Name) -> tuple[Contents, bool]:
    """What the encoder itself reads, texts or images, and whether it was pairs before: then two in a row, or joined."""
    images = isinstance(contents, Tensor)
    if images != (made.reads == "images"):
        problem = f"{name.family} reads {made.reads}, and these are {'images' if images else 'texts'}"
        raise InputError(problem, where="encoder", hint=f"One of {', '.join(ENCODERS)} may fit", state="")
    if len(ids) != len(contents):
        raise InputError(f"{len(ids)} ids for {len(contents)} items", where="encode", state="")
    if not len(ids):
        raise InputError("there is nothing to encode", where="encode", state="")
    if isinstance(contents, Tensor):
        return contents, False
    if name.size is not None:
        raise InputError(f"@{name.size} is a size of images, and these are texts", where="encoder", state="")
    parts = [(text,) if isinstance(text, str) else text for text in contents]
    lengths = {len(part) for part in parts}
    if len(lengths) > 1:
        raise InputError("some items are texts and some are pairs", where="encode", state="")
    if name.joint and lengths != {2}:
        raise InputError("+joint is for pairs of texts", where="encoder", hint=f"Use {name.family} without it", state="")
    for row_id, part in zip(ids, parts, strict=True):
        if not all(text.strip() for text in part):
            raise InputError(f"the text of {row_id!r} is empty", where="encode", hint="Leave the item out")
    readable = [JOINT.format(*part) for part in parts] if name.joint else [text for part in parts for text in part]
    return readable, lengths == {2}


def _vectors(made: Encoder, items: Contents, batch: int, cache: Path | None, progress: Progress) -> Vectors:
    """float32 [N, D]; equal items encoded once, long texts first: least padding, and the time left errs upwards."""
    keys = content_keys(items)
    with Cache(made.provenance, cache) as kept:
        row_of = {key: row for row, key in enumerate(keys)}
        rows = sorted((row for key, row in row_of.items() if key not in kept), key=lambda row: -len(items[row]))
        progress(len(row_of) - len(rows), len(row_of))
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            vectors = made(items[some] if isinstance(items, Tensor) else [items[row] for row in some])
            if vectors.ndim != 2 or not vectors.size:
                problem = f"its vectors are empty: an array {list(vectors.shape)} for {len(some)} items"
                raise InputError(problem, where=made.provenance["encoder"], hint="Use another")
            if not np.isfinite(vectors).all():
                raise InputError("its vectors are not all finite", where=made.provenance["encoder"], hint="Use another")
            kept.put([keys[row] for row in some], vectors)
            progress(len(row_of) - len(rows) + start + len(some), len(row_of))
        return kept.rows(keys)


def combine(u: Vectors, v: Vectors) -> Vectors:
    """[u, v, |u−v|, u∘v], float32 [N, 4D]: what a linear map needs to see of how two vectors relate.

    >>> combine(np.array([[1, 2]]), np.array([[3, 1]])).tolist()
    [[1, 2, 3, 1, 2, 1, 3, 2]]
    """
    return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)
