"""Probabilities that were rounded to decimals, float16 or bfloat16 are read; others that do not sum to 1 are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dissensus.datasets.own_files import read_probabilities
from dissensus.datasets.rounded_shares import rounded_rows
from dissensus.errors import InputError


def shares(classes: int, rows: int = 200) -> torch.Tensor:
    return torch.randn(rows, classes, generator=torch.Generator().manual_seed(classes), dtype=torch.float64).softmax(1)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("classes", [3, 10, 100])
@pytest.mark.parametrize("extension", ["npy", "csv", "parquet"])
def test_short_floats_are_divided_by_their_sum(kind: torch.dtype, classes: int, extension: str, tmp_path: Path) -> None:
    exact = shares(classes)
    stored = exact.to(kind).numpy() if kind == torch.float16 else exact.to(kind).float().numpy()
    path = tmp_path / f"p.{extension}"
    frame = pd.DataFrame(stored, columns=[f"c{index}" for index in range(classes)])
    if extension == "npy":
        np.save(path, stored)
    elif extension == "csv":
        frame.to_csv(path, index_label="id")
    else:
        frame.to_parquet(path)
    matrix = read_probabilities(path)
    assert np.abs(matrix.values - exact.numpy()).max() < 2.0**-8
    assert np.abs(matrix.values.sum(1) - 1).max() < 1.01e-4
    assert any(f"rounded to {str(kind).removeprefix('torch.')} were divided" in note for note in matrix.notes)


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_decimals_are_divided_by_their_sum(decimals: int, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.round(shares(10).numpy(), decimals))
    matrix = read_probabilities(tmp_path / "p.npy")
    assert f"rounded to {decimals} decimals" in matrix.notes[0]
    assert np.abs(matrix.values.sum(1) - 1).max() < 1.01e-4


@pytest.mark.parametrize(("off", "kind"), [(1.0015, np.float16), (1.006, np.float32), (1.002, np.float64)])
def test_what_rounding_does_not_explain_is_refused(off: float, kind: type, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", (shares(3).numpy() * off).astype(kind))
    with pytest.raises(InputError, match="the probabilities sum to"):
        read_probabilities(tmp_path / "p.npy")


def test_each_precision_has_its_bound() -> None:
    for off, how in ((2.0**-11, "float16"), (2.0**-8, "bfloat16")):
        found = rounded_rows(np.array([[0.5, 0.5 + off, 3 * 2.0**-24 if how == "float16" else 0.0]]))
        assert found is not None
        assert found[2] == how
    assert rounded_rows(np.array([[0.5, 0.5 + 2.0**-9, 2.0**-11]])) is None
    assert rounded_rows(np.array([[0.5, 0.5 + 2.0**-7]])) is None
