"""A finished run, loaded again: its data and split, and the network of one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.engine.setup import TrainingSetup, chosen_run
from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions
from dissensus.probes.requirements import features_of
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run
from dissensus.training import evaluate


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """`model` is in eval mode. `checkpoint` is the one it has: `last` where `best` was asked for and never kept."""

    setup: TrainingSetup
    checkpoint: str
    model: Model

    @classmethod
    def load(cls, run_id: str, ledger: Ledger, checkpoint: str) -> FinishedRun:
        """From the run's record and weights, on the CPU, or on a GPU where there is one; of a selection, its winner."""
        run = chosen_run(run_id, ledger)
        setup, name = TrainingSetup.of(run.spec, ledger), kept_checkpoint(run, checkpoint)
        return cls(setup, name, on_device(setup.trained(run.id, ledger, name), setup))

    @property
    def seed(self) -> int:
        """The run's."""
        return self.setup.seed

    def x(self, rows: Tensor) -> Tensor:
        """The inputs of these rows as they are stored, on the model's device."""
        return self.setup.x(rows).to(next(self.model.parameters()).device)

    def predict(self, rows: Tensor) -> Predictions:
        """The predictions for these rows, unaugmented; on the CPU."""
        return evaluate.predict(self.model, self.x(rows))

    def features(self, rows: Tensor, probe: str) -> Tensor:
        """The penultimate features of these rows [n, D], which `probe` needs."""
        return features_of(self.predict(rows), probe)


def load_pair(run_ids: tuple[str, ...], ledger: Ledger, checkpoint: str) -> tuple[FinishedRun, FinishedRun]:
    """Two finished runs."""
    first, second = (FinishedRun.load(run_id, ledger, checkpoint) for run_id in run_ids)
    return first, second


def on_device(model: Model, setup: TrainingSetup) -> Model:
    """In eval mode, where and how it is fastest: on a GPU if there is one; channels-last for images, as in training."""
    return on_fastest_device(model, images=setup.data.x is not None and setup.data.x.ndim == 4)


def on_fastest_device(model: Model, *, images: bool = True) -> Model:
    """The same for a model of whatever origin, for images or not."""
    if images:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def kept_checkpoint(run: Run, checkpoint: str) -> str:
    """`checkpoint`, or `last` where the run kept no best epoch."""
    if checkpoint not in ("last", "best"):
        raise InputError(f"{checkpoint!r} is not one of last, best", where="checkpoint", state="")
    return checkpoint if checkpoint in run.scores else "last"


def held_out_in_all(*setups: TrainingSetup) -> Tensor:
    """The rows that all of these runs held out, ascending."""
    if len({setup.data.digest for setup in setups}) > 1:
        raise InputError(
            "these runs are of different data", where="relate", hint="Compare runs of one data set", state=""
        )
    return rows_in_all([setup.held_out for setup in setups])


def rows_in_all(parts: list[Tensor]) -> Tensor:
    """The rows that are in every part, ascending; none is an error."""
    shared = sorted(set.intersection(*(set(part.tolist()) for part in parts)))
    if not shared:
        raise InputError(
            "these runs held out no item in common", where="relate", hint="Use runs of one split, or more items", state=""
        )
    return torch.tensor(shared, dtype=torch.int64)


def at_most(rows: Tensor, items: int | None, seed: int) -> Tensor:
    """`items` of these rows, drawn by the seed and keyed by the row, in their order; all where `items` is None."""
    if items is None or items >= len(rows):
        return rows
    lots = random.uniform(seed, "probe", "items", rows=rows)
    return rows[torch.from_numpy(np.sort(np.argsort(lots, kind="stable")[:items]))]
