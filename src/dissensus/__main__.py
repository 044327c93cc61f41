"""`python -m dissensus` and `dissensus`: the command line. Ctrl-C during its imports, which take seconds, ends it."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run a command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from dissensus.cli import main as run_command

    run_command()


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Outside of imports a KeyboardInterrupt, as ever. Inside, it can end up in C++ code that cannot take it (torch)."""
    below = frame
    while below is not None:
        if below.f_code.co_filename.startswith("<frozen importlib"):
            sys.stderr.write("\ndissensus: interrupted\n")
            sys.stderr.flush()
            os._exit(130)
        below = below.f_back
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main()
