"""The weights of a stack of heads of one shape, and what a step does with them.

Written by hand and not by autograd: with the products of a batch shared and every buffer made once, forward and backward
are some fifteen calls whatever the number of members. The gradient of the first weights, by far the largest, is never
there as a whole: it is computed for a few heads, which are updated while it is in the cache, and then for the next. Tests
hold it all to autograd through `loop.fit`.
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
from dissensus.training.stacked.shared_inputs import SharedInputs

EVALUATION_ROWS = 512  # at a time: bounds what evaluating a large set needs

UPDATE_BYTES = 2 * 2**20  # of first weights that are updated in one call: their gradient is still in the cache

STATES: dict[type, int] = {Adam: 2, AdamW: 2, Sgd: 1}
"""How many tensors of the parameters' size an optimiser keeps."""


@dataclass(frozen=True, eq=False)
class Update:
    """Heads that move in one call: `members` that share their inputs, the rule and the learning rate.

    `inputs` is the index of those inputs; `gradient` [m·H, D] is where `move` looks for that of their first weights.
    """

    inputs: int
    members: slice
    gradient: Tensor
    move: Callable[[], object]


class BatchedHeads:
    """M heads Linear–GELU–Dropout–…–Linear. `parameters`: [M, out, in] and [M, out] per layer; so are the states.

    `inputs_of_heads` has the inputs of each head: `inputs` are the different ones, `spans` the heads of each, which stand
    together.
    """

    def __init__(
        self, parameters: list[Tensor], rules: Sequence[OptimiserRule], inputs_of_heads: Sequence[SharedInputs]
    ) -> None:
        self.parameters, self.rules = parameters, list(rules)
        self.states = [[torch.zeros_like(p) for p in parameters] for _ in range(STATES[type(rules[0])])]
        self._steps, self._one = torch.zeros(()), torch.ones(())
        self._arrange(inputs_of_heads)

    def __len__(self) -> int:
        return len(self.parameters[0])

    def keep(self, indices: Sequence[int], inputs_of_heads: Sequence[SharedInputs]) -> None:
        """Drop all heads but these."""
        rows = torch.tensor(indices)
        self.parameters = [p[rows] for p in self.parameters]
        self.states = [[s[rows] for s in state] for state in self.states]
        self.rules = [self.rules[index] for index in indices]
        self._arrange(inputs_of_heads)

    def _arrange(self, inputs_of_heads: Sequence[SharedInputs]) -> None:
        first, *rest = self.parameters
        self._together = max(1, UPDATE_BYTES // (first[0].numel() * first.itemsize))
        self._first_gradient = torch.empty_like(first[: self._together])
        self.gradients = [torch.empty_like(p) for p in rest]
        self.inputs = list(dict.fromkeys(inputs_of_heads))
        ends = list(accumulate(inputs_of_heads.count(inputs) for inputs in self.inputs))
        self.spans = [slice(*span) for span in pairwise([0, *ends])]
        self._passes: dict[int, _ForwardBackward] = {}

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
        """Move each head along the gradient of its mean cross-entropy to `target` [M, B, K]; write its `logits`.

        `batches` has, for each of the shared inputs, a batch [B, D] and a dropout mask [B, H] per hidden layer (or none).
        """
        length = target.shape[1]
        if length not in self._passes:
            self._passes[length] = _ForwardBackward(self, length)
        slopes = self._passes[length](batches, target, logits)
        self._steps.add_(self._one)  # a Python number would be made a tensor at every step
        for update in updates:
            torch.mm(slopes[update.members], batches[update.inputs][0], out=update.gradient)
            update.move()

    def updates(self, rates: Sequence[float]) -> list[Update]:
        """What moves the heads along their gradients at these learning rates, a few of the same kind at a time."""
        inputs_of = [index for index, span in enumerate(self.spans) for _ in range(span.start, span.stop)]

        def kind(head: int) -> tuple[int, OptimiserRule, float]:
            return inputs_of[head], self.rules[head], rates[head]

        updates = []
        for (inputs, rule, rate), same in groupby(range(len(self)), kind):
            heads = list(same)
            for start in range(heads[0], heads[-1] + 1, self._together):
                members = slice(start, min(start + self._together, heads[-1] + 1))
                first = self._first_gradient[: members.stop - members.start]
                parts = [[p[members] for p in part] for part in (self.parameters, self.gradients, *self.states)]
                parts[1].insert(0, first)
                updates.append(Update(inputs, members, first.flatten(0, 1), self._move(rule, rate, parts)))
        return updates

    def _move(self, rule: OptimiserRule, rate: float, parts: list[list[Tensor]]) -> Callable[[], object]:
        settings = rule.build([torch.zeros(1)]).defaults  # the constants of optimisers.py, and no others
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


class _ForwardBackward:
    """Forward and backward for batches of one length, with every buffer and view made once.

    The first layer lies in memory as [B, M·H]: heads with the same inputs are neighbours and take one product. Everything
    else is seen as [M, B, H], the first layer through a view. What is elementwise runs in the order of memory.
    """

    def __init__(self, heads: BatchedHeads, length: int) -> None:
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
            [first.view(length, members, width).transpose(0, 1), *rest] for first, rest in zip(flat, deep, strict=True)
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
        self._turned_slopes = _TransposedSlopes(flat[2], width)

    def __call__(self, batches: Sequence[tuple[Tensor, ...]], target: Tensor, logits: Tensor) -> _TransposedSlopes:
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


class _TransposedSlopes:
    """The slopes [B, M·H] of some members, as [m·H, B]; views are made once."""

    def __init__(self, slopes: Tensor, width: int) -> None:
        self._slopes, self._width = slopes, width
        self._views: dict[tuple[int, int], Tensor] = {}

    def __getitem__(self, members: slice) -> Tensor:
        key = members.start, members.stop
        if key not in self._views:
            self._views[key] = self._slopes[:, members.start * self._width : members.stop * self._width].t()
        return self._views[key]
