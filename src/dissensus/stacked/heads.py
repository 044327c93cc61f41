"""The weights of a stack of heads of one shape, and what a step does with them.

Written by hand and not by autograd: with the products of a batch shared and every buffer made once, a step is some
fifteen calls whatever the number of members. Tests hold it to autograd through `train.fit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from dissensus.optim import Adam, AdamW, OptimiserRule, Sgd
from dissensus.stacked.decks import Deck

EVALUATION_ROWS = 512  # at a time: bounds what evaluating a large set needs

STATES: dict[type, int] = {Adam: 2, AdamW: 2, Sgd: 1}
"""How many tensors of the parameters' size an optimiser keeps."""


class Heads:
    """M heads Linear–GELU–Dropout–…–Linear. `parameters`: [M, out, in] and [M, out] a layer; gradients and states alike.

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
        self.gradients = [torch.empty_like(p) for p in self.parameters]
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
        updates: Sequence[Callable[[], object]],
    ) -> None:
        """Move each head along the gradient of its mean cross-entropy to `target` [M, B, K]; write its `logits`, alike.

        `batches` has, for each deck, inputs [B, D] and a dropout mask [B, H] for each hidden layer (or none).
        """
        length = target.shape[1]
        if length not in self._passes:
            self._passes[length] = _Pass(self, length)
        self._passes[length](batches, target, logits)
        self._steps.add_(self._one)  # a Python number would be made a tensor at every step
        for update in updates:
            update()

    def updates(self, rates: Sequence[float]) -> list[Callable[[], object]]:
        """Calls that move the heads along their gradients at these learning rates; heads of the same rule share one."""
        calls = []
        for (rule, rate), run in groupby(range(len(self)), lambda place: (self.rules[place], rates[place])):
            places = list(run)
            span = slice(places[0], places[-1] + 1)
            parts = [[p[span] for p in part] for part in (self.parameters, self.gradients, *self.states)]
            calls.append(self._update(rule, rate, parts))
        return calls

    def _update(self, rule: OptimiserRule, rate: float, parts: list[list[Tensor]]) -> Callable[[], object]:
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
    is seen as [M, B, H], the first layer through a view.
    """

    def __init__(self, heads: Heads, length: int) -> None:
        weights, biases = heads.parameters[::2], heads.parameters[1::2]
        self._gradients = heads.gradients[2::2], heads.gradients[3::2]
        self._length = length
        self._weights = weights[1:]
        self._turned = [(w.transpose(1, 2), b.unsqueeze(1)) for w, b in zip(weights[1:], biases[1:], strict=True)]
        members, width, _ = weights[0].shape
        flat = [weights[0].new_empty(length, members * width) for _ in range(3)]
        deep = [[w.new_empty(members, length, w.shape[1]) for w in weights[1:-1]] for _ in range(3)]
        self._sums, self._hidden, self._slopes = (
            [one.view(length, members, width).transpose(0, 1), *rest] for one, rest in zip(flat, deep, strict=True)
        )
        self._gelus = [(flat[0], flat[1]), *zip(*deep[:2], strict=True)]  # in the order of memory, which is quicker
        self._backs = [w.new_empty(members, length, w.shape[2]) for w in weights[1:]]
        self._dropped = [
            [[part[span] for span in heads.spans] for part in parts]
            for parts in zip(self._hidden, self._backs, strict=True)
        ]
        columns = [slice(span.start * width, span.stop * width) for span in heads.spans]
        self._first = [
            (flat[0][:, cut], biases[0][span].view(-1), weights[0][span].flatten(0, 1).t())
            for cut, span in zip(columns, heads.spans, strict=True)
        ]
        self._first_gradients = [
            (heads.gradients[0][span].flatten(0, 1), flat[2][:, cut].t())
            for cut, span in zip(columns, heads.spans, strict=True)
        ]
        self._first_slopes, self._first_bias_gradient = flat[2], heads.gradients[1].view(-1)

    def __call__(self, batches: Sequence[tuple[Tensor, ...]], target: Tensor, logits: Tensor) -> None:
        for (sums, bias, weight), (inputs, *_) in zip(self._first, batches, strict=True):
            torch.addmm(bias, inputs, weight, out=sums)
        for layer, (weight, bias) in enumerate(self._turned):
            sums, outputs = self._gelus[layer]
            gelu(sums, out=outputs)  # type: ignore[call-arg]
            self._drop(self._dropped[layer][0], batches, layer)
            outcome = logits if layer == len(self._turned) - 1 else self._sums[layer + 1]
            torch.baddbmm(bias, self._hidden[layer], weight, out=outcome)
        slopes = torch.softmax(logits, 2).sub_(target).div_(self._length)  # q − p, where each p sums to 1
        for layer in reversed(range(len(self._turned))):
            torch.bmm(slopes.transpose(1, 2), self._hidden[layer], out=self._gradients[0][layer])
            torch.sum(slopes, 1, out=self._gradients[1][layer])
            back = torch.bmm(slopes, self._weights[layer], out=self._backs[layer])
            self._drop(self._dropped[layer][1], batches, layer)
            slopes = self._slopes[layer]
            torch.ops.aten.gelu_backward.grad_input(back, self._sums[layer], grad_input=slopes)
        for (gradient, turned), (inputs, *_) in zip(self._first_gradients, batches, strict=True):
            torch.mm(turned, inputs, out=gradient)
        torch.sum(self._first_slopes, 0, out=self._first_bias_gradient)

    def _drop(self, decks: list[Tensor], batches: Sequence[tuple[Tensor, ...]], layer: int) -> None:
        for part, (_, *masks) in zip(decks, batches, strict=True):
            if masks:
                part.mul_(masks[layer])
