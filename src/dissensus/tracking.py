"""Curves in the format of TensorBoard, for those who watch them there: `pip install 'dissensus[tensorboard]'`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dissensus.errors import InputError
from dissensus.executors import Event
from dissensus.ledger import Ledger


class TensorBoard:
    """A listener that writes one folder a run under `folder`: the training loss as it comes, all curves at the end."""

    def __init__(self, folder: Path, labels: Mapping[str, str], ledger: Ledger) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise InputError(
                "the package tensorboard is not installed", where="--log tensorboard", mend="pip install tensorboard"
            ) from None
        self._make: Any = SummaryWriter
        self._folder, self._labels, self._ledger = folder, labels, ledger
        self._writers: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        """Take note of one event."""
        if event.kind == "epoch":
            self._writer(event.run).add_scalar("train_loss", event.loss, event.epoch)
        elif event.kind == "done":
            writer = self._writer(event.run)
            for name, values in self._ledger.read(event.run).curve.items():
                for epoch, value in enumerate(values, start=1):
                    if value is not None and name != "train_loss":
                        writer.add_scalar(name, value, epoch)
            writer.close()
            del self._writers[event.run]

    def _writer(self, run: str) -> Any:
        if run not in self._writers:
            name = self._labels.get(run, run).replace("/", "-").replace(": ", "/")
            self._writers[run] = self._make(log_dir=str(self._folder / name))
        return self._writers[run]
