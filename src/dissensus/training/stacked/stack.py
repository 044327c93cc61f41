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
from dissensus.training.stacked.grouping import Line, lines_of, plan
from dissensus.training.stacked.heads import Heads
from dissensus.training.stacked.members import Member, Trained, check
from dissensus.training.stacked.shared_inputs import Deck, identity
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
    progress: Progress = lambda done, of: None,  # noqa: ARG005
) -> list[Trained]:
    """Train every member on its rows of the features x [N, D]; answers in the order of the members.

    Computed in the dtype of x, in as many processes as torch has threads, each with a stack of its own. `keep` names the
    checkpoints whose weights are wanted: of a large grid perhaps none. With `share_prefixes`, members that differ in
    `epochs` alone (and hold the very same tensors and labels) are trained once, to the largest number: a shorter run is
    the beginning of a longer one. `memory_budget` bounds the bytes in use at any moment beside x and the answer.
    """
    check(x, members, head, classes)
    lines = lines_of(members, share_prefixes)
    stacks, workers = plan(lines, x, head, classes, memory_budget)
    done, of = 0, sum(line.epochs for line in lines)

    def tick(epochs: int) -> None:
        nonlocal done
        done += epochs
        progress(done, of)

    tasks = [_Stack(x, stack, head, classes, keep).train for stack in stacks]
    parts = side_by_side(tasks, workers, tick)
    answer = {place: one for part in parts for place, one in part.items()}
    return [answer[place] for place in range(len(members))]


class _Stack:
    """Members that are trained together, epoch by epoch; those that end go into the answer and leave."""

    def __init__(
        self,
        x: Tensor,
        lines: list[Line],
        head: Mlp,
        classes: int,
        keep: Collection[Checkpoint],
    ) -> None:
        self.x, self.lines, self.head, self.classes, self.keep = x, lines, head, classes, keep
        self.answer: dict[int, Trained] = {}

    @torch.no_grad()
    def train(self, tick: Tick) -> dict[int, Trained]:
        """Until every member has ended; by their places."""
        self._set_up()
        epoch = 0
        while self.lines:
            self._epoch(epoch)
            self._judge()
            epoch += 1
            tick(len(self.lines) + sum(line.epochs - epoch for line in self.lines if line.stops))
            self._release(epoch)
        return self.answer

    def _set_up(self) -> None:
        keys = [identity(line.member) for line in self.lines]
        members = {key: line.member for key, line in zip(keys, self.lines, strict=True)}
        decks = {key: Deck(self.x, member, self.head, self.classes) for key, member in members.items()}
        self.dealt_to = [decks[key] for key in keys]
        self.names = list(self.dealt_to[0].initial)
        parameters = [torch.stack([deck.initial[name] for deck in self.dealt_to]) for name in self.names]
        self.heads = Heads(parameters, [line.member.optimiser for line in self.lines], self.dealt_to)
        self.best = [p.clone() for p in parameters] if "best" in self.keep else []

    def _epoch(self, epoch: int) -> None:
        batch = self.lines[0].member.batch
        dealt = {deck: deck.deal(epoch) for deck in self.heads.decks}
        target = self._targets(epoch, {deck: order for deck, (order, _) in dealt.items()})
        logits = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in torch.split(target, batch, 1)]
        updates = self.heads.updates([line.rate for line in self.lines])
        steps = zip(*(steps for _, steps in dealt.values()), strict=True)
        for batches, wanted, said in zip(steps, torch.split(target, batch, 1), logits, strict=True):
            self.heads.step(batches, wanted, said, updates)
        losses = _cross_entropy(torch.cat(logits, 1), target)
        for line, loss in zip(self.lines, losses.tolist(), strict=True):
            line.curve["train_loss"].append(loss)

    def _targets(self, epoch: int, orders: dict[Deck, Tensor]) -> Tensor:
        """What each member is shown of the items, in the order it meets them: [M, n, K]."""
        shown: dict[Labels, Tensor] = {}
        for labels in {line.member.labels for line in self.lines}:  # many members of a grid share theirs
            said = labels(epoch)
            shown[labels] = (said if said.is_floating_point() else one_hot(said, self.classes)).to(self.x.dtype)
        dealt = zip(self.lines, self.dealt_to, strict=True)
        return torch.stack([shown[line.member.labels][orders[deck]] for line, deck in dealt])

    def _judge(self) -> None:
        """Validation and monitors; the best weights so far."""
        better = []
        for deck, span in zip(self.heads.decks, self.heads.spans, strict=True):
            logits = self.heads.logits(deck.validation, span)
            targets = torch.stack([line.member.validation_target for line in self.lines[span]])
            losses = _cross_entropy(logits, targets).tolist()
            places = range(span.start, span.stop)
            better += [place for place, loss in zip(places, losses, strict=True) if self.lines[place].note(loss)]
            for place in places:
                self._monitor(place, deck)
        rows = torch.tensor(better, dtype=torch.int64)
        for kept, parameter in zip(self.best, self.heads.parameters, strict=False):
            kept[rows] = parameter[rows]

    def _monitor(self, place: int, deck: Deck) -> None:
        line = self.lines[place]
        for name, monitor in line.member.monitors.items():
            (logits,) = self.heads.logits(deck.normalise(self.x[monitor.rows]), slice(place, place + 1))
            curves = line.monitored.setdefault(name, {})
            scores = evaluate.monitored(Predictions(logits).log_probs, monitor.target, monitor.people, monitor.labels)
            for score, value in scores.items():
                curves.setdefault(score, []).append(value)

    def _release(self, epoch: int) -> None:
        """Write down the members for which this was the last epoch, and go on without them."""
        staying = []
        for place, line in enumerate(self.lines):
            due = [end for end in line.ends if end == epoch or (line.stops and end > epoch)]
            for position in (position for end in due for position in line.ends[end]):
                self.answer[position] = self._trained(place)
            if not line.stops and epoch < line.epochs:
                staying.append(place)
        if len(staying) == len(self.lines):
            return
        self.lines = [self.lines[place] for place in staying]
        self.dealt_to = [self.dealt_to[place] for place in staying]
        if self.lines:
            self.heads.keep(staying, self.dealt_to)
            self.best = [kept[torch.tensor(staying)] for kept in self.best]

    def _trained(self, place: int) -> Trained:
        line, deck = self.lines[place], self.dealt_to[place]
        checkpoints = {"last": self.heads.parameters, "best": self.best if line.best_epoch is not None else []}
        buffers = {f"normalise.{name}": value for name, value in deck.normalise.named_buffers()}
        weights: dict[str, dict[str, Tensor]] = {
            name: {
                **{key: value.clone() for key, value in buffers.items()},
                **{key: value[place].clone() for key, value in zip(self.names, checkpoints[name], strict=True)},
            }
            for name in self.keep
            if checkpoints[name]
        }
        curve = {name: list(values) for name, values in line.curve.items()}
        monitored = {name: {key: list(v) for key, v in curves.items()} for name, curves in line.monitored.items()}
        return Trained(curve, line.best_epoch, weights, monitored)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Mean over items, float64 [M], of logits [M, n, K] to targets [M, n, K]."""
    return unchecked_soft_nll(Predictions(logits).log_probs, target).mean(-1)
