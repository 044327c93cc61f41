"""What to encode from a file: texts or pairs of texts in a table, images in an array."""

from __future__ import annotations

import numpy as np
import torch

from dissensus.datasets.data import Text
from dissensus.datasets.feature_files import Contents
from dissensus.errors import InputError
from dissensus.votes.array_files import load_arrays
from dissensus.votes.cells import encode
from dissensus.votes.files import PathLike, kind_of
from dissensus.votes.matrices import array_names
from dissensus.votes.roles import column_error, find
from dissensus.votes.tables import open_table
from dissensus.votes.votes import row_names


def read_contents(
    path: PathLike, *, item: str | None = None, text: str = "text", second: str | None = None
) -> tuple[tuple[str, ...], Contents]:
    """Ids and contents, one of each per item.

    A CSV, TSV, JSONL or Parquet table holds texts in the column `text`, for pairs also in `second`; its items are found
    as in votes, and may stand there many times, as in a long table of votes with the text beside each. An .npy or .npz
    (`x`, and `ids` if it likes) holds images uint8, channels first or last. Without ids, rows are numbered.
    """
    return _images(path) if kind_of(path) in ("npy", "npz") else _texts(path, item, text, second)


def _texts(path: PathLike, item: str | None, text: str, second: str | None) -> tuple[tuple[str, ...], Contents]:
    table = open_table(path)
    text_columns = [text] if second is None else [text, second]
    for name in text_columns:
        if name not in table.names:
            raise column_error(
                table,
                f"there is no column {name!r}",
                "Name the column of the texts (`compare --texts`, `embed --text`), and --pair for a second one",
            )
    leading = find(table, "item", item, texts=False)
    columns = table.columns([*text_columns, *([] if leading is None else [leading])])
    parts = [
        ["" if cell is None else str(cell) for cell in column.to_pylist()] for column in columns[: len(text_columns)]
    ]
    texts: list[Text] = list(zip(*parts, strict=True)) if second is not None else list(parts[0])
    if leading is None:
        return row_names(len(texts)), tuple(texts)
    codes, names = encode(columns[-1], f"{path}, column {leading!r}")
    of_item: dict[str, Text] = {}
    for row, (code, content) in enumerate(zip(codes, texts, strict=True)):
        if code < 0:
            raise InputError("the item is empty", where=table.where(row), hint=f"Fill in the column {leading!r}")
        if of_item.setdefault(names[code], content) != content:
            problem = f"item {names[code]!r} has another text above"
            raise InputError(problem, where=table.where(row), hint="Correct one of them")
    return tuple(of_item), tuple(of_item.values())


def _images(path: PathLike) -> tuple[tuple[str, ...], Contents]:
    arrays = load_arrays(path)
    images = arrays.get("x", arrays.get(""))
    if images is None or images.dtype != np.uint8 or images.ndim not in (3, 4):
        shapes = ", ".join(f"{name} {array.dtype} {array.shape}".strip() for name, array in arrays.items())
        problem = f"there are no images uint8 [N, H, W, 3] or [N, 3, H, W] in it ({shapes or 'it is empty'})"
        raise InputError(problem, where=str(path), hint="Save them as `x`")
    x = torch.from_numpy(images if images.ndim == 4 else images[:, None])
    if x.shape[1] not in (1, 3):
        x = x.permute(0, 3, 1, 2).contiguous()
    if x.shape[1] not in (1, 3):
        raise InputError(f"images of shape {images.shape[1:]} have neither 1 nor 3 channels", where=str(path))
    if not x.numel():
        raise InputError(f"images of shape {list(images.shape)} are empty", where=str(path), hint="Save it again")
    if "ids" not in arrays:
        return row_names(len(x)), x
    ids = array_names(arrays["ids"]) if arrays["ids"].ndim == 1 else ()
    if len(ids) != len(x) or len(set(ids)) < len(ids):
        what = f"its ids, of shape {list(arrays['ids'].shape)}, are not one name for each of {len(x):,} images"
        raise InputError(what, where=str(path), hint="Save `ids` [N], each of them once")
    return ids, x
