"""A run killed at random moments, over and over, against one that nobody disturbed: the same bits, or it fails.

`--kills 200` is what the promise rests on; `--compile` does the same with compiled runs (which start slowly).
"""

import argparse
import random as dice
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main():
    import lives
    from dissensus.ledger import Ledger
    from test_engine import DATA, KILLABLE, outcome

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--compile", action="store_true")
    chosen = arguments.parse_args()
    throw, kills, runs = dice.Random(1), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        broken, whole = Ledger(Path(folder) / "broken"), Ledger(Path(folder) / "whole")
        while kills < chosen.kills:
            spec = KILLABLE[runs % len(KILLABLE)].spec(DATA, runs)
            began = time.monotonic()
            lives.born(lives.computing, spec.to_json(), str(whole.folder), 0.0, chosen.compile).join()
            a_life = time.monotonic() - began
            while spec.id not in broken:
                life = lives.born(lives.computing, spec.to_json(), str(broken.folder), 0.0, chosen.compile)
                life.join(throw.uniform(0.1, 1.0) * a_life)
                if life.exitcode is None:
                    life.kill()
                    kills += 1
                life.join()
            assert outcome(broken, spec.id) == outcome(whole, spec.id), spec.id
            runs += 1
    print(f"{runs} runs killed {kills} times in all{', compiled' if chosen.compile else ''}: every bit the same")


if __name__ == "__main__":
    main()
