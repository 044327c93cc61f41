"""The weights of a stack of heads of one shape, and what a step does with them.

Written by hand and not by autograd: with the products of a batch shared and every buffer made once, forward and backward
are some fifteen calls whatever the number of members. The gradient of the first weights, by far the largest, is never
there as a whole: it is computed for a few heads, which are updated while it is in the cache, and then for the next. Tests
hold it all to autograd through `train.fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from dissensus.training.optimisers import Adam, AdamW, OptimiserRule, Sgd
from dissensus.training.stacked.shared_inputs import Deck

EVALUATION_ROWS = 512  # at a time: bounds what evaluating a large set needs

UPDATE_BYTES = 2 * 2**20  # of first weights that are updated in one call: their gradient is still in the cache

STATES: dict[type, int] = {Adam: 2, AdamW: 2, Sgd: 1}
"""How many tensors of the parameters' size an optimiser keeps."""


@dataclass(frozen=True, eq=False)
class Update:
    """Heads that move in one call: `members` of one deck, one rule and one learning rate.

    `gradient` [m·H, D] is where `move` looks for that of their first weights.
    """

    deck: int
    members: slice
    gradient: Tensor
    move: Callable[[], object]


class Heads:
    """M heads Linear–GELU–Dropout–…–Linear. `parameters`: [M, out, in] and [M, out] a layer; states alike.

    `dealt_to` names each head's deck: `decks` are the different ones, `spans` the heads of each, which stand together.
    """

    def __init__(self, parameters: list[Tensor], rules: Sequence[OptimiserRule], dealt_to: Sequence[Deck]) -> None:
        self.parameters, self.rules = parameters, list(rules)
        self.states = [[torch.zeros_like(p) for p in parameters] for _ in range(STATES[type(rules[0])])]
        self._steps, self._one = torch.zeros(()), torch.ones(())
        self._arrange(dealt_to)

    def __len__(self) -> int:
        return len(self.parameters[0])

    def keep(self, places: Sequence[int], dealt_to: Sequence[Deck]) -> None:
        """Drop all heads but these."""
        rows = torch.tensor(places)
        self.parameters = [p[rows] for p in self.parameters]
        self.states = [[s[rows] for s in state] for state in self.states]
        self.rules = [self.rules[place] for place in places]
        self._arrange(dealt_to)

    def _arrange(self, dealt_to: Sequence[Deck]) -> None:
        first, *rest = self.parameters
        self._together = max(1, UPDATE_BYTES // (first[0].numel() * first.itemsize))
        self._first_gradient = torch.empty_like(first[: self._together])
        self.gradients = [torch.empty_like(p) for p in rest]
        self.decks = list(dict.fromkeys(dealt_to))
        ends = list(accumulate(dealt_to.count(deck) for deck in self.decks))
        self.spans = [slice(*span) for span in pairwise([0, *ends])]
        self._passes: dict[int, _Pass] = {}

    def logits(self, x: Tensor, members: slice) -> Tensor:
        """[m, n, K] of these heads in eval mode, all for the same normalised inputs [n, D]."""
        weight, bias, *rest = (p[members] for p in self.parameters)
        parts = []
        for rows in torch.split(x, EVALUATION_ROWS):
            first = torch.addmm(bias.reshape(-1), rows, weight.flatten(0, 1).t())
            hidden = first.view(len(rows), len(weight), -1).transpose(0, 1)
            for w, b in zip(rest[::2], rest[1::2], strict=True):
                hidden = torch.baddbmm(b.unsqueeze(1), gelu(hidden), w.transpose(1, 2))
            parts.append(hidden)
        return torch.cat(parts, 1)

    def step(
        self,
        batches: Sequence[tuple[Tensor, ...]],
        target: Tensor,
        logits: Tensor,
        updates: Sequence[Update],
    ) -> None:
        """Move each head along the gradient of its mean cross-entropy to `target` [M, B, K]; write its `logits`, alike.

        `batches` has, for each deck, inputs [B, D] and a dropout mask [B, H] for each hidden layer (or none).
        """
        length = target.shape[1]
        if length not in self._passes:
            self._passes[length] = _Pass(self, length)
        slopes = self._passes[length](batches, target, logits)
        self._steps.add_(self._one)  # a Python number would be made a tensor at every step
        for update in updates:
            torch.mm(slopes[update.members], batches[update.deck][0], out=update.gradient)
            update.move()

    def updates(self, rates: Sequence[float]) -> list[Update]:
        """What moves the heads along their gradients at these learning rates, a few alike ones at a time."""
        decks = [deck for deck, span in enumerate(self.spans) for _ in range(span.start, span.stop)]
        updates = []
        for (deck, rule, rate), run in groupby(range(len(self)), lambda at: (decks[at], self.rules[at], rates[at])):
            places = list(run)
            for start in range(places[0], places[-1] + 1, self._together):
                members = slice(start, min(start + self._together, places[-1] + 1))
                first = self._first_gradient[: members.stop - members.start]
                parts = [[p[members] for p in part] for part in (self.parameters, self.gradients, *self.states)]
                parts[1].insert(0, first)
                updates.append(Update(deck, members, first.flatten(0, 1), self._move(rule, rate, parts)))
        return updates

    def _move(self, rule: OptimiserRule, rate: float, parts: list[list[Tensor]]) -> Callable[[], object]:
        settings = rule.build([torch.zeros(1)]).defaults  # the constants of optim.py, and no others
        options: dict[str, Any] = {"lr": rate, "weight_decay": settings["weight_decay"], "maximize": False}
        if isinstance(rule, Sgd):
            moved, gradients, momenta = parts
            options |= {name: settings[name] for name in ("momentum", "dampening", "nesterov")}
            options["is_first_step"] = False  # momenta start at 0, which comes to the same without dampening
            return partial(torch._fused_sgd_, moved, gradients, momenta if rule.momentum else [], **options)
        beta1, beta2 = settings["betas"]
        options |= {"beta1": beta1, "beta2": beta2, "eps": settings["eps"], "amsgrad": False}
        kernel = torch._fused_adamw_ if isinstance(rule, AdamW) else torch._fused_adam_
        return partial(kernel, *parts, [], [self._steps] * len(self.parameters), **options)


class _Pass:
    """Forward and backward for batches of one length, with every buffer and view made once.

    The first layer lies in memory as [B, M·H]: the heads of a deck are neighbours and take one product. Everything else
    is seen as [M, B, H], the first layer through a view. What is elementwise runs in the order of memory.
    """

    def __init__(self, heads: Heads, length: int) -> None:
        weights, biases = heads.parameters[::2], heads.parameters[1::2]
        self._bias_gradient, *gradients = heads.gradients
        self._gradients = gradients[::2], gradients[1::2]
        self._one = torch.ones_like(weights[0][0, 0, 0])
        self._length = weights[0].new_tensor(length)  # a Python number would be made a tensor at every step
        self._weights = weights[1:]
        self._turned = [(w.transpose(1, 2), b.unsqueeze(1)) for w, b in zip(weights[1:], biases[1:], strict=True)]
        members, width, _ = weights[0].shape
        flat = [weights[0].new_empty(length, members * width) for _ in range(3)]
        deep = [[w.new_empty(members, length, w.shape[1]) for w in weights[1:-1]] for _ in range(3)]
        self._stored = [flat, *zip(*deep, strict=True)]
        self._sums, self._hidden, self._slopes = (
            [one.view(length, members, width).transpose(0, 1), *rest] for one, rest in zip(flat, deep, strict=True)
        )
        self._backs = [w.new_empty(members, length, w.shape[2]) for w in weights[1:]]
        self._dropped = [
            [(hidden[span], back[span], slopes[span]) for span in heads.spans]
            for hidden, back, slopes in zip(self._hidden, self._backs, self._slopes, strict=True)
        ]
        self._first = [
            (flat[0][:, span.start * width : span.stop * width], bias.view(-1), weight.flatten(0, 1).t())
            for span in heads.spans
            for weight, bias in [(weights[0][span], biases[0][span])]
        ]
        self._turned_slopes = _Turned(flat[2], width)

    def __call__(self, batches: Sequence[tuple[Tensor, ...]], target: Tensor, logits: Tensor) -> _Turned:
        """Write `logits` and all gradients but that of the first weights: for that, the slopes of the first sums."""
        for (sums, bias, weight), (inputs, *_) in zip(self._first, batches, strict=True):
            torch.addmm(bias, inputs, weight, out=sums)
        for layer, (weight, bias) in enumerate(self._turned):
            sums, outputs, _ = self._stored[layer]
            gelu(sums, out=outputs)  # type: ignore[call-arg]
            for (hidden, *_), (_, *masks) in zip(self._dropped[layer], batches, strict=True):
                if masks:
                    hidden.mul_(masks[layer])
            outcome = logits if layer == len(self._turned) - 1 else self._sums[layer + 1]
            torch.baddbmm(bias, self._hidden[layer], weight, out=outcome)
        slopes = torch.softmax(logits, 2).sub_(target).div_(self._length)  # q − p, where each p sums to 1
        for layer in reversed(range(len(self._turned))):
            torch.bmm(slopes.transpose(1, 2), self._hidden[layer], out=self._gradients[0][layer])
            torch.sum(slopes, 1, out=self._gradients[1][layer])
            torch.bmm(slopes, self._weights[layer], out=self._backs[layer])  # is slow where `out` has gaps, mul is not
            slopes = self._slopes[layer]
            for (_, back, slope), (_, *masks) in zip(self._dropped[layer], batches, strict=True):
                torch.mul(back, masks[layer] if masks else self._one, out=slope)
            sums, _, stored = self._stored[layer]
            torch.ops.aten.gelu_backward.grad_input(stored, sums, grad_input=stored)
        torch.sum(slopes, 1, out=self._bias_gradient)
        return self._turned_slopes


class _Turned:
    """The slopes [B, M·H] of some members, as [m·H, B]; views are made once."""

    def __init__(self, slopes: Tensor, width: int) -> None:
        self._slopes, self._width = slopes, width
        self._views: dict[tuple[int, int], Tensor] = {}

    def __getitem__(self, members: slice) -> Tensor:
        key = members.start, members.stop
        if key not in self._views:
            self._views[key] = self._slopes[:, members.start * self._width : members.stop * self._width].t()
        return self._views[key]
