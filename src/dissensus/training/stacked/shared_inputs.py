"""What members of one seed, batch size and split share: their inputs, in a new order every epoch, and dropout masks."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from dissensus import random
from dissensus.models import Classifier, Mlp, new_model
from dissensus.training.stacked.members import Member

_GLOBAL_GENERATOR = threading.Lock()  # initial weights are drawn from it, by one thread at a time

SharingKey = tuple[int, int, bytes, bytes]


def sharing_key(member: Member) -> SharingKey:
    """Members with the same key share their inputs."""
    return member.seed, member.batch, member.train_rows.numpy().tobytes(), member.validation_rows.numpy().tobytes()


class SharedInputs:
    """Inputs as the heads see them: normalised by the mean and std of the training rows."""

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

    def batches(self, epoch: int) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """The order of an epoch [n], and for each step the inputs [B, D] and a dropout mask [B, H] per hidden layer.

        The next epoch overwrites them.
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
