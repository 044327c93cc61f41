"""A finished run, taken up again: its data and split, and the network of one of its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from dissensus import random
from dissensus.engine.setup import TrainingSetup
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Run
from dissensus.training import evaluate


@dataclass(frozen=True, eq=False)
class Subject:
    """`model` is in eval mode. `checkpoint` is the one it has: `last` where `best` was asked for and never kept."""

    stage: TrainingSetup
    checkpoint: str
    model: nn.Module

    @classmethod
    def of(cls, run_id: str, ledger: Ledger, checkpoint: str) -> Subject:
        """From the run's record and weights, on the CPU, or on a GPU where there is one."""
        run = ledger.read(run_id)
        stage, name = TrainingSetup.of(run.spec, ledger), kept_checkpoint(run, checkpoint)
        model = stage.model()
        model.load_state_dict(ledger.weights(run_id, name))
        return cls(stage, name, placed(model, stage))

    @property
    def seed(self) -> int:
        """The run's."""
        return self.stage.seed

    def x(self, rows: Tensor) -> Tensor:
        """The inputs of these rows as they are stored, where the model is."""
        return self.stage.x(rows).to(next(self.model.parameters()).device)

    def predict(self, rows: Tensor) -> Predictions:
        """What the model says of these rows, unaugmented; on the CPU."""
        return evaluate.predict(self.model, self.x(rows))

    def features(self, rows: Tensor) -> Tensor:
        """Penultimate features of these rows [n, D]."""
        return features_of(self.predict(rows))


def placed(model: nn.Module, stage: TrainingSetup) -> nn.Module:
    """In eval mode, where and how it is fastest: on a GPU if there is one; channels-last for images, as in training."""
    if stage.data.x is not None and stage.data.x.ndim == 4:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def features_of(predictions: Predictions) -> Tensor:
    """The penultimate features, which every model of ours gives."""
    assert predictions.features is not None
    return predictions.features


def kept_checkpoint(run: Run, wanted: str) -> str:
    """`wanted`, or `last` where the run kept no best epoch."""
    if wanted not in ("last", "best"):
        raise InputError(f"{wanted!r} is not one of last, best", where="checkpoint", state="")
    return wanted if wanted in run.scores else "last"


def kept_predictions(run_id: str, ledger: Ledger, checkpoint: str) -> Arrays:
    """What a run recorded of its checkpoint on the items it held out: rows, logits, people, labels, ids."""
    arrays = ledger.predictions(run_id, checkpoint)
    if arrays is None:
        raise InputError(
            f"the predictions of run {run_id} were not kept",
            where=str(ledger.folder),
            hint="Remove its folder and run it again",
        )
    return arrays


def held_out_in_both(one: TrainingSetup, other: TrainingSetup) -> Tensor:
    """The rows that neither run was trained on, ascending."""
    if one.data.digest != other.data.digest:
        raise InputError(
            "these runs are of different data", where="relate", hint="Compare runs of one data set", state=""
        )
    return in_all([one.held_out, other.held_out])


def in_all(parts: list[Tensor]) -> Tensor:
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
