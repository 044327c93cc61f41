"""Any scikit-learn classifier learns from votes: each item becomes one row per class that people chose, with a weight."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.temperature import Temperature
from dissensus.models.opinion_pool import mixture
from dissensus.models.predictions import Predictions
from dissensus.training.logistic import class_prior, rows_outside, stratified_folds
from dissensus.training.selection.lesson import Candidate, Lesson, Progress
from dissensus.training.selection.pool_weights import pool_weights
from dissensus.training.selection.pooled_training import FOLDS, useful_temperature


@dataclass(frozen=True, eq=False)
class RowsModel:
    """A fitted classifier, pooled with the class prior: a tree that is certain may not be infinitely wrong."""

    fitted: Any
    prior: Tensor
    weights: Tensor

    def predict(self, x: Tensor) -> Predictions:
        """Log-probabilities as logits."""
        log_probs = _log_probs(self.fitted, x.numpy(), len(self.prior))
        return Predictions(mixture([log_probs, self.prior.expand_as(log_probs)], self.weights))


@dataclass(frozen=True, eq=False)
class TrainedRows:
    """The model, its temperature, and its mean soft NLL on items left out (None: there were too few)."""

    model: RowsModel
    temperature: Temperature
    candidates: tuple[Candidate, ...]
    soft_nll: float | None


def train_rows(estimator: Any, lesson: Lesson, progress: Progress) -> TrainedRows:
    """A clone of the estimator on all items; its weight beside the prior, and its temperature, by cross-validation."""
    items, people = len(lesson.data), lesson.data.people
    folds = stratified_folds(lesson.data.labels, min(FOLDS, items), lesson.seed, "selection") if items > 1 else []
    weights, temperature, loss = torch.tensor([1.0, 0.0], dtype=torch.float64), Temperature(1.0), None
    if folds:
        log_probs, priors = torch.full_like(people, torch.nan), torch.full_like(people, torch.nan)
        for number, fold in enumerate(folds):
            progress(number / (len(folds) + 1), "on items left out")
            kept = rows_outside(fold, items)
            log_probs[fold] = _log_probs(_fitted(estimator, lesson, kept), lesson.x[fold].numpy(), people.shape[1])
            priors[fold] = class_prior(people[kept])
        weights = pool_weights([log_probs, priors], people, lesson.weights)
        pooled = mixture([log_probs, priors], weights)
        temperature = useful_temperature(pooled, people, lesson.data.labels, lesson.seed)
        loss = lesson.mean_loss(torch.log_softmax(pooled / temperature.value, 1))
    progress(len(folds) / (len(folds) + 1), "on all items")
    model = RowsModel(_fitted(estimator, lesson, torch.arange(items)), class_prior(people), weights)
    progress(1.0, "trained")
    name = type(estimator).__name__
    candidates = tuple(Candidate(part, loss or np.nan, weight) for part, weight in _shares(name, weights))
    return TrainedRows(model, temperature, candidates, loss)


def _shares(name: str, weights: Tensor) -> Sequence[tuple[str, float]]:
    return list(zip((name, "class prior"), weights.tolist(), strict=True))


def weighted_rows(lesson: Lesson, rows: Tensor) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """For each cell above 0 of the target of these rows: its row of the data, its class, and how much it counts.

    Where votes were counted and the target is their share, the weight is the number of votes.
    """
    target = lesson.target(rows)
    cells = target.probs if target.counts is None else target.counts.double()
    if lesson.weights is not None:
        cells = cells * lesson.weights[rows][:, None]
    item, label = np.nonzero(cells.numpy())
    return rows.numpy()[item], label.astype(np.int64), cells.numpy()[item, label]


def _fitted(estimator: Any, lesson: Lesson, rows: Tensor) -> Any:
    item, label, weight = weighted_rows(lesson, rows)
    fresh, x = clone(estimator), lesson.x.numpy()
    if (name := _weight_argument(fresh)) is not None:
        return fresh.fit(x[item], label, **{name: weight})
    if (weight != np.round(weight)).any():
        raise InputError(
            f"{type(estimator).__name__}.fit takes no sample_weight, and shares cannot be repeated as rows",
            where="estimator",
            hint="Use an estimator that takes sample_weight, or pass counted votes without weights",
            state="",
        )
    times = weight.astype(np.int64)
    return fresh.fit(np.repeat(x[item], times, 0), np.repeat(label, times))


def _weight_argument(estimator: Any) -> str | None:
    """What `fit` calls the weights of its rows: the last step of a pipeline gets its own."""
    if isinstance(estimator, Pipeline):
        step, last = estimator.steps[-1]
        return f"{step}__sample_weight" if _weight_argument(last) == "sample_weight" else None
    return "sample_weight" if "sample_weight" in inspect.signature(estimator.fit).parameters else None


def _log_probs(fitted: Any, x: NDArray[Any], classes: int) -> Tensor:
    """float64 [N, K]; a class that the estimator has not seen has probability 0."""
    if not hasattr(fitted, "predict_proba"):
        raise InputError(
            f"{type(fitted).__name__} gives no probabilities (predict_proba)",
            where="estimator",
            hint="Use a probabilistic classifier, or wrap it in sklearn.calibration.CalibratedClassifierCV",
            state="",
        )
    probs = np.zeros((len(x), classes))
    probs[:, np.asarray(fitted.classes_, dtype=np.int64)] = fitted.predict_proba(x)
    return torch.from_numpy(probs / probs.sum(1, keepdims=True)).log()
