"""What executors tell while runs are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    `kept`: the ledger had it already. `elsewhere`: another executor computes it. `stopped`: it saved itself on request.
    `blocked`: an input failed. `full`: there is no room on the disk, and nothing more should be begun. `loss` is None
    where it is not known yet: runs that are computed together tell theirs at the end.
    """

    kind: Literal["kept", "started", "epoch", "done", "failed", "blocked", "elsewhere", "stopped", "full"]
    run: str
    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    message: str = ""


ENDINGS = frozenset({"kept", "done", "failed", "elsewhere", "stopped", "full"})
"""Kinds of event after which nobody is at work on the run any more."""

Listen = Callable[[Event], None]
