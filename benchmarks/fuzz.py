"""A million damaged files: experiments, records, ledgers, locks, downloads, archives, caches, models, and all that
readers of votes take. Each is read as it was or refused with a message; one that is not fails the benchmark.

`--mutations N` asks for another number in all, `--seed S` for other damage, `--only NAME` for one kind. tests/damage.py
says how files are damaged, tests/damaged_files.py how they are read.
"""

import argparse
import os
import sys
import tempfile
import time
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
    "out folder": 0.2,
    "download": 0.1,
    "archive": 0.1,
    "cache": 0.1,
    "model": 0.03,
    "readers": 0.15,
    "exports": 0.1,
}
"""Of the mutations in all. What is shown in a report takes a hundred times as long as what is only read."""


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--mutations", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", choices=SHARES)
    chosen = arguments.parse_args()
    warnings.simplefilter("error")
    wanted = {name: round(share * chosen.mutations) for name, share in SHARES.items() if chosen.only in (None, name)}
    tried, failures = 0, []
    for name, attempts in wanted.items():
        began = time.process_time()
        done, line, failed = {"readers": readers, "exports": exports}.get(name, partial(files, name))(
            attempts, chosen.seed
        )
        print(f"{line}   {time.process_time() - began:6.0f} s", flush=True)
        tried, failures = tried + done, failures + failed
    print(f"{tried:,} damaged files, {len(failures)} failures")
    for failure in failures[:5]:
        print(failure)
    assert not failures, f"{len(failures)} of {tried:,} damaged files ended neither read nor refused"


def files(name, attempts, seed):
    import damage
    from damaged_files import KINDS

    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        tally = damage.run([kind() for kind in KINDS if kind.name == name], Path(folder), attempts, seed)
    return tally.tried(), tally.table(), tally.failures


def readers(attempts, seed):
    import reader_fuzz

    results = reader_fuzz.fuzz_readers(attempts // len(reader_fuzz.KINDS), seed)
    tried = sum(counts["mutations"] for counts in results.values())
    refused, read = (sum(counts.get(name, 0) for counts in results.values()) for name in ("refused", "read"))
    failures = [f"readers of {kind}: {counts}" for kind, counts in results.items() if counts["failed"]]
    line = f"{'readers':<14}{tried:>10,} damaged {refused:>10,} refused {read:>10,} read {len(failures):>6,} failed"
    return tried, line, failures


def exports(attempts, seed):
    import export_fuzz

    counts, failures = Counter(), []
    for export in export_fuzz.EXPORTS:
        of_export, failed = export_fuzz.fuzz_export(export, attempts // len(export_fuzz.EXPORTS), seed)
        counts, failures = counts + of_export, failures + failed
    tried, refused, read = counts.total(), counts["refused"], counts["read"] + counts["left"]
    line = f"{'exports':<14}{tried:>10,} damaged {refused:>10,} refused {read:>10,} read {len(failures):>6,} failed"
    return tried, line, failures


if __name__ == "__main__":
    main()
