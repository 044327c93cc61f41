"""Progress of runs on the terminal: how many are done, which are running, how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dissensus.cli.output import printable
from dissensus.engine.events import Event, read_failure, read_progress
from dissensus.experiments.cost import duration
from dissensus.store import locks
from dissensus.store.ledger import Ledger

MOST_SHOWN = 12
ItemProgress = Callable[[int, int], None]
"""(items done, items in all)"""

ENDED = frozenset({"already_done", "done", "failed", "blocked"})
"""Kinds of event after which a run takes no more time here. A run that stopped, or runs elsewhere, still might."""


@dataclass
class RunProgress:
    """How far a running run is."""

    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    resumed_at: int = 0

    @property
    def share(self) -> float:
        """The share of its epochs that is done."""
        return self.epoch / self.epochs if self.epochs else 0.0

    @property
    def share_done_here(self) -> float:
        """The share of its epochs that was done since it was started or resumed."""
        return self.share - self.resumed_at / self.epochs if self.epochs else 0.0


class Display:
    """A live display of executor events; on a terminal a table, elsewhere a line every `quiet_every` seconds.

    `labels` are readable names of runs ("Soft, seed 3"). `costs` are relative costs, from which the remaining time is
    estimated; a run without a cost counts as instant, and if no run has one, all count as equal.
    """

    def __init__(
        self,
        labels: Mapping[str, str],
        costs: Mapping[str, float],
        console: Console | None = None,
        quiet_every: float = 10.0,
    ) -> None:
        self._labels, self._console = labels, console or Console(stderr=True)
        self._quiet_every = quiet_every
        self._remaining_costs = dict(costs) or dict.fromkeys(labels, 1.0)
        self._enough_to_know, self._spent = 0.2 * min(self._remaining_costs.values(), default=0.0), 0.0
        self._total, self._already_done, self._computed, self._failed = len(labels), 0, 0, 0
        self._running: dict[str, RunProgress] = {}
        self._printed_at = self._started_at = time.monotonic()
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if event.kind == "note":
            self._print(f"{self._label(event.run)}: {event.message}", style="yellow")
            return
        if event.kind == "started":
            self._running[event.run] = RunProgress()
        elif event.kind == "epoch":
            before = self._running.get(event.run, RunProgress())
            resumed_at = before.resumed_at if before.epoch else event.epoch - 1
            self._running[event.run] = RunProgress(event.epoch, event.epochs, event.loss, resumed_at)
        else:
            last = self._running.pop(event.run, RunProgress())
            cost = self._remaining_costs.pop(event.run, 0.0) if event.kind in ENDED else 0.0
            if event.kind == "done":
                self._spent += cost * (last.share_done_here if last.epochs else 1.0)
        if event.kind == "already_done":
            self._already_done += 1
        elif event.kind == "done":
            self._computed += 1
        elif event.kind in ("failed", "blocked", "disk_full"):
            self._failed += 1
            problem = "nothing can be written" if event.kind == "disk_full" else event.kind
            self._print(f"{problem}: {self._label(event.run)}\n{event.message}", style="red")
        self._print_line()

    def _label(self, run_id: str) -> str:
        return self._labels.get(run_id, run_id)

    def _print(self, text: str, style: str) -> None:
        self._console.print(printable(text), style=style, markup=False, highlight=False, emoji=False)

    @property
    def _ended(self) -> int:
        return self._already_done + self._computed + self._failed

    def _print_line(self) -> None:
        now = time.monotonic()
        due = now - self._printed_at > self._quiet_every or self._ended == self._total
        if due and not self._console.is_terminal:
            self._printed_at = now
            self._console.print(self._line(), markup=False, highlight=False, soft_wrap=True)

    def _line(self) -> str:
        return f"{self._ended}/{self._total} runs · {self._time_left()}"

    def _time_left(self) -> str:
        """The remaining time at the speed so far; unfinished runs count by their share."""
        if self._ended == self._total:
            failed = f", {self._failed} failed" if self._failed else ""
            return f"{self._already_done} already finished, {self._computed} computed{failed}"
        if not self._remaining_costs:
            return "training is done"
        costs = {run: self._remaining_costs.get(run, 0.0) for run in self._running}
        spent = self._spent + sum(run.share_done_here * costs[run_id] for run_id, run in self._running.items())
        if spent < self._enough_to_know:
            return "time left: not known yet"
        begun = sum(run.share * costs[run_id] for run_id, run in self._running.items())
        remaining = sum(self._remaining_costs.values()) - begun
        return f"about {duration((time.monotonic() - self._started_at) / spent * remaining)} left"

    def _render(self) -> RenderableType:
        bar = ProgressBar(total=max(1, self._total), completed=self._ended, width=40)
        runs = {self._label(run_id): run for run_id, run in self._running.items()}
        return Group(Text(self._line()), bar, progress_table(runs))


def progress_table(runs: Mapping[str, RunProgress]) -> Table:
    """One row per unfinished run: epoch, loss, share done."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "epoch", "loss", ""):
        table.add_column(name, no_wrap=True)
    for label, run in list(runs.items())[:MOST_SHOWN]:
        bar = ProgressBar(total=1.0, completed=run.share, width=16)
        loss = "" if run.loss is None else f"{run.loss:.4f}"
        table.add_row(Text(printable(label).replace("\n", " ")), f"{run.epoch}/{run.epochs}", loss, bar)
    if len(runs) > MOST_SHOWN:
        table.add_row(f"and {len(runs) - MOST_SHOWN} more", "", "", "")
    return table


@contextmanager
def counted_items(words: str, console: Console | None = None, quiet_every: float = 10.0) -> Iterator[ItemProgress]:
    """Show how many items are done: a bar on a terminal, elsewhere a line every `quiet_every` seconds and at the end."""
    shown = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    printed_at = time.monotonic()

    def print_line(done: int, total: int) -> None:
        nonlocal printed_at
        if done == total or time.monotonic() - printed_at > quiet_every:
            printed_at = time.monotonic()
            shown.print(f"{words}: {done:,} of {total:,} items", markup=False, highlight=False, soft_wrap=True)

    if not shown.is_terminal:
        yield print_line
        return
    with Progress(*columns, console=shown, transient=True) as bar:
        task = bar.add_task(words, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@dataclass(frozen=True)
class PlanStatus:
    """The state of an experiment, read from its ledger, perhaps by another terminal or machine."""

    done: int
    total: int
    under_way: Mapping[str, RunProgress]
    failed: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """In words."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{self.done}/{self.total} runs are done, {len(self.under_way)} running{failed}"


def read_status(labels: Mapping[str, str], ledger: Ledger) -> PlanStatus:
    """Which of these runs are done, running (some process holds the lock) or failed.

    It lists two folders and reads those of unfinished runs only, so that it stays fast for 100,000 runs.
    """
    finished = labels.keys() & ledger.ids()
    begun = ledger.begun() & labels.keys() - finished
    now = locks.clock(ledger.folder) if begun else 0.0
    running, failed = {}, {}
    for run_id in (run_id for run_id in labels if run_id in begun):
        label = labels[run_id]
        if locks.is_held(ledger.lock_file(run_id), now=now):
            epoch = read_progress(ledger, run_id)
            running[label] = RunProgress() if epoch is None else RunProgress(epoch.epoch, epoch.epochs, epoch.loss)
        elif (reason := read_failure(ledger, run_id)) is not None:
            failed[label] = reason
    return PlanStatus(len(finished), len(labels), running, failed)
