"""Which distribution does item i stand for? The first of the three choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import torch
from torch import Tensor
from typing_extensions import override

from dissensus import random
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.labels import aggregators, dawid_skene
from dissensus.metrics.agreement import majority
from dissensus.store.encoding import table
from dissensus.votes.votes import Votes


@dataclass(frozen=True, eq=False)
class Target:
    """A distribution per item: `probs` float64 [n, K], and the votes behind it, `counts` int64 [n, K], if there are any.

    `rows` are the items' rows in the whole data set: every draw is keyed by them, so a subset changes nothing.
    """

    probs: Tensor
    rows: Tensor
    counts: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)


NO_TEACHERS: Mapping[str, Tensor] = MappingProxyType({})


class TargetRule(Protocol):
    """A member of this axis: a frozen dataclass that turns data into the target of its training rows."""

    @property
    def needed_runs(self) -> tuple[str, ...]:
        """The ids of finished runs whose predictions the target is made of."""
        return ()

    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        """The target of these rows. Anything learned (class means, annotators' confusions) is learned on them alone.

        `seed` is the run's own; `teachers` maps each of the needed runs to its logits [n, K] on these rows.
        """
        ...


@dataclass(frozen=True)
class Empirical(TargetRule):
    """The share of each class among the votes (or the probabilities that were read instead)."""

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        counts = data.counts
        return Target(data.people[rows], rows, None if counts is None else counts[rows])


@dataclass(frozen=True)
class Majority(TargetRule):
    """One-hot of the most frequent vote; ties go to the lowest class index (`ties` counts them)."""

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        return Target(one_hot(majority(data.people[rows]), len(data.classes)), rows)


@dataclass(frozen=True)
class Gold(TargetRule):
    """One-hot of the data set's own label, which Peterson et al. (2019) call hard."""

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        if data.gold is None:
            raise InputError(
                "these data have no gold labels", where=data.name, hint="Use the target `majority` instead", state=""
            )
        return Target(one_hot(data.gold[rows].long(), len(data.classes)), rows)


@dataclass(frozen=True)
class Smoothed(TargetRule):
    """Label smoothing of the majority: (1 - eps) one-hot + eps / K."""

    eps: float = 0.1

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        hard = Majority().target(data, rows, seed=seed)
        return replace(hard, probs=(1 - self.eps) * hard.probs + self.eps / len(data.classes))


@dataclass(frozen=True)
class ClassMean(TargetRule):
    """Every item stands for the mean of the training items of its class: category soft targets (Peterson et al. 2019)."""

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        return Target(class_means(data, rows)[data.labels[rows]], rows)


@dataclass(frozen=True)
class Dirichlet(TargetRule):
    """Sparse votes shrunk toward the mean of their class: (counts + strength · mean) / (votes + strength).

    The posterior mean under a Dirichlet prior worth `strength` votes. The class is the majority's, never gold: with few
    votes gold would smuggle in the answer.
    """

    strength: float = 5.0

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        if data.counts is None:
            raise InputError(
                "shrinkage needs the number of votes per item, and these data have only probabilities",
                where=data.name,
                hint="Read the votes themselves, or use the target `empirical`",
                state="",
            )
        counts = data.counts[rows].double()
        prior = class_means(replace(data, gold=None), rows)[majority(data.people[rows])]
        return Target((counts + self.strength * prior) / (counts.sum(1, keepdim=True) + self.strength), rows)


@dataclass(frozen=True)
class DawidSkene(TargetRule):
    """The posterior of each item's class given who said what (Dawid & Skene, 1979), fitted on the training items alone.

    EM ends when no probability moves by `tolerance`, or after `iterations` with a warning. `smoothing` pseudo-counts on
    each cell of an annotator's confusion matrix keep a person with two votes from being believed blindly.
    """

    iterations: int = 10_000
    tolerance: float = 1e-6
    smoothing: float = 0.01

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        posterior = dawid_skene.posterior(
            _signed_votes(data, rows, "Dawid–Skene"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            smoothing=self.smoothing,
        )
        return Target(torch.from_numpy(posterior), rows)


@dataclass(frozen=True)
class Glad(TargetRule):
    """The posterior of each item's class if annotators have an ability and items a difficulty (Whitehill et al. 2009).

    Computed by crowd-kit (the extra `aggregators`), on the training items alone. EM ends when the likelihood per vote
    gains less than `tolerance`, or after `iterations`.
    """

    iterations: int = 100
    tolerance: float = 1e-5

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        votes = _signed_votes(data, rows, "GLAD")
        posterior = aggregators.glad(votes, iterations=self.iterations, tolerance=self.tolerance)
        return Target(torch.from_numpy(posterior), rows)


@dataclass(frozen=True)
class Mace(TargetRule):
    """The posterior of each item's class if annotators either know it or answer by habit (MACE, Hovy et al. 2013).

    Computed by crowd-kit (the extra `aggregators`), on the training items alone: the best of `restarts` random starts,
    each of `iterations` steps. The starts depend on `seed`, not on the run, so all runs have the same target.
    """

    restarts: int = 10
    iterations: int = 50
    seed: int = 0

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        votes = _signed_votes(data, rows, "MACE")
        posterior = aggregators.mace(votes, restarts=self.restarts, iterations=self.iterations, seed=self.seed)
        return Target(torch.from_numpy(posterior), rows)


@dataclass(frozen=True)
class Teacher(TargetRule):
    """Distillation: what other runs, named by id, say of the items: the mean of their distributions, an ensemble's.

    Each is softened by `temperature` first.
    """

    runs: tuple[str, ...]
    temperature: float = 1.0

    @property
    @override
    def needed_runs(self) -> tuple[str, ...]:
        return self.runs

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        absent = [run for run in self.runs if run not in teachers]
        if absent:
            raise InputError(
                f"the predictions of {', '.join(absent)} are not given",
                where="teacher",
                hint="Pass the logits of each of its runs as `teachers`, or train it as a recipe, which looks them up",
                state="",
            )
        softened = [torch.softmax(teachers[run].double() / self.temperature, -1) for run in self.runs]
        return Target(torch.stack(softened).mean(0), rows)


@dataclass(frozen=True)
class Shuffled(TargetRule):
    """Control: the inner target with its rows permuted in the training split, so that item and people do not match.

    Every run of the same `seed` has the same permutation; with None each run has its own.
    """

    inner: TargetRule = Empirical()
    seed: int | None = 0

    @property
    @override
    def needed_runs(self) -> tuple[str, ...]:
        return self.inner.needed_runs

    @override
    def target(self, data: Data, rows: Tensor, *, seed: int, teachers: Mapping[str, Tensor] = NO_TEACHERS) -> Target:
        inner = self.inner.target(data, rows, seed=seed, teachers=teachers)
        generator = random.generator(seed if self.seed is None else self.seed, "split", "shuffled")
        permuted = torch.randperm(len(rows), generator=generator)
        return Target(inner.probs[permuted], rows, None if inner.counts is None else inner.counts[permuted])


TARGETS = table(Empirical, Majority, Gold, Smoothed, ClassMean, Dirichlet, DawidSkene, Glad, Mace, Teacher, Shuffled)


def _signed_votes(data: Data, rows: Tensor, model: str) -> Votes:
    """The votes of these rows, for a model of annotators: refused where it is not known who cast them."""
    if data.votes is None or data.votes.annotator is None:
        raise InputError(
            f"{model} needs to know who cast each vote, and these votes have no annotators",
            where=data.name,
            hint="Read a long or wide table with an annotator column, or use the target `empirical`",
            state="",
        )
    return data.votes.subset(rows.numpy())


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
