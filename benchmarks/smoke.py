"""How long do all recipes of a paper take at smoke scale, with one ledger and their reports?

    python benchmarks/smoke.py 003        the real data must be there (DISSENSUS_DATA)

003 should stay under 120 s on two cores, so that people look before they run. Start-up is counted once.
"""

import sys
import tempfile
import time

from dissensus.cli import cli
from dissensus.errors import InputError
from dissensus.recipes import RECIPES

MOST_SECONDS = 120


def main():
    paper = sys.argv[1] if len(sys.argv) > 1 else "003"
    names = [name for name in RECIPES if name.startswith(f"{paper}/")]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            out = f"{folder}/{name.replace('/', '-')}"
            try:
                cli(["run", name, "--scale", "smoke", "--ledger", f"{folder}/runs", "--out", out], standalone_mode=False)
            except InputError as absent:
                print(f"skipped: {absent}")
                return
    seconds = time.monotonic() - started
    print(f"{len(names)} recipes of {paper} at smoke scale: {seconds:.0f} s")
    assert seconds < MOST_SECONDS, f"more than {MOST_SECONDS} s"


if __name__ == "__main__":
    main()
