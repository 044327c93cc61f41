"""Which distribution does item i stand for? The first of the three choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.metrics.agreement import majority
from dissensus.store.encoding import table


@dataclass(frozen=True, eq=False)
class Target:
    """A distribution an item: `probs` float64 [n, K], and the votes behind it, `counts` int64 [n, K], if there are any.

    `rows` are the items' rows in the whole data set: every draw is keyed by them, so a subset changes nothing.
    """

    probs: Tensor
    rows: Tensor
    counts: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)


class TargetRule(Protocol):
    """A member of this axis: a frozen dataclass that turns data into the target of its training rows."""

    def target(self, data: Data, rows: Tensor) -> Target:
        """The target of these rows. Anything learned (class means, annotators' confusions) is learned on them alone."""
        ...


@dataclass(frozen=True)
class Empirical:
    """The share of each class among the votes (or the probabilities that were read in their place)."""

    def target(self, data: Data, rows: Tensor) -> Target:
        counts = data.counts
        return Target(data.people[rows], rows, None if counts is None else counts[rows])


@dataclass(frozen=True)
class Majority:
    """One-hot of the most frequent vote; ties go to the lowest class index (`ties` counts them)."""

    def target(self, data: Data, rows: Tensor) -> Target:
        return Target(one_hot(majority(data.people[rows]), len(data.classes)), rows)


@dataclass(frozen=True)
class Gold:
    """One-hot of the data set's own label: 000's and 001's "hard"."""

    def target(self, data: Data, rows: Tensor) -> Target:
        if data.gold is None:
            raise InputError(
                "these data have no gold labels", where=data.name, hint="Use the target `majority` instead", state=""
            )
        return Target(one_hot(data.gold[rows].long(), len(data.classes)), rows)


@dataclass(frozen=True)
class Smoothed:
    """Label smoothing of the majority: (1 - eps) one-hot + eps / K."""

    eps: float = 0.1

    def target(self, data: Data, rows: Tensor) -> Target:
        hard = Majority().target(data, rows)
        return replace(hard, probs=(1 - self.eps) * hard.probs + self.eps / len(data.classes))


@dataclass(frozen=True)
class ClassMean:
    """001's category soft targets: every item stands for the mean of the training items of its class."""

    def target(self, data: Data, rows: Tensor) -> Target:
        return Target(class_means(data, rows)[data.labels[rows]], rows)


@dataclass(frozen=True)
class Dirichlet:
    """Sparse votes shrunk toward the mean of their class: (counts + strength · mean) / (votes + strength).

    The posterior mean under a Dirichlet prior worth `strength` votes. The class is the majority's, never gold: with few
    votes gold would smuggle in the answer.
    """

    strength: float = 5.0

    def target(self, data: Data, rows: Tensor) -> Target:
        if data.counts is None:
            raise InputError(
                "shrinkage needs to know how many votes an item has, and these data have only probabilities",
                where=data.name,
                hint="Read the votes themselves, or use the target `empirical`",
                state="",
            )
        counts = data.counts[rows].double()
        prior = class_means(replace(data, gold=None), rows)[majority(data.people[rows])]
        return Target((counts + self.strength * prior) / (counts.sum(1, keepdim=True) + self.strength), rows)


@dataclass(frozen=True)
class DawidSkene:
    """Dawid & Skene (1979): the posterior of each item's class given who said what, each annotator with a confusion
    matrix of their own, by EM from the vote shares. Fitted on the training items alone.

    `smoothing` pseudo-counts on each confusion cell keep a person with two votes from being believed blindly.
    """

    iterations: int = 100
    tolerance: float = 1e-6
    smoothing: float = 0.01

    def target(self, data: Data, rows: Tensor) -> Target:
        if data.votes is None or data.votes.annotator is None:
            raise InputError(
                "Dawid–Skene needs to know who cast each vote, and these votes have no annotators",
                where=data.name,
                hint="Read a long or wide table with an annotator column, or use the target `empirical`",
                state="",
            )
        votes = data.votes.subset(rows.numpy())
        assert votes.annotator is not None and votes.annotators is not None
        n, k, people = len(votes.items), len(votes.classes), len(votes.annotators)
        cell = votes.annotator * k + votes.label  # which (annotator, said) pair a vote belongs to
        posterior = votes.soft.copy()
        for _ in range(self.iterations):
            prior = posterior.mean(0)
            said = np.stack(
                [np.bincount(cell, weights=posterior[votes.item, true], minlength=people * k) for true in range(k)], -1
            ).reshape(people, k, k)  # [annotator, said, true]
            confusion = said + self.smoothing
            log_confusion = np.log(confusion / confusion.sum(1, keepdims=True)).reshape(people * k, k)
            with np.errstate(divide="ignore"):
                log_joint = np.tile(np.log(prior), (n, 1))
            for true in range(k):
                log_joint[:, true] += np.bincount(votes.item, weights=log_confusion[cell, true], minlength=n)
            joint = np.exp(log_joint - log_joint.max(1, keepdims=True))
            updated = joint / joint.sum(1, keepdims=True)
            change = np.abs(updated - posterior).max()
            posterior = updated
            if change < self.tolerance:
                break
        return Target(torch.from_numpy(posterior), rows)


@dataclass(frozen=True)
class Teacher:
    """Distillation: what other runs say of the training items, averaged (an ensemble where there are several).

    `runs` are ids; whoever resolves them calls `teacher_target` with their predictions.
    """

    runs: tuple[str, ...]
    temperature: float = 1.0

    def target(self, data: Data, rows: Tensor) -> Target:  # noqa: ARG002 - only its runs can tell
        raise InputError(
            "a teacher's predictions must be made before its target",
            where="teacher",
            hint="Use `teacher_target`",
            state="",
        )


@dataclass(frozen=True)
class Shuffled:
    """Control: the inner target with its rows permuted in the training split, so that item and people do not match."""

    inner: TargetRule = Empirical()
    seed: int = 0

    def target(self, data: Data, rows: Tensor) -> Target:
        inner = self.inner.target(data, rows)
        permuted = torch.randperm(len(rows), generator=random.generator(self.seed, "split", "shuffled"))
        return Target(inner.probs[permuted], rows, None if inner.counts is None else inner.counts[permuted])


TARGETS = table(Empirical, Majority, Gold, Smoothed, ClassMean, Dirichlet, DawidSkene, Teacher, Shuffled)


def teacher_target(logits: Sequence[Tensor], rows: Tensor, temperature: float = 1.0) -> Target:
    """The mean distribution of one or more teachers on these rows, each softened by `temperature`."""
    softened = [torch.softmax(of_teacher.double() / temperature, -1) for of_teacher in logits]
    return Target(torch.stack(softened).mean(0), rows)


def class_means(data: Data, rows: Tensor) -> Tensor:
    """The mean distribution of the given rows of each class [K, K]; a class with no row stands for itself."""
    k = len(data.classes)
    of_class = one_hot(data.labels[rows], k)
    size = of_class.sum(0)
    means = of_class.T @ data.people[rows] / size.clamp(min=1)[:, None]
    return torch.where((size > 0)[:, None], means, torch.eye(k, dtype=torch.float64))


def ties(data: Data, rows: Tensor) -> int:
    """How many of these items have no unique majority."""
    people = data.people[rows]
    return int(((people == people.max(1, keepdim=True).values).sum(1) > 1).sum())


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """float64 [n, K]."""
    return torch.nn.functional.one_hot(labels, classes).double()
