"""What a member of a stack is, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dissensus.errors import InputError
from dissensus.labels.delivery import Labels
from dissensus.models import Mlp
from dissensus.training.optimisers import Adam, OptimiserRule
from dissensus.training.schedules import Constant, EarlyStopping, Schedule
from dissensus.training.stacked.eligibility import architecture_problem, rules_problem


@dataclass(frozen=True, eq=False)
class Monitor:
    """Items to judge a member on after each epoch, in eval mode; it changes nothing in the training.

    `rows` int64 [n] of x; for the loss the member's own `target` [n, K], for KL the shares of the votes `people` [n, K],
    for accuracy what counts as right, `labels` int64 [n].
    """

    rows: Tensor
    target: Tensor
    people: Tensor
    labels: Tensor


@dataclass(frozen=True, eq=False)
class Member:
    """One head to train: what `loop.Settings`, a seed, a split and a delivery say of a run.

    `labels(epoch)` are those of `train_rows`, in that order; `validation_target` [n, K] is the member's own target on
    `validation_rows`: plateau, stopping and the best epoch watch the cross-entropy to it. Rows are int64 rows of x. The
    schedule is set per epoch: then a short run is the beginning of a long one.
    """

    seed: int
    train_rows: Tensor
    validation_rows: Tensor
    labels: Labels
    validation_target: Tensor
    optimiser: OptimiserRule = Adam()
    schedule: Schedule = Constant()
    stopping: EarlyStopping | None = None
    epochs: int = 20
    batch: int = 32
    monitors: Mapping[str, Monitor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trained:
    """A member after its last epoch.

    `curve` has `train_loss` (the mean over the epoch, in training mode) and `validation_loss`, one value per epoch;
    `monitored[name]` has `loss`, `accuracy` and `kl`. `weights` has the checkpoints that were asked for, `last` and
    `best` (the lowest validation loss, the first of equals), as state dicts of `models.Mlp`. `best_epoch` counts from 0,
    and is None, without `best` weights, where no validation loss was finite.
    """

    curve: dict[str, list[float]]
    best_epoch: int | None
    weights: dict[str, dict[str, Tensor]]
    monitored: dict[str, dict[str, list[float]]]

    @property
    def epochs(self) -> int:
        """How many were trained: fewer than asked for where the member stopped early."""
        return len(self.curve["train_loss"])


def check(x: Tensor, members: Sequence[Member], head: Mlp, classes: int) -> None:
    """Refuse what cannot be trained, before anything is."""
    if x.ndim != 2 or x.dtype not in (torch.float32, torch.float64) or x.device.type != "cpu":
        raise InputError(
            f"features are {x.dtype} {tuple(x.shape)} on {x.device}, not float32 or float64 [items, features] on the CPU",
            where="features",
            state="",
        )
    if not bool(torch.isfinite(x).all()):
        bad = torch.nonzero(~torch.isfinite(x).all(1)).flatten()
        raise InputError(
            f"row {int(bad[0])} has NaN or infinity ({len(bad)} rows do)",
            where="features",
            hint="Correct or drop the rows",
            state="",
        )
    if problem := architecture_problem(head):
        raise InputError(problem, where="head", state="")
    for number, member in enumerate(members):
        if problem := _problem(member, len(x), classes):
            raise InputError(problem, where=f"member {number}", state="")


def _problem(member: Member, items: int, classes: int) -> str:
    if member.epochs < 1 or member.batch < 1:
        return f"{member.epochs} epochs of batches of {member.batch} train nothing"
    if len(member.train_rows) < member.batch:
        return f"{len(member.train_rows)} training items are fewer than a batch of {member.batch}"
    problem = rules_problem(member.optimiser, member.schedule)
    problem = problem or _label_problem(member.labels(0), len(member.train_rows), classes)
    if problem:
        return problem
    judged = {"validation": (member.validation_rows, member.validation_target, member.validation_target)}
    judged.update((name, (part.rows, part.target, part.people)) for name, part in member.monitors.items())
    for name, (rows, *distributions) in judged.items():
        for shape in (tuple(distribution.shape) for distribution in distributions):
            if len(rows) == 0 or shape != (len(rows), classes):
                return f"{len(rows)} {name} rows have a target of shape {shape}, and there are {classes} classes"
    for rows in (member.train_rows, *(rows for rows, *_ in judged.values())):
        if int(rows.min()) < 0 or int(rows.max()) >= items:
            return f"rows {int(rows.min())} to {int(rows.max())} are asked for, and the features have {items}"
    return ""


def _label_problem(labels: Tensor, items: int, classes: int) -> str:
    soft = labels.is_floating_point()
    if labels.shape != ((items, classes) if soft else (items,)):
        return f"labels of shape {tuple(labels.shape)} for {items} training items and {classes} classes"
    if not soft and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        return f"labels from {int(labels.min())} to {int(labels.max())}, and there are {classes} classes"
    return ""
