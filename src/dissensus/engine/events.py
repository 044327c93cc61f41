"""What executors say while runs are computed, on the way or in a file, and what they ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypedDict

from dissensus.errors import InputError
from dissensus.store.atomic_files import read_whole
from dissensus.store.json_types import misfit, parse_json
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    `already_done`: the ledger had it. `computed_elsewhere`: another executor holds its lock. `stopped`: it saved itself
    on request. `blocked`: an input failed. `disk_full`: nothing can be written, for want of room or of permission, and
    nothing more should be begun. `note`: the message is for the user, and nothing ended. `loss` is None where it is not
    known yet: the runs of a stack learn theirs at the end.
    """

    kind: Literal[
        "already_done",
        "started",
        "epoch",
        "done",
        "failed",
        "blocked",
        "computed_elsewhere",
        "stopped",
        "disk_full",
        "note",
    ]
    run: str
    epoch: int = 0
    epochs: int = 0
    loss: float | None = None
    message: str = ""


ENDINGS = frozenset({"already_done", "done", "failed", "computed_elsewhere", "stopped", "disk_full"})
"""Kinds of event after which this executor no longer works on the run."""

Listener = Callable[[Event], None]

EpochProgress = Callable[[int, int, float | None], None]
"""(epochs done, epochs in all, training loss); of a measure, steps done and at most to do, without a loss."""

StopRequested = Callable[[], bool]
"""Asked after every step: whether to save the run and leave."""


def ignore(event: Event) -> None:
    """Listen to nothing."""


class _ProgressJson(TypedDict):
    epoch: int
    epochs: int
    loss: float | None


def read_progress(ledger: Ledger, run_id: str) -> Event | None:
    """The last epoch that a run under way wrote down; None where there is none, or a damaged one: no result needs it."""
    try:
        progress = parse_json(read_whole(ledger.progress_file(run_id)))
    except (FileNotFoundError, ValueError):
        return None
    if misfit(progress, _ProgressJson):
        return None
    return Event("epoch", run_id, progress["epoch"], progress["epochs"], progress["loss"])


def read_failure(ledger: Ledger, run_id: str) -> str | None:
    """Why a run failed, as it wrote it down; None where it did not fail, or is just being started again."""
    try:
        words = read_whole(ledger.error_file(run_id)).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except InputError as problem:  # a folder in its place
        return problem.what
    return words if words.strip() else "it failed, and the file that said why is empty"
