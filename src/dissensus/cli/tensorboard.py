"""Curves in the format of TensorBoard: `pip install 'dissensus[tensorboard]'`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dissensus.engine.events import Event
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger


class TensorBoard:
    """A listener that writes one folder per run: the training loss after each epoch, all curves at the end."""

    def __init__(self, folder: Path, labels: Mapping[str, str], ledger: Ledger) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "the package tensorboard is not installed",
                where="--log tensorboard",
                hint="Run `pip install tensorboard`",
            ) from None
        self._make: Any = SummaryWriter
        self._folder, self._labels, self._ledger = folder, labels, ledger
        self._writers: dict[str, Any] = {}
        self._written: dict[str, set[int]] = {}  # epochs whose training loss is written: not every epoch has an event

    def __call__(self, event: Event) -> None:
        """Write what one event adds."""
        if event.kind == "epoch" and event.loss is not None:
            self._writer(event.run).add_scalar("train_loss", event.loss, event.epoch)
            self._written.setdefault(event.run, set()).add(event.epoch)
        elif event.kind == "done":
            writer, written = self._writer(event.run), self._written.pop(event.run, set())
            for name, values in self._ledger.read(event.run).curve.items():
                for epoch, value in enumerate(values, start=1):
                    if value is not None and not (name == "train_loss" and epoch in written):
                        writer.add_scalar(name, value, epoch)
            writer.close()
            del self._writers[event.run]

    def _writer(self, run_id: str) -> Any:
        if run_id not in self._writers:
            name = self._labels.get(run_id, run_id).replace("/", "-").replace(": ", "/")
            self._writers[run_id] = self._make(log_dir=str(self._folder / name))
        return self._writers[run_id]
