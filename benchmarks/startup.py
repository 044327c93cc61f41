"""How long a person waits for `dissensus --help`, beside a bare Python that imports click. Asserted: under 0.3 s."""

import subprocess
import sys

from timing import best_of


def main():
    def call(*arguments):
        return lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True)

    seconds, _ = best_of(10, ours=call("-m", "dissensus", "--help"), bare=call("-c", "import click"))
    print(f"--help {seconds['ours']:.3f} s | python importing click {seconds['bare']:.3f} s")
    assert seconds["ours"] < 0.3


if __name__ == "__main__":
    main()
