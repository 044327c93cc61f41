"""What a person sees while runs are computed: how many are done, what each is doing, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dissensus.executors import Event


class Display:
    """A live display of executor events; on a terminal a bar, elsewhere a line every `quiet_every` seconds.

    `labels` are the names of runs as people know them ("Soft, seed 3").
    """

    def __init__(self, labels: Mapping[str, str], console: Console | None = None, quiet_every: float = 10.0) -> None:
        self._labels, self._console = labels, console or Console(stderr=True)
        self._quiet_every = quiet_every
        self._total, self._kept, self._ended, self._failed = len(labels), 0, 0, 0
        self._share: dict[str, float] = {}  # of each run under way, how much is done
        self._said = self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[doing]}"),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("runs", total=self._total, doing="")

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Take note of one event."""
        if event.kind == "kept":
            self._kept += 1
        elif event.kind == "epoch":
            self._share[event.run] = event.epoch / event.epochs
        elif event.kind in ("done", "failed", "blocked"):
            self._share.pop(event.run, None)
            self._ended += 1
        if event.kind in ("failed", "blocked"):
            self._failed += 1
            self._console.print(f"{event.kind}: {self._name(event.run)}\n{event.message}", style="red", markup=False)
        self._show(event)

    def _name(self, run: str) -> str:
        return self._labels.get(run, run)

    def _show(self, event: Event) -> None:
        doing = self._left()
        if event.kind == "epoch":
            doing = f"{self._name(event.run)}: epoch {event.epoch}/{event.epochs}, loss {event.loss:.3f} · {doing}"
        self._progress.update(self._task, completed=self._kept + self._ended, doing=doing)
        now = time.monotonic()
        if not self._console.is_terminal and (now - self._said > self._quiet_every or self._finished()):
            self._said = now
            self._console.print(
                f"{self._kept + self._ended}/{self._total} runs · {doing}", markup=False, highlight=False, soft_wrap=True
            )

    def _finished(self) -> bool:
        return self._kept + self._ended == self._total

    def _left(self) -> str:
        """Time left, from the speed so far: what is under way counts by its share."""
        done = self._ended + sum(self._share.values())
        if self._finished():
            return f"{self._kept} from before, {self._ended - self._failed} computed" + (
                f", {self._failed} failed" if self._failed else ""
            )
        if done < 0.2:
            return "time left: not known yet"
        left = (time.monotonic() - self._started) / done * (self._total - self._kept - done)
        return f"about {_duration(left)} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
