"""By all processes that `torchrun` started: one run after another, each computed by the whole group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from dissensus.engine.events import Event, Listener, ignore
from dissensus.engine.executor import PlanResult
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.scheduler import Scheduler
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.distributed import ALONE, Group


@dataclass(frozen=True)
class TorchrunExecutor:
    """The first process decides what is next.

    It promises less than other executors, since no process can leave a step of the group alone: a failing run ends the
    plan, and an interrupted one goes on from its last checkpoint.
    """

    group: Group = ALONE
    execution: Execution = Execution()

    def run(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener = ignore) -> PlanResult:
        """Called by every process of the group, with the same arguments; only the first one listens."""
        scheduler = Scheduler(specs, ledger, listen) if self.group.leads else None
        while (spec := self.group.from_leader(_next(scheduler))) is not None:
            _tell(scheduler, Event("started", spec.id))

            def progress(epoch: int, epochs: int, loss: float | None, run: str = spec.id) -> None:
                _tell(scheduler, Event("epoch", run, epoch, epochs, loss))

            execute(spec, ledger, self.execution, progress, group=self.group)
            _tell(scheduler, Event("done", spec.id))
        return cast(PlanResult, self.group.from_leader(scheduler and scheduler.result()))


def _next(scheduler: Scheduler | None) -> Spec | None:
    assignment = scheduler and scheduler.next()
    return assignment.specs[0] if assignment else None


def _tell(scheduler: Scheduler | None, event: Event) -> None:
    if scheduler:
        scheduler.note(event)
