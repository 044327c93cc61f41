"""`python -m dissensus` and `dissensus`: the command line. Ctrl-C during its imports, which take seconds, ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def main() -> None:
    """Run a command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    _keep_freed_memory()
    from dissensus.cli import main as run_command

    run_command()


def _keep_freed_memory() -> None:
    """Ask glibc to use memory again that large arrays have left, as it does with that of small ones.

    By default an array of more than 32 MiB gets fresh pages, which the kernel clears first: that took a third of the time
    of `inspect` on six million votes, and grew faster than the file. Whoever sets glibc's own variables is left alone.
    """
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return
    with suppress(AttributeError, OSError):  # another C library has no such function
        c_library = ctypes.CDLL(None)
        c_library.mallopt(M_MMAP_MAX, 0)
        c_library.mallopt(M_TRIM_THRESHOLD, 1 << 30)


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
