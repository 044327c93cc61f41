"""TrainingSetup: what a training spec names, loaded and built: data, split, target, model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from dissensus import datasets
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.errors import InputError
from dissensus.labels.targets import Target, one_hot
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.models import Model, load_model, new_model
from dissensus.store.encoding import encode
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Run, Spec
from dissensus.training import evaluate
from dissensus.training.recipe import Recipe


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """`train`, `validation` and `held_out` are rows of the data, stratified by gold label, without gold by majority."""

    recipe: Recipe
    seed: int
    data: Data
    train: Tensor
    validation: Tensor | None
    held_out: Tensor

    @classmethod
    def of(cls, spec: Spec, ledger: Ledger) -> TrainingSetup:
        """Load the data and check that they are the ones the spec means, and that they can be trained on."""
        settings = resolved(spec, ledger)
        recipe, seed, named = Recipe.of(settings), int(settings["seed"]), settings["data"]
        data = loaded(DataRef(named["name"], tuple(named["options"].items()), named["digest"]))
        rows, held_out = recipe.split.split(data.labels, seed)
        validation = None
        if recipe.validation is not None:
            inner = recipe.validation.split(data.labels[rows], seed, "validation")
            rows, validation = rows[inner.train], rows[inner.held_out]
        _check_every_class_occurs(data, rows, seed)
        if len(rows) < recipe.batch:
            raise InputError(
                f"{len(rows):,} training items are fewer than a batch of {recipe.batch:,}",
                where=data.name,
                hint="Use a smaller batch, or more items",
                state="",
            )
        return cls(recipe, seed, data, rows, validation, held_out)

    def x(self, rows: Tensor) -> Tensor:
        """The inputs of these rows, as they are stored."""
        if self.data.x is None:
            raise InputError("these data have no inputs to train on", where=self.data.name, state="")
        return self.data.x[rows]

    def seen(self) -> Data:
        """The data with the votes that training may see: all of them, or a few per item in the sparse regime."""
        if self.recipe.votes is None:
            return self.data
        if self.data.votes is None:
            raise InputError(
                "votes cannot be resampled where there are only probabilities",
                where=self.data.name,
                hint="Read the votes",
                state="",
            )
        few = self.data.votes.resample(self.recipe.votes.votes, self.seed, replace=self.recipe.votes.replace)
        return replace(self.data, votes=few)

    def target(self, rows: Tensor, ledger: Ledger) -> Target:
        """What these rows stand for; a teacher is asked anew, from its weights in the ledger."""
        rule = self.recipe.target
        teachers = {run: evaluate.predict(trained(run, ledger), self.x(rows)).logits for run in rule.needed_runs}
        return rule.target(self.seen(), rows, seed=self.seed, teachers=teachers)

    def people_and_labels(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What people said of these rows [n, K], and the labels that count as correct [n].

        Where nobody voted, the labels in the place of both.
        """
        labels = self.data.labels[rows]
        return self.data.people[rows] if self.data.voted else one_hot(labels, len(self.data.classes)), labels

    def monitored(self) -> list[tuple[str, Tensor]]:
        """The parts, by name, on which the recipe wants loss, accuracy and KL after every epoch."""
        parts = {"train": self.train, "validation": self.validation, "evaluation": self.held_out}
        return [(part, rows) for part, rows in parts.items() if self.recipe.monitored and rows is not None]

    def model(self) -> Model:
        """The network at random weights, a function of the seed alone."""
        x, classes = self.x(self.train), len(self.data.classes)
        return new_model(self.recipe.model, x, classes, seed=self.seed, moments=self.data.moments)

    def initial_model(self, ledger: Ledger) -> Model:
        """The network that training starts from: at random weights, or at those of the run that `init` names."""
        if self.recipe.init is None:
            return self.model()
        run = chosen_run(self.recipe.init, ledger)
        wanted = {"architecture": encode(self.recipe.model), "classes": list(self.data.classes)}
        present = {"architecture": run.spec.settings["model"], "classes": run.facts["classes"]}
        if different := [name for name, value in wanted.items() if present[name] != value]:
            raise InputError(
                f"it has other {' and other '.join(different)} than this recipe",
                where=f"init {run.id}",
                hint="Start from a run of the same model and classes",
                state="",
            )
        return self.trained(run.id, ledger, "last")

    def trained(self, run_id: str, ledger: Ledger, checkpoint: str) -> Model:
        """The network of this stage's own run, with the weights of a checkpoint."""
        shape = tuple(self.x(self.train[:1]).shape[1:])
        return load_model(self.recipe.model, shape, len(self.data.classes), ledger.weights(run_id, checkpoint))


def resolved(spec: Spec, ledger: Ledger) -> Json:
    """The settings of a training spec, with those that a select run chose in their place."""
    chosen = spec.settings["chosen"]
    if chosen is None:
        return spec.settings
    winner = ledger.read(ledger.read(chosen["by"]).facts["winner"]).spec.settings
    return {**spec.settings, **{name: winner[name] for name in chosen["fields"]}}


def chosen_run(run_id: str, ledger: Ledger) -> Run:
    """A finished training run; of a selection among several, the one that it chose."""
    run = ledger.read(run_id)
    return ledger.read(run.facts["winner"]) if "winner" in run.facts else run


def loaded(ref: DataRef) -> Data:
    """The data that a spec names, if they still are the ones it was planned on."""
    data = _load(str(datasets.data_root()), ref.dataset, ref.options)
    if data.digest != ref.digest:
        raise InputError(
            f"the content is {data.digest}, and this run was planned on {ref.digest}",
            where=f"data set {data.name}",
            hint="Plan it again with `dissensus run`, or restore the former files",
        )
    return data


@lru_cache(maxsize=4)
def _load(root: str, name: str, options: tuple[tuple[str, Any], ...]) -> Data:  # noqa: ARG001 - part of the key
    """Cached: one process trains hundreds of heads on the same features; teachers and shifted data are others."""
    return datasets.load(name, **dict(options))


def _check_every_class_occurs(data: Data, rows: Tensor, seed: int) -> None:
    mass = data.people[rows].sum(0) if data.voted else torch.bincount(data.labels[rows], minlength=len(data.classes))
    absent = torch.nonzero(mass == 0).flatten().tolist()
    if absent:
        names = ", ".join(repr(data.classes[index]) for index in absent)
        raise InputError(
            f"nobody chose {names} for any of the {len(rows):,} training items of seed {seed}, so it cannot be learned",
            where=data.name,
            hint="Leave the class out of the data's classes, or add items of it",
            state="",
        )


def trained(run_id: str, ledger: Ledger, checkpoint: str = "last") -> Model:
    """A finished run's network, with the weights of a checkpoint."""
    run = chosen_run(run_id, ledger)
    return TrainingSetup.of(run.spec, ledger).trained(run.id, ledger, checkpoint)


def own_loss(model: Model, x: Tensor, target: Target) -> float:
    """Cross-entropy of the model to a target, the loss a run would itself minimise, without augmentation or mixing."""
    return float(unchecked_soft_nll(evaluate.predict(model, x).log_probs, target.probs).mean())


def disputed(data: Data, rows: Tensor, most: int) -> Tensor:
    """The rows that people disagree on most, by vote entropy, the most disputed first; ties by row."""
    people = data.people[rows]
    entropy = torch.special.entr(people).sum(1)
    return rows[torch.argsort(entropy, descending=True, stable=True)[:most]]
