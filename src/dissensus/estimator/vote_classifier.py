"""`VoteClassifier`: features and votes in, probabilities that match what people would say out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.estimator.measured_fit import MeasuredFit, measured_fit
from dissensus.estimator.model_folder import SavedModel, load_saved, save_model
from dissensus.estimator.named_heads import HEADS, SELECTED, HeadSettings, grid_of, head_names
from dissensus.estimator.training_data import as_data, check_resolution, features_of, people_of, seed_of, weights_of
from dissensus.estimator.weighted_rows import RowsModel, train_rows
from dissensus.labels.delivery import DELIVERIES, Delivery, Soft
from dissensus.labels.targets import TARGETS, TargetRule
from dissensus.metrics.agreement import majority
from dissensus.metrics.threads import torch_threads
from dissensus.models import Architecture, Model, new_model
from dissensus.models.opinion_pool import OpinionPool
from dissensus.models.predictions import Predictions
from dissensus.models.wrapped_module import WrappedModule
from dissensus.training import evaluate
from dissensus.training.early_stopped import NetworkSettings, train_network
from dissensus.training.selection import Lesson, train_pool
from dissensus.training.selection.lesson import Progress


def _silent(share: float, doing: str) -> None:
    """No progress is shown."""


class VoteClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A classifier on features, trained on votes.

    By default, linear models and small MLPs are tried over a small grid and judged by soft NLL on items left out; those
    that help are pooled, with a temperature if it helps, and trained again on all items (`dissensus.training.selection`).
    What is given is not searched: `head` is "auto", "linear", "mlp", or an architecture of `dissensus.models`, or "sngp",
    "duq" or "dropout": one MLP each that also says how strange an item is to it (`predictions(X).uncertainty`). `hidden`,
    `dropout`, `weight_decay`, `epochs` and `lr` are chosen where they are None. Of a linear head `weight_decay` is the
    penalty. `seeds` networks of each chosen MLP are averaged.

    `target` and `delivery` are names (`empirical`, `majority`, `smoothed`…; `soft`, `sampled`, `multipass`) or members of
    `dissensus.labels` with settings of their own.

    In place of a head: `estimator` is any scikit-learn classifier with `predict_proba`, which learns from votes as
    weighted rows; `module` any torch.nn.Module that gives logits, trained on `device` for as many epochs as are best on a
    validation part. `random_state` None gives another result each time.

    >>> from dissensus import Votes
    >>> votes = Votes.from_counts([[5, 0], [4, 1], [1, 4], [0, 5]], classes=["no", "yes"])
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = VoteClassifier(head="linear", weight_decay=0.01).fit(X, votes)
    >>> model.predict(X).tolist()
    ['no', 'no', 'yes', 'yes']
    """

    def __init__(
        self,
        head: str | Architecture = "auto",
        target: str | TargetRule = "empirical",
        delivery: str | Delivery = "soft",
        *,
        estimator: Any = None,
        module: nn.Module | None = None,
        hidden: int | None = None,
        dropout: float | None = None,
        weight_decay: float | None = None,
        epochs: int | None = None,
        lr: float | None = None,
        batch: int = 64,
        seeds: int = 4,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.head = head
        self.target = target
        self.delivery = delivery
        self.estimator = estimator
        self.module = module
        self.hidden = hidden
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.lr = lr
        self.batch = batch
        self.seeds = seeds
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any = None,
        gold: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        progress: Progress = _silent,
    ) -> Self:
        """Train on features [N, D] and the votes `y` on the same N items, in the same order.

        `y` are Votes, a matrix (or data frame) of counts [N, K], a matrix of shares whose rows sum to 1, a data frame
        with one row per vote (columns item, label, if need be count), or one hard label per item. The items of such a
        table are matched to features by the index of these; without one, by order, where it is plain. `classes` names the
        columns of a matrix. An item counts by what its votes are worth (`training.selection.vote_weights`). `gold` (class
        indices) is needed only by the targets that use it. Features may be sparse; they are made dense.
        """
        data, names = as_data(X, y, gold, classes)
        check_resolution(X, data)
        self._remember_columns(X)
        return self._fit(data, names, weights_of(sample_weight, len(data)), seed_of(self.random_state), progress)

    def fit_measured(
        self,
        X: Any,
        y: Any = None,
        gold: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        classes: Sequence[str] | None = None,
        held_out: float | Sequence[int] = 0.2,
        progress: Progress = _silent,
    ) -> MeasuredFit:
        """Like `fit`, and measured: a model that never saw the held-out items is scored on them, beside the baselines.

        `held_out` is a share of the items, drawn within each class, or the rows themselves. The scores are those of
        `metrics.score`: `raw` (what `predict_proba` gives), and `tempered_votes` and `tempered_gold`, after one more
        temperature, fitted on one half of the held-out items and judged on the other; a single item gives raw scores
        alone. `baselines` has the same of the class prior and of logistic regression on votes and on majorities.
        `warnings` say what to look at before the model is used. Then the model is trained on all items, exactly as by
        `fit`.
        """
        data, names = as_data(X, y, gold, classes)
        check_resolution(X, data)
        self._remember_columns(X)
        weights, seed = weights_of(sample_weight, len(data)), seed_of(self.random_state)

        def fitted(part: Data, rows: Tensor, tell: Progress) -> VoteClassifier:
            return self._fit(part, names, None if weights is None else weights[rows], seed, tell)

        return measured_fit(data, held_out, seed, fitted, progress)

    def _fit(self, data: Data, names: NDArray[Any], weights: Tensor | None, seed: int, progress: Progress) -> Self:
        if weights is not None and not bool((weights > 0).all()):
            rows = (weights > 0).nonzero().flatten()
            data, weights = data.subset(rows), weights[rows]
        delivery: Delivery = _member(self.delivery, DELIVERIES, "delivery")
        rule, threads = _member(self.target, TARGETS, "target"), torch.get_num_threads()
        on_one_thread = self.module is None and self.estimator is None
        with torch_threads(1 if on_one_thread else threads):
            trained = self._learner()(Lesson(data, rule, delivery, seed, weights, threads), progress)
        self.model_: OpinionPool | Model | RowsModel = trained.model
        self.temperature_ = trained.temperature.value
        self.temperature_note_ = trained.temperature.note
        self.candidates_ = trained.candidates
        self.classes_ = names
        assert data.x is not None
        self.n_features_in_ = data.x.shape[1]
        return self

    def _learner(self) -> Callable[[Lesson, Progress], Any]:
        if self.estimator is not None and self.module is not None:
            raise InputError("give an estimator or a module, not both", where="fit", state="")
        if self.estimator is not None:
            if _member(self.delivery, DELIVERIES, "delivery") != Soft():
                what = "an estimator gets all votes at once, as weighted rows: it knows no other delivery than soft"
                raise InputError(what, where="delivery", state="")
            return lambda lesson, progress: train_rows(self.estimator, lesson, progress)
        if self.module is None and isinstance(self.head, str) and self.head in SELECTED:
            grid = grid_of(
                self.head,
                hidden=self.hidden,
                dropout=self.dropout,
                weight_decay=self.weight_decay,
                epochs=self.epochs,
                lr=self.lr,
                batch=self.batch,
                seeds=self.seeds,
            )
            return lambda lesson, progress: train_pool(lesson, grid, progress)
        return self._train_network

    def _train_network(self, lesson: Lesson, progress: Progress) -> Any:
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        defaults = NetworkSettings()
        settings = NetworkSettings(
            lr=defaults.lr if self.lr is None else self.lr,
            weight_decay=defaults.weight_decay if self.weight_decay is None else self.weight_decay,
            batch=self.batch,
            epochs=self.epochs,
            device=device,
        )
        x, classes = lesson.x, len(lesson.data.classes)

        def build() -> Model:
            if self.module is not None:
                return WrappedModule(self.module, x, classes)
            return new_model(self._architecture(), x, classes, seed=lesson.seed)

        return train_network(lesson, build, settings, progress)

    def _architecture(self) -> Architecture:
        if not isinstance(self.head, str):
            return self.head
        if self.head not in HEADS:
            raise InputError(f"head {self.head!r} is not one of {', '.join(head_names())}", where="fit", state="")
        defaults = HeadSettings()
        hidden = defaults.hidden if self.hidden is None else self.hidden
        return HEADS[self.head](HeadSettings(hidden, defaults.dropout if self.dropout is None else self.dropout))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """What people would say, [N, K]; columns in the order of `classes_`."""
        return self._log_probs(X).exp().numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The name of the likeliest class of each item."""
        top = majority(self._log_probs(X)).numpy()
        named: NDArray[Any] = self.classes_[top]
        return named

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Minus the mean soft NLL to the votes, in nats: greater is better, as scikit-learn's searches expect."""
        log_probs = self._log_probs(X)
        losses = metrics.soft_nll(log_probs, people_of(y, X, self.classes_).people)
        weights = weights_of(sample_weight, len(losses))
        return -float(losses.mean() if weights is None else (losses * weights).sum() / weights.sum())

    def scores(self, X: Any, y: Any, gold: ArrayLike | None = None) -> dict[str, Any]:
        """Every metric, with the floors and ceilings that the votes allow."""
        data = people_of(y, X, self.classes_, gold)
        return metrics.score(self._log_probs(X), data.people, gold=data.gold, counts=data.counts)

    def predictions(self, X: Any) -> Predictions:
        """Logits as the model gives them, before its temperature, and an uncertainty where the head has one."""
        if not hasattr(self, "model_"):
            raise NotFittedError("This VoteClassifier is not fitted yet: call fit first.")
        x = features_of(X)
        if x.shape[1] != self.n_features_in_:
            raise InputError(
                f"X has {x.shape[1]} features, but VoteClassifier is expecting {self.n_features_in_} features as input",
                where="features",
                hint="Give it features of the same kind as those it was trained on",
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and hasattr(X, "columns") and list(X.columns) != list(known):
            raise InputError(
                "the columns are not those of the training features, in their order (feature names should match)",
                where="features",
                hint="Pass X[model.feature_names_in_]",
            )
        if isinstance(self.model_, RowsModel):
            return self.model_.predict(x)
        device = next(iter(self.model_.state_dict().values())).device
        predictions = evaluate.predict(self.model_, x.to(device))
        if torch.isnan(predictions.logits).any():  # weights or features so large that their products overflow
            raise InputError(
                "the model gives predictions that are no numbers",
                where="features",
                hint="Its weights are damaged, or these features are of another size than those it was trained on",
            )
        return predictions

    def save(self, folder: Path | str) -> None:
        """Write model.json and model.safetensors; `load` gives the same predictions back."""
        if not isinstance(getattr(self, "model_", None), OpinionPool):
            raise InputError(
                "only a fitted model with the head auto, linear or mlp can be saved as data",
                where=str(folder),
                hint="Keep any other with pickle or joblib, and load it only from people you trust",
            )
        assert isinstance(self.model_, OpinionPool)
        settings = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if value is None or isinstance(value, (str, int, float))
        }
        axes = {
            "target": _member(self.target, TARGETS, "target"),
            "delivery": _member(self.delivery, DELIVERIES, "delivery"),
        }
        save_model(
            SavedModel(
                self.model_,
                tuple(map(str, self.classes_.tolist())),
                self.n_features_in_,
                self.temperature_,
                {**settings, **axes},
                self.candidates_,
            ),
            Path(folder),
        )

    @classmethod
    def load(cls, folder: Path | str) -> VoteClassifier:
        """A model that `save` wrote; one that is damaged is refused."""
        saved = load_saved(Path(folder))
        loaded = cls(**saved.settings)
        loaded.classes_, loaded.n_features_in_ = np.array(saved.classes), saved.features
        loaded.model_, loaded.temperature_, loaded.temperature_note_ = saved.model, saved.temperature, ""
        loaded.candidates_ = saved.candidates
        return loaded

    def _log_probs(self, X: Any) -> Tensor:
        return torch.log_softmax(self.predictions(X).logits.double() / self.temperature_, -1)

    def _remember_columns(self, X: Any) -> None:
        if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
            self.feature_names_in_ = np.array(list(X.columns), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _member(value: Any, members: dict[str, type], axis: str) -> Any:
    if not isinstance(value, str):
        return value
    if value not in members:
        raise InputError(f"{axis} {value!r} is not one of {', '.join(members)}", where="fit", state="")
    return members[value]()
