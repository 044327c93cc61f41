"""Who computes the specs of a plan. What happens is told as events; results go through the ledger alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dissensus.ledger import Ledger
from dissensus.runs import Spec


@dataclass(frozen=True)
class Event:
    """Something that happened to a run. `kept` means that the ledger had it already; `blocked`, that an input failed."""

    kind: Literal["kept", "started", "epoch", "done", "failed", "blocked"]
    run: str
    epoch: int = 0
    epochs: int = 0
    loss: float = 0.0
    message: str = ""


Listen = Callable[[Event], None]


@dataclass
class Agenda:
    """Which specs are waiting, ready, under way or ended. A spec is ready when all its inputs are in the ledger."""

    specs: Sequence[Spec]
    ledger: Ledger
    listen: Listen
    failed: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting: dict[str, Spec] = {}
        for spec in self.specs:
            if spec.id in self.ledger:
                self.listen(Event("kept", spec.id))
            else:
                self._waiting[spec.id] = spec

    def next(self) -> Spec | None:
        """A spec that can be computed now, or None: then either some are under way, or nothing is left."""
        for run_id, spec in list(self._waiting.items()):
            lost = [need for need in spec.needs if need in self.failed or need in self.blocked]
            if lost:
                del self._waiting[run_id]
                self.blocked.append(run_id)
                self.listen(Event("blocked", run_id, message=f"it needs {', '.join(lost)}"))
            elif all(need in self.ledger for need in spec.needs):
                return self._waiting.pop(run_id)
        return None

    def told(self, event: Event) -> None:
        """Take note of what a worker says, and pass it on."""
        if event.kind == "failed":
            self.failed[event.run] = event.message
        self.listen(event)

    def ended(self) -> None:
        """What still waits now waits for runs that nobody computes: say so."""
        for run_id, spec in self._waiting.items():
            missing = [need for need in spec.needs if need not in self.ledger]
            self.blocked.append(run_id)
            self.listen(Event("blocked", run_id, message=f"it needs {', '.join(missing)}, which is not in the plan"))
        self._waiting.clear()
