"""A folder that `datasets.load_dataset` of Hugging Face reads: one Parquet file, and a card that names its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from dissensus.errors import InputError
from dissensus.votes.files import PathLike

DATA_FILE = "data/train-00000-of-00001.parquet"
_TYPES = {pa.string(): "string", pa.int64(): "int64", pa.float64(): "float64", pa.float32(): "float32"}


def write_datasets_folder(
    folder: PathLike, columns: Mapping[str, pa.Array], classes: Sequence[str], *, about: str = ""
) -> None:
    """Write columns as one split called train. A column `label` holds class indices, and the card has their names.

    The other columns are texts, numbers or lists of numbers. The folder must be new or empty: nothing is overwritten.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("this folder is not empty", where=str(folder), hint="Name a new folder")
    features = {name: _feature(name, column.type, classes) for name, column in columns.items()}
    table = pa.table(dict(columns))
    metadata = {"huggingface": json.dumps({"info": {"features": features}}, ensure_ascii=False)}
    try:
        path = target / DATA_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:  # Arrow would take some names for addresses, and refuse those that are no Unicode
            pa.parquet.write_table(table.replace_schema_metadata(metadata), file)
        (target / "README.md").write_text(_card(features, about), encoding="utf-8", newline="\n")
    except OSError as problem:
        raise InputError(
            f"cannot be written ({problem.strerror or problem})", where=str(folder), hint="Check the folder", state=""
        ) from None


def _feature(name: str, kind: pa.DataType, classes: Sequence[str]) -> dict[str, Any]:
    if name == "label":
        return {"names": list(classes), "_type": "ClassLabel"}
    if pa.types.is_list(kind):
        return {"feature": {"dtype": _TYPES[kind.value_type], "_type": "Value"}, "_type": "List"}
    return {"dtype": _TYPES[kind], "_type": "Value"}


def _card(features: Mapping[str, Mapping[str, Any]], about: str) -> str:
    """The README that the Hub shows; its head is YAML. JSON strings are YAML strings, so names need no other quoting."""
    lines = ["---", "configs:", "- config_name: default", f"  data_files: {DATA_FILE}", "dataset_info:", "  features:"]
    for name, feature in features.items():
        lines.append(f"  - name: {json.dumps(name, ensure_ascii=False)}")
        if feature["_type"] == "ClassLabel":
            lines += ["    dtype:", "      class_label:", "        names:"]
            lines += [
                f"          '{index}': {json.dumps(label, ensure_ascii=False)}"
                for index, label in enumerate(feature["names"])
            ]
        elif feature["_type"] == "List":
            lines.append(f"    list: {feature['feature']['dtype']}")
        else:
            lines.append(f"    dtype: {feature['dtype']}")
    return "\n".join([*lines, "---", "", about]) + "\n"
