"""Stage: all that a training spec names, made real: data, split, target, model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dissensus import datasets, evaluate, random
from dissensus.data import Data
from dissensus.datasets import cifar10
from dissensus.errors import InputError
from dissensus.ledger import Ledger
from dissensus.models import moments
from dissensus.recipe import Recipe
from dissensus.runs import Spec
from dissensus.targets import Target, Teacher, teacher_target


@dataclass(frozen=True, eq=False)
class Stage:
    """`train`, `validation` and `held_out` are rows of the data, stratified by gold label, without gold by majority."""

    recipe: Recipe
    seed: int
    data: Data
    train: Tensor
    validation: Tensor | None
    held_out: Tensor

    @classmethod
    def of(cls, spec: Spec) -> Stage:
        """Load the data and check that they are the ones the spec means."""
        recipe, seed, named = Recipe.of(spec.settings), int(spec.settings["seed"]), spec.settings["data"]
        data = datasets.load(named["name"], **named["options"])
        if data.digest != named["digest"]:
            raise InputError(
                f"the content is {data.digest}, and this run was planned on {named['digest']}",
                where=f"data set {data.name}",
                mend="Plan it anew with `dissensus run`, or put the former files back",
            )
        rows, held_out = recipe.split.split(data.labels, seed)
        if recipe.validation is None:
            return cls(recipe, seed, data, rows, None, held_out)
        inner = recipe.validation.split(data.labels[rows], seed, "validation")
        return cls(recipe, seed, data, rows[inner.train], rows[inner.held_out], held_out)

    def x(self, rows: Tensor) -> Tensor:
        """The inputs of these rows, as they are stored."""
        if self.data.x is None:
            raise InputError("these data have no inputs to train on", where=self.data.name, state="")
        return self.data.x[rows]

    def seen(self) -> Data:
        """The data with the votes that training may see: all of them, or a few an item in the sparse regime."""
        if self.recipe.votes is None:
            return self.data
        if self.data.votes is None:
            raise InputError(
                "votes cannot be resampled where there are only probabilities",
                where=self.data.name,
                mend="Read the votes",
                state="",
            )
        few = self.data.votes.resample(self.recipe.votes.votes, self.seed, replace=self.recipe.votes.replace)
        return replace(self.data, votes=few)

    def target(self, rows: Tensor, ledger: Ledger) -> Target:
        """What these rows stand for; a teacher is asked anew, from its weights in the ledger."""
        rule = self.recipe.target
        if not isinstance(rule, Teacher):
            return rule.target(self.seen(), rows)
        said = [evaluate.predict(trained(run, ledger), self.x(rows)) for run in rule.runs]
        return teacher_target(said, rows, rule.temperature)

    def model(self) -> nn.Module:
        """The network at its initial weights, a function of the seed alone."""
        x = self.x(self.train)
        mean, std = published_moments(self.data.name, x) or moments(x)
        with random.seeded(self.seed, "init"):
            return self.recipe.model.build(tuple(x.shape[1:]), len(self.data.classes), mean, std)


def trained(run_id: str, ledger: Ledger, checkpoint: str = "last") -> nn.Module:
    """A finished run's network, with the weights of a checkpoint."""
    model = Stage.of(ledger.read(run_id).spec).model()
    model.load_state_dict(ledger.weights(run_id, checkpoint))
    return model.eval()


def published_moments(name: str, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """The mean and std of each channel that every paper on these images uses, where there are such."""
    if x.ndim != 4 or not name.startswith("cifar10"):
        return None
    return torch.tensor(cifar10.MEAN), torch.tensor(cifar10.STD)


def own_loss(model: nn.Module, x: Tensor, target: Target) -> float:
    """Cross-entropy of the model to a target, the loss a run would itself minimise, without augmentation or mixing."""
    log_probs = evaluate.predict(model, x).log_probs
    return float(-(target.probs * log_probs).masked_fill(target.probs == 0, 0).sum(1).mean())


def disputed(data: Data, rows: Tensor, most: int) -> Tensor:
    """The rows that people disagree on most, by vote entropy, the most disputed first; ties by row."""
    people = data.people[rows]
    entropy = torch.special.entr(people).sum(1)
    return rows[torch.argsort(entropy, descending=True, stable=True)[:most]]
