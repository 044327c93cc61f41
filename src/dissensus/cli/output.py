"""What is printed: safe on every terminal, whatever a label, a file name or an error holds."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO

from dissensus.errors import InputError

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
"""The two sequences that commands themselves write (`click.style(…, bold=True)`)."""


def printable(text: str) -> str:
    r"""The text with everything shown that a terminal would obey: escapes, backspaces, and marks that turn its direction.

    >>> print(printable("a\x1b[2Jb\u202ec\n"), end="")
    a\x1b[2Jb\u202ec
    """
    return "".join(letter if letter in "\n\t" or not _is_control(letter) else _spelled(letter) for letter in text)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in "\u200c\u200d\ufe0f\u00ad"


def _spelled(letter: str) -> str:
    """As Python spells it; beyond ASCII as JSON does too, since what is printed may be JSON."""
    code = ord(letter)
    return f"\\x{code:02x}" if code < 32 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


class SafeOutput:
    """Standard output, through which nothing goes that would steer a terminal, except bold letters.

    It takes every text: click would go around a stream that calls itself ASCII.
    """

    encoding = "utf-8"

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be shown."""
        if not text.replace("\n", "").replace("\t", "").isprintable():
            text = PLAIN.join(BOLD.join(map(printable, part.split(BOLD))) for part in text.split(PLAIN))
        with _explained():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is still in the buffer."""
        with _explained():
            self._stream.flush()

    def writelines(self, lines: Iterable[str]) -> None:
        """Write one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _explained() -> Iterator[None]:
    """Say that it is the output that cannot be written. A reader that closed the pipe is no error."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise InputError(f"the output cannot be written ({problem.strerror})", state="") from None


@contextmanager
def safe_output() -> Iterator[None]:
    """Make standard output safe. Letters that its encoding lacks (cp1252, ASCII) are written as question marks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    before = sys.stdout
    if before is not None:  # it is None where it was closed (`>&-`)
        sys.stdout = SafeOutput(before)
    try:
        yield
    finally:
        sys.stdout = before


def silence(stream: IO[str]) -> None:
    """Let everything that is still to be written go nowhere."""
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), stream.fileno())
