"""Ten million votes from Parquet into counts: ours beside what a pandas user would write, on the same file.

    python benchmarks/read_votes.py [--votes 1e6]

Writes the file into a temporary folder, times each way in turn, best of three, and checks that the counts agree.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dissensus.votes import read_votes

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
Counts = tuple[list[str], NDArray[np.int64]]  # items, [N, K]


def write_file(path: Path, votes: int) -> None:
    """Votes in random order, ten per item, each by another annotator."""
    rng = np.random.default_rng(0)
    items, people = max(votes // 10, 1), 5000
    order = rng.permutation(votes)
    item, turn = order % items, order // items
    annotator = (item * 7 + turn) % people
    label = np.where(rng.random(votes) < 0.8, item % 10, rng.integers(0, 10, votes))

    def column(codes: NDArray[np.int64], names: list[str]) -> pa.Array:
        return pa.array(names).take(pa.array(codes))

    table = pa.table(
        {
            "item": column(item, [f"image-{i:07d}" for i in range(items)]),
            "annotator": column(annotator, [f"w{i}" for i in range(people)]),
            "label": column(label, CLASSES),
        }
    )
    pq.write_table(table, path)


def ours(path: Path) -> Counts:
    votes = read_votes(path)
    return list(votes.items), votes.counts


def crosstab(path: Path) -> Counts:
    frame = pd.read_parquet(path, columns=["item", "label"])
    table = pd.crosstab(frame["item"], frame["label"])
    return table.index.tolist(), table.to_numpy()


def groupby(path: Path) -> Counts:
    frame = pd.read_parquet(path, columns=["item", "label"])
    table = frame.groupby(["item", "label"]).size().unstack(fill_value=0)
    return table.index.tolist(), table.to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--votes", type=float, default=1e7)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    ways: dict[str, Callable[[Path], Counts]] = {"ours": ours, "crosstab": crosstab, "groupby": groupby}
    best = dict.fromkeys(ways, float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "votes.parquet"
        write_file(path, int(arguments.votes))
        for _ in range(arguments.repeats):
            tables: dict[str, NDArray[np.int64]] = {}
            for name, way in ways.items():
                start = time.perf_counter()
                items, counts = way(path)
                best[name] = min(best[name], time.perf_counter() - start)
                tables[name] = counts[np.argsort(items)]
            assert all(np.array_equal(tables["ours"], other) for other in tables.values()), "the counts differ"
    items_read = len(tables["ours"])
    print(
        f"{int(arguments.votes):,} votes, {items_read:,} items (ours reads and checks annotators too): "
        + " | ".join(f"{name} {seconds:.2f} s" for name, seconds in best.items())
        + f" | {best['crosstab'] / best['ours']:.1f}x, {best['groupby'] / best['ours']:.1f}x | counts equal"
    )


if __name__ == "__main__":
    main()
