"""Runs killed at random moments, over and over, against runs that nobody disturbed: the same bits, or it fails.

200 kills of plain runs are what the promise rests on, and 30 of compiled ones, which start slowly, where there is a C++
compiler. `--kills N` and `--compiled N` ask for other numbers.
"""

import argparse
import random as dice
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--compiled", type=int, default=30)
    chosen = arguments.parse_args()
    if chosen.kills:
        print(killed(chosen.kills, compiled=False), flush=True)
    if not (shutil.which("g++") or shutil.which("clang++")):
        print("compiled: skipped, there is no C++ compiler")
    elif chosen.compiled:
        print(killed(chosen.compiled, compiled=True))


def killed(wanted, compiled):
    """Kill runs until there were as many kills as wanted; a run that ends before it is killed does not count."""
    import lives
    from dissensus.store.ledger import Ledger
    from test_interruptions import DATA, KILLABLE, outcome

    throw, kills, resumed, runs = dice.Random(1), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        broken, whole = Ledger(Path(folder) / "broken"), Ledger(Path(folder) / "whole")
        while kills < wanted:
            spec = KILLABLE[runs % len(KILLABLE)].spec(DATA, runs // len(KILLABLE))
            began = time.monotonic()
            lives.born(lives.computing, spec.to_json(), str(whole.folder), 0.05, compiled).join()
            a_life = time.monotonic() - began
            checkpoint, saved = broken.checkpoint_file(spec.id), None
            while spec.id not in broken:
                life = lives.born(lives.computing, spec.to_json(), str(broken.folder), 0.05, compiled)
                life.join(throw.uniform(0.1, 1.0) * a_life)
                if life.exitcode is None:
                    life.kill()
                    kills += 1
                life.join()
                before, saved = saved, checkpoint.stat().st_mtime_ns if checkpoint.exists() else None
                if saved == before:  # it was killed before it began to train: the machine is busier than it was
                    a_life *= 1.3
            assert outcome(broken, spec.id) == outcome(whole, spec.id), spec.id
            resumed += broken.read(spec.id).provenance.get("resumed", 0)
            runs += 1
    how = "compiled runs" if compiled else "runs"
    return f"{runs} {how} killed {kills} times in all, gone on from a checkpoint {resumed} times: every bit the same"


if __name__ == "__main__":
    main()
