"""Executor: computes what a ledger lacks of a plan. Where and how is up to each: local.py, ray.py, slurm.py,
torchrun.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dissensus.engine.events import Listener, ignore
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

__all__ = ["Executor", "PlanResult"]


@dataclass(frozen=True)
class PlanResult:
    """What of a plan could not be computed: messages of failed runs, ids of those that needed them, and whether the disk
    is full; and ids of runs that were left to other executors. Everything else is in the ledger."""

    failed: Mapping[str, str]
    blocked: tuple[str, ...]
    disk_full: str = ""
    elsewhere: tuple[str, ...] = ()


class Executor(Protocol):
    """A frozen dataclass with its options as fields. tests/test_executors.py holds all of them to this contract."""

    def run(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener = ignore) -> PlanResult:
        """Compute the specs that the ledger lacks, each after the runs it needs; `listen` is called in this process.

        A run that fails blocks those that need it, and no other. Ctrl-C lets every run finish its step and save itself,
        and raises KeyboardInterrupt; the same call then goes on. A second Ctrl-C does not wait. Several executors, here
        or on other machines, may share a ledger.
        """
