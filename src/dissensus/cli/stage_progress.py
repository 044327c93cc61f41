"""How far a command is that goes through many items in stages: on a terminal a bar, elsewhere now and then a line."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn


class StageProgress:
    """Listens to (stage, items done, items in all), on stderr. What ends within `patience` seconds shows nothing.

    A stage may go through the items several times.
    """

    def __init__(self, console: Console | None = None, patience: float = 2.0, line_every: float = 10.0) -> None:
        self._console = console or Console(stderr=True)
        self._began = time.monotonic()
        self._line_due, self._line_every = self._began + line_every, line_every
        self._bar_due = self._began + patience
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=self._console, transient=True
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:  # elsewhere it was never started, and would end with an empty line
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Items of a stage are done."""
        now = time.monotonic()
        if self._console.is_terminal:
            if now >= self._bar_due:
                self._bar.start()  # without effect where it runs already
                self._bar.update(self._task, description=stage, completed=done, total=total)
        elif now >= self._line_due:
            self._line_due = now + self._line_every
            line = f"{stage}: {done:,} of {total:,} items, after {now - self._began:.0f} s"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)
