"""What a person sees while runs are computed: how many are done, what each is doing, how long it will take."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dissensus.engine.events import Event
from dissensus.experiments.cost import duration
from dissensus.store import locks
from dissensus.store.ledger import Ledger

MOST_SHOWN = 12
ENDED = frozenset({"already_done", "done", "failed", "blocked"})
"""Kinds of event after which a run takes no more time here; one that stopped, or is computed elsewhere, still might."""


@dataclass
class Doing:
    """A run under way."""

    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    resumed_at: int = 0

    @property
    def share(self) -> float:
        """How much of it is done."""
        return self.epoch / self.epochs if self.epochs else 0.0

    @property
    def done_here(self) -> float:
        """How much of it was done since it was begun or resumed."""
        return self.share - self.resumed_at / self.epochs if self.epochs else 0.0


class Display:
    """A live display of executor events; on a terminal a table, elsewhere a line every `quiet_every` seconds.

    `labels` are the names of runs as people know them ("Soft, seed 3"). `costs` weigh runs against each other in the time
    that is left; a run without one is held to be quick, and if none has one all are held to be equal.
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
        self._ahead = dict(costs) or dict.fromkeys(labels, 1.0)
        self._known_from, self._spent = 0.2 * min(self._ahead.values(), default=0.0), 0.0
        self._total, self._kept, self._computed, self._failed = len(labels), 0, 0, 0
        self._doing: dict[str, Doing] = {}
        self._said = self._started = time.monotonic()
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
        """Take note of one event."""
        if event.kind == "started":
            self._doing[event.run] = Doing()
        elif event.kind == "epoch":
            before = self._doing.get(event.run, Doing())
            resumed_at = before.resumed_at if before.epoch else event.epoch - 1
            self._doing[event.run] = Doing(event.epoch, event.epochs, event.loss, resumed_at)
        else:
            was = self._doing.pop(event.run, Doing())
            cost = self._ahead.pop(event.run, 0.0) if event.kind in ENDED else 0.0
            if event.kind == "done":
                self._spent += cost * (was.done_here if was.epochs else 1.0)
        if event.kind == "already_done":
            self._kept += 1
        elif event.kind == "done":
            self._computed += 1
        elif event.kind in ("failed", "blocked", "disk_full"):
            self._failed += 1
            what = "the disk is full" if event.kind == "disk_full" else event.kind
            name = self._labels.get(event.run, event.run)
            self._console.print(f"{what}: {name}\n{event.message}", style="red", markup=False, highlight=False)
        self._say()

    @property
    def _ended(self) -> int:
        return self._kept + self._computed + self._failed

    def _say(self) -> None:
        now = time.monotonic()
        if not self._console.is_terminal and (now - self._said > self._quiet_every or self._ended == self._total):
            self._said = now
            self._console.print(self._line(), markup=False, highlight=False, soft_wrap=True)

    def _line(self) -> str:
        return f"{self._ended}/{self._total} runs · {self._left()}"

    def _left(self) -> str:
        """Time left, from the speed so far: what is under way counts by its share."""
        if self._ended == self._total:
            failed = f", {self._failed} failed" if self._failed else ""
            return f"{self._kept} from before, {self._computed} computed{failed}"
        if not self._ahead:
            return "training is done"
        costs = {run: self._ahead.get(run, 0.0) for run in self._doing}
        spent = self._spent + sum(one.done_here * costs[run] for run, one in self._doing.items())
        if spent < self._known_from:
            return "time left: not known yet"
        rest = sum(self._ahead.values()) - sum(one.share * costs[run] for run, one in self._doing.items())
        return f"about {duration((time.monotonic() - self._started) / spent * rest)} left"

    def _render(self) -> RenderableType:
        bar = ProgressBar(total=max(1, self._total), completed=self._ended, width=40)
        return Group(Text(self._line()), bar, doing_table({self._labels.get(r, r): d for r, d in self._doing.items()}))


def doing_table(doing: Mapping[str, Doing]) -> Table:
    """One row a run under way: epoch, loss, share done."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("run", "epoch", "loss", ""):
        table.add_column(name, no_wrap=True)
    for label, one in list(doing.items())[:MOST_SHOWN]:
        bar = ProgressBar(total=1.0, completed=one.share, width=16)
        loss = "" if one.loss is None else f"{one.loss:.4f}"
        table.add_row(label, f"{one.epoch}/{one.epochs}", loss, bar)
    if len(doing) > MOST_SHOWN:
        table.add_row(f"and {len(doing) - MOST_SHOWN} more", "", "", "")
    return table


@dataclass(frozen=True)
class Survey:
    """An experiment as its ledger shows it, from another terminal or another machine."""

    done: int
    total: int
    doing: Mapping[str, Doing]
    failed: Mapping[str, str]

    @property
    def sentence(self) -> str:
        """In words."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{self.done}/{self.total} runs are done, {len(self.doing)} under way{failed}"


def survey(labels: Mapping[str, str], ledger: Ledger) -> Survey:
    """What of these runs is done, under way (somebody holds its lock) or failed.

    Two listings, and a look into the folders of what is not finished: also where the plan has 100,000 runs.
    """
    finished = labels.keys() & ledger.ids()
    begun = ledger.begun() & labels.keys() - finished
    now = locks.clock(ledger.folder) if begun else 0.0
    doing, failed = {}, {}
    for run in (run for run in labels if run in begun):
        label, error = labels[run], ledger.error_file(run)
        if locks.is_held(ledger.lock_file(run), now=now):
            try:
                doing[label] = Doing(**json.loads(ledger.progress_file(run).read_text(encoding="utf-8")))
            except FileNotFoundError:  # just begun
                doing[label] = Doing()
        elif error.is_file():
            failed[label] = error.read_text(encoding="utf-8")
    return Survey(len(finished), len(labels), doing, failed)
