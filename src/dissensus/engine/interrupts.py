"""Ctrl-C: runs under way save themselves, and the same command goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dissensus.engine.events import StopRequested

GRACE = 30.0
"""Seconds for workers to finish their step and save, when asked to stop."""


@contextmanager
def interruptions() -> Iterator[StopRequested]:
    """Whether Ctrl-C was pressed, while this is open. A second one ends the program at once."""
    pressed = [False]

    def note(number: int, frame: FrameType | None) -> None:
        if pressed[0]:
            signal.default_int_handler(number, frame)
        pressed[0] = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread: nobody presses keys there
        yield lambda: False
        return
    try:
        yield lambda: pressed[0]
    finally:
        signal.signal(signal.SIGINT, before)
