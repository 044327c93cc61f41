"""A deck: what members of one seed, batch size and split share. It is dealt anew every epoch."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from dissensus import random
from dissensus.models import Classifier, Mlp, new_model
from dissensus.training.stacked.members import Member

_GLOBAL_GENERATOR = threading.Lock()  # initial weights are drawn from it, by one thread at a time


def identity(member: Member) -> tuple[int, int, bytes, bytes]:
    """Members that share a deck have this in common."""
    return member.seed, member.batch, member.train_rows.numpy().tobytes(), member.validation_rows.numpy().tobytes()


class Deck:
    """Inputs as the heads see them: normalised with the moments of the training rows."""

    def __init__(self, x: Tensor, member: Member, head: Mlp, classes: int) -> None:
        train = x[member.train_rows]
        with _GLOBAL_GENERATOR:
            model = new_model(head, train, classes, seed=member.seed).to(x.dtype)
        assert isinstance(model, Classifier)
        self.initial = {name: parameter.detach() for name, parameter in model.named_parameters()}
        self.normalise = model.normalise
        self.head, self.seed, self.batch = head, member.seed, member.batch
        self._train = self.normalise(train)
        self.validation: Tensor = self.normalise(x[member.validation_rows])
        self._inputs = torch.empty_like(self._train)
        self._masks = [train.new_empty(len(train), width) for width in head.hidden if head.dropout > 0]

    def deal(self, epoch: int) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """The order of an epoch [n], and for each step the inputs [B, D] and a dropout mask [B, H] a hidden layer.

        What is dealt is overwritten by the next epoch.
        """
        order = torch.randperm(len(self._train), generator=random.generator(self.seed, "order", epoch))
        torch.index_select(self._train, 0, order, out=self._inputs)
        parts = [torch.split(part, self.batch) for part in (self._inputs, *self._masks)]
        steps = list(zip(*parts, strict=True))
        generator = torch.Generator()
        for step, (_, *masks) in enumerate(steps if self._masks else ()):
            generator.manual_seed(random.key(self.seed, "dropout", epoch, step))
            for mask in masks:  # as nn.Dropout draws them: one after another from the stream of the step
                mask.bernoulli_(1 - self.head.dropout, generator=generator)
        for mask in self._masks:
            mask.div_(1 - self.head.dropout)
        return order, steps
