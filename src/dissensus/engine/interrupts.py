"""Ctrl-C, or a polite end (SIGTERM): runs under way save themselves, and the same command goes on."""

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
    """Whether Ctrl-C was pressed, while this is open. A second one ends the program at once.

    SIGTERM, by which cluster managers end what they take back, counts as Ctrl-C.
    """
    pressed = [False]

    def note(number: int, frame: FrameType | None) -> None:
        if pressed[0]:
            signal.default_int_handler(number, frame)
        pressed[0] = True

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: nobody presses keys there
        yield lambda: False
        return
    try:
        yield lambda: pressed[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
