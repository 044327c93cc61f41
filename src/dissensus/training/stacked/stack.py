"""The epochs of the stacks: labels, steps, validation, stopping, the best weights."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dissensus.labels.delivery import Labels
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.models import Mlp
from dissensus.models.predictions import Predictions
from dissensus.training import evaluate
from dissensus.training.stacked.batched_heads import BatchedHeads
from dissensus.training.stacked.grouping import Trajectory, stacks_of, trajectories_of
from dissensus.training.stacked.members import Member, Trained, check
from dissensus.training.stacked.shared_inputs import SharedInputs, sharing_key
from dissensus.training.stacked.side_by_side import Tick, side_by_side

MEMORY_BUDGET = 2 * 2**30

Checkpoint = Literal["last", "best"]

Progress = Callable[[int, int], None]
"""(epochs done, epochs in all), summed over members; what a member leaves out by stopping early counts as done."""


def fit(
    x: Tensor,
    members: Sequence[Member],
    *,
    head: Mlp,
    classes: int,
    keep: Collection[Checkpoint] = ("last", "best"),
    share_prefixes: bool = False,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = lambda done, total: None,  # noqa: ARG005
) -> list[Trained]:
    """Train every member on its rows of the features x [N, D]; results in the order of the members.

    Computed in the dtype of x, in as many processes as torch has threads, each with a stack of its own. `keep` names the
    checkpoints whose weights are kept: of a large grid perhaps none. With `share_prefixes`, members that differ in
    `epochs` alone (and hold the very same tensors and labels) are trained once, to the largest number: a shorter run is
    the beginning of a longer one. `memory_budget` bounds the bytes in use at any moment beside x and the results.
    """
    check(x, members, head, classes)
    trajectories = trajectories_of(members, share_prefixes)
    stacks, workers = stacks_of(trajectories, x, head, classes, memory_budget)
    done, total = 0, sum(trajectory.epochs for trajectory in trajectories)

    def tick(epochs: int) -> None:
        nonlocal done
        done += epochs
        progress(done, total)

    tasks = [_Stack(x, stack, head, classes, keep).train for stack in stacks]
    by_index = {index: trained for results in side_by_side(tasks, workers, tick) for index, trained in results.items()}
    return [by_index[index] for index in range(len(members))]


class _Stack:
    """Heads that are trained together, epoch by epoch; those that end go into the results and leave."""

    def __init__(
        self,
        x: Tensor,
        trajectories: list[Trajectory],
        head: Mlp,
        classes: int,
        keep: Collection[Checkpoint],
    ) -> None:
        self.x, self.trajectories, self.head, self.classes, self.keep = x, trajectories, head, classes, keep
        self.results: dict[int, Trained] = {}

    @torch.no_grad()
    def train(self, tick: Tick) -> dict[int, Trained]:
        """Until every head has ended; by the indices of the members."""
        self._set_up()
        epoch = 0
        while self.trajectories:
            self._epoch(epoch)
            self._judge()
            epoch += 1
            left_out = sum(trajectory.epochs - epoch for trajectory in self.trajectories if trajectory.stops)
            tick(len(self.trajectories) + left_out)
            self._release(epoch)
        return self.results

    def _set_up(self) -> None:
        keys = [sharing_key(trajectory.member) for trajectory in self.trajectories]
        members = {key: trajectory.member for key, trajectory in zip(keys, self.trajectories, strict=True)}
        shared = {key: SharedInputs(self.x, member, self.head, self.classes) for key, member in members.items()}
        self.inputs = [shared[key] for key in keys]
        self.names = list(self.inputs[0].initial)
        parameters = [torch.stack([inputs.initial[name] for inputs in self.inputs]) for name in self.names]
        self.heads = BatchedHeads(
            parameters, [trajectory.member.optimiser for trajectory in self.trajectories], self.inputs
        )
        self.best = [p.clone() for p in parameters] if "best" in self.keep else []

    def _epoch(self, epoch: int) -> None:
        batch = self.trajectories[0].member.batch
        batches = {inputs: inputs.batches(epoch) for inputs in self.heads.inputs}
        targets = self._targets(epoch, {inputs: order for inputs, (order, _) in batches.items()})
        parts = torch.split(targets, batch, 1)
        logits = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in parts]
        updates = self.heads.updates([trajectory.rate for trajectory in self.trajectories])
        steps = zip(*(steps for _, steps in batches.values()), strict=True)
        for step, target, output in zip(steps, parts, logits, strict=True):
            self.heads.step(step, target, output, updates)
        losses = _cross_entropy(torch.cat(logits, 1), targets)
        for trajectory, loss in zip(self.trajectories, losses.tolist(), strict=True):
            trajectory.curve["train_loss"].append(loss)

    def _targets(self, epoch: int, orders: dict[SharedInputs, Tensor]) -> Tensor:
        """The labels of each member's items, in the order it meets them: [M, n, K]."""
        shown: dict[Labels, Tensor] = {}
        for labels in {
            trajectory.member.labels for trajectory in self.trajectories
        }:  # many members of a grid share theirs
            values = labels(epoch)
            shown[labels] = (values if values.is_floating_point() else one_hot(values, self.classes)).to(self.x.dtype)
        pairs = zip(self.trajectories, self.inputs, strict=True)
        return torch.stack([shown[trajectory.member.labels][orders[inputs]] for trajectory, inputs in pairs])

    def _judge(self) -> None:
        """Validation and monitors; the best weights so far."""
        better = []
        for inputs, span in zip(self.heads.inputs, self.heads.spans, strict=True):
            logits = self.heads.logits(inputs.validation, span)
            targets = torch.stack([trajectory.member.validation_target for trajectory in self.trajectories[span]])
            losses = _cross_entropy(logits, targets).tolist()
            indices = range(span.start, span.stop)
            better += [index for index, loss in zip(indices, losses, strict=True) if self.trajectories[index].add(loss)]
            for index in indices:
                self._monitor(index)
        rows = torch.tensor(better, dtype=torch.int64)
        for kept, parameter in zip(self.best, self.heads.parameters, strict=False):
            kept[rows] = parameter[rows]

    def _monitor(self, index: int) -> None:
        trajectory, normalise = self.trajectories[index], self.inputs[index].normalise
        for name, monitor in trajectory.member.monitors.items():
            (logits,) = self.heads.logits(normalise(self.x[monitor.rows]), slice(index, index + 1))
            curves = trajectory.monitored.setdefault(name, {})
            scores = evaluate.monitored(Predictions(logits).log_probs, monitor.target, monitor.people, monitor.labels)
            for score, value in scores.items():
                curves.setdefault(score, []).append(value)

    def _release(self, epoch: int) -> None:
        """Keep the results of those for which this was the last epoch, and go on without them."""
        staying = []
        for index, trajectory in enumerate(self.trajectories):
            due = [end for end in trajectory.ends if end == epoch or (trajectory.stops and end > epoch)]
            for member in (member for end in due for member in trajectory.ends[end]):
                self.results[member] = self._trained(index)
            if not trajectory.stops and epoch < trajectory.epochs:
                staying.append(index)
        if len(staying) == len(self.trajectories):
            return
        self.trajectories = [self.trajectories[index] for index in staying]
        self.inputs = [self.inputs[index] for index in staying]
        if self.trajectories:
            self.heads.keep(staying, self.inputs)
            self.best = [kept[torch.tensor(staying)] for kept in self.best]

    def _trained(self, index: int) -> Trained:
        trajectory, normalise = self.trajectories[index], self.inputs[index].normalise
        checkpoints = {"last": self.heads.parameters, "best": self.best if trajectory.best_epoch is not None else []}
        buffers = {f"normalise.{name}": value for name, value in normalise.named_buffers()}
        weights: dict[str, dict[str, Tensor]] = {
            name: {
                **{key: value.clone() for key, value in buffers.items()},
                **{key: value[index].clone() for key, value in zip(self.names, checkpoints[name], strict=True)},
            }
            for name in self.keep
            if checkpoints[name]
        }
        curve = {name: list(values) for name, values in trajectory.curve.items()}
        monitored = {name: {key: list(v) for key, v in curves.items()} for name, curves in trajectory.monitored.items()}
        return Trained(curve, trajectory.best_epoch, weights, monitored)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean over items, float64 [M], of logits [M, n, K] to targets [M, n, K]."""
    return unchecked_soft_nll(Predictions(logits).log_probs, target).mean(-1)
