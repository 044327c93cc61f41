"""Damaged exports of platforms: refused with an InputError, or read with every vote that a naive twin finds.

The samples of export_samples.py are damaged; what is read is counted again by naive_exports.py, where it has a twin
(texts have one, folders and binary files do not). What is no longer recognised as an export goes to `read_votes`.

    python tests/export_fuzz.py --mutations 100000 [--export mturk] [--seed 0]     so many of each export
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import traceback
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from dissensus.errors import InputError
from dissensus.votes import Votes, read_votes
from dissensus.votes.exports import read_export
from export_samples import SAMPLES, ExportSample, mutated
from naive_exports import TWINS, naive_votes

EXPORTS = tuple(dict.fromkeys(sample.export for sample in SAMPLES))


def fuzz_export(export: str, mutations: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """How many damaged files of an export were refused, read and left to `read_votes`; and what went wrong."""
    samples = [sample for sample in SAMPLES if sample.export == export]
    rng = np.random.default_rng([seed, EXPORTS.index(export)])
    counts, failures = Counter[str](), list[str]()
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(mutations):
            sample = _damaged(samples[number % len(samples)], rng)
            try:
                counts[_read(sample, Path(folder))] += 1
            except Exception:
                counts["failed"] += 1
                what = f"{sample.title}, mutation {number}, seed {seed}"
                failures.append(f"{what}: {sample.content!r}\n{traceback.format_exc(limit=-3)}")
    return counts, failures


def _damaged(sample: ExportSample, rng: np.random.Generator) -> ExportSample:
    if isinstance(sample.content, bytes):
        return replace(sample, content=mutated(sample.content, rng))
    return replace(sample, content={name: mutated(part, rng) for name, part in sample.content.items()})


def _read(sample: ExportSample, folder: Path) -> str:
    path = sample.write(folder)
    try:
        votes = read_export(path, **sample.asked)
        if votes is None:
            read_votes(path)
            return "left"
    except InputError:
        return "refused"
    if sample.file in TWINS:
        assert isinstance(sample.content, bytes)
        assert votes.read_as is not None
        twins = naive_votes(sample.file, sample.content, votes.read_as.columns, votes.annotators is not None)
        assert _counted(votes) == twins, f"{votes.read_as}: {_counted(votes)} and {twins}"
    return "read"


def _counted(votes: Votes) -> Counter[tuple[str, str | None, str]]:
    people = [None] * len(votes.item) if votes.annotator is None else [votes.annotators[i] for i in votes.annotator]
    rows = zip(votes.item.tolist(), people, votes.label.tolist(), strict=True)
    return Counter((votes.items[item], person, votes.classes[label]) for item, person, label in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", choices=EXPORTS)
    chosen = parser.parse_args()
    failed = 0
    for export in [chosen.export] if chosen.export else EXPORTS:
        counts, failures = fuzz_export(export, chosen.mutations, chosen.seed)
        print(export, json.dumps(counts), *failures[:3], sep="\n", flush=True)
        failed += len(failures)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
