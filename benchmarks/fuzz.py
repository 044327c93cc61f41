"""A million damaged files: experiments, records, ledgers, locks, downloads, archives, caches, models, data sets, pictures
and texts, weights from elsewhere, job plans, and all that readers of votes take. Each is read as it was or refused with a
message; one that is not fails the benchmark.

`--mutations N` asks for another number in all, `--seed S` for other damage, `--only NAME` for one kind. The work is done
in parts, each with a seed of its own; with `--counts FILE` every finished part is a line of that file, and the same
command goes on after the last one. tests/damage.py says how files are damaged, tests/damaged_files.py and
tests/damaged_sets.py how they are read.
"""

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

SHARES = {
    "experiment": 0.02,
    "records": 0.01,
    "ledger": 0.04,
    "lock": 0.15,
    "out folder": 0.08,
    "download": 0.1,
    "archive": 0.1,
    "cache": 0.1,
    "model": 0.03,
    "data set": 0.02,
    "kept set": 0.03,
    "contents": 0.02,
    "weights": 0.02,
    "job plan": 0.03,
    "readers": 0.15,
    "exports": 0.1,
}
"""Of the mutations in all. What is shown in a report takes a hundred times as long as what is only read."""


PARTS = {"readers": 10_000, "exports": 10_000}
"""Mutations per part; 2,000 of all other kinds."""


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mutations", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", choices=SHARES)
    arguments.add_argument("--counts", type=Path, help="a file of finished parts, to go on with")
    chosen = arguments.parse_args()
    warnings.simplefilter("error")
    wanted = {name: round(share * chosen.mutations) for name, share in SHARES.items() if chosen.only in (None, name)}
    before = finished(chosen.counts)
    total = Counter()
    for name, attempts in wanted.items():
        began, counts = sum(os.times()[:4]), Counter()
        for part, size in enumerate(parts(name, attempts)):
            key = f"{name}, seed {chosen.seed}, part {part} of {size}"
            if key not in before:
                before[key] = damaged(name, size, chosen.seed * 1_000_000 + part)
                if chosen.counts:
                    with chosen.counts.open("a") as file:
                        file.write(json.dumps({key: before[key]}) + "\n")
            counts.update(before[key])
        print(
            f"{name:<14}{counts['refused'] + counts['read'] + counts['failed']:>10,} damaged {counts['refused']:>10,} "
            f"refused {counts['read']:>10,} read {counts['failed']:>6,} failed   {sum(os.times()[:4]) - began:6.0f} s",
            flush=True,
        )
        total.update(counts)
    print(f"{total.total():,} damaged files, {total['failed']} failures")
    assert not total["failed"], f"{total['failed']} of {total.total():,} damaged files ended neither read nor refused"


def finished(file):
    """The counts of every part that an earlier call finished."""
    lines = file.read_text().splitlines() if file and file.exists() else []
    return {key: counts for line in lines for key, counts in json.loads(line).items()}


def parts(name, attempts):
    """The sizes of the parts that make up so many attempts."""
    size = PARTS.get(name, 2_000)
    return [min(size, attempts - first) for first in range(0, attempts, size)]


def damaged(name, attempts, seed):
    """How many files of a kind were refused, read and failed; the first failures are printed."""
    counts, failures = {"readers": readers, "exports": exports}.get(name, partial(files, name))(attempts, seed)
    print(*failures[:3], sep="\n", end="\n" if failures else "", flush=True)
    return counts


def files(name, attempts, seed):
    import damage
    import damaged_files
    import damaged_sets

    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        tally = damage.run(
            [kind() for kind in (*damaged_files.KINDS, *damaged_sets.KINDS) if kind.name == name],
            Path(folder),
            attempts,
            seed,
        )
    return {outcome: count for (_, outcome), count in tally.outcomes.items()}, tally.failures


def readers(attempts, seed):
    import reader_fuzz

    results = reader_fuzz.fuzz_readers(-(-attempts // len(reader_fuzz.KINDS)), seed)
    counts = {name: sum(of_kind.get(name, 0) for of_kind in results.values()) for name in ("refused", "read", "failed")}
    return counts, [f"readers of {kind}: {of_kind}" for kind, of_kind in results.items() if of_kind["failed"]]


def exports(attempts, seed):
    import export_fuzz

    counts, failures = Counter(), []
    for export in export_fuzz.EXPORTS:
        of_export, failed = export_fuzz.fuzz_export(export, -(-attempts // len(export_fuzz.EXPORTS)), seed)
        counts, failures = counts + of_export, failures + failed
    read = counts["read"] + counts["left"]
    return {"refused": counts["refused"], "read": read, "failed": counts["failed"]}, failures


if __name__ == "__main__":
    main()
