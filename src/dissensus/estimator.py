"""The scikit-learn face: features and votes in, probabilities that match what people would say out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.torch
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.engine.judging import judge
from dissensus.errors import InputError
from dissensus.labels.delivery import DELIVERIES, Delivery
from dissensus.labels.targets import TARGETS, TargetRule
from dissensus.metrics.agreement import majority
from dissensus.metrics.temperature import fit_temperature
from dissensus.models import Architecture, Linear, Mlp, load_model, new_model
from dissensus.models.predictions import Predictions
from dissensus.training import evaluate
from dissensus.training import loop as train
from dissensus.training.optimisers import AdamW
from dissensus.training.schedules import Cosine
from dissensus.training.splits import Holdout
from dissensus.votes.votes import Votes, row_names

HEADS = ("linear", "mlp")
FORMAT = 1  # of the saved folder

Progress = Callable[[int, int, float], None]
"""(epochs done, epochs in all, training loss)."""


class VoteClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """A linear model or a small MLP on features, trained on votes.

    `target` and `delivery` are names (`empirical`, `majority`, `smoothed`…; `soft`, `sampled`, `multipass`) or members
    of `dissensus.labels` with settings of their own. The model standardises its features.

    >>> votes = Votes.from_counts([[5, 0], [4, 1], [1, 4], [0, 5]], classes=["no", "yes"])
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = VoteClassifier(head="linear", epochs=200, lr=0.05).fit(X, votes)
    >>> model.predict(X).tolist()
    ['no', 'no', 'yes', 'yes']
    """

    def __init__(
        self,
        head: str = "mlp",
        target: str | TargetRule = "empirical",
        delivery: str | Delivery = "soft",
        *,
        hidden: int = 256,
        dropout: float = 0.2,
        epochs: int = 60,
        batch: int = 64,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        random_state: int = 0,
        device: str | None = None,
    ) -> None:
        self.head = head
        self.target = target
        self.delivery = delivery
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: ArrayLike,
        votes: Votes | ArrayLike,
        gold: ArrayLike | None = None,
        *,
        classes: Sequence[str] | None = None,
        progress: Progress = lambda done, total, loss: None,  # noqa: ARG005
    ) -> Self:
        """Train on features [N, D] and the votes on the same N items, in the same order.

        `votes` are Votes, a matrix of counts [N, K], or a matrix of probabilities whose rows sum to 1. `classes` names
        the columns of a matrix. `gold` (class indices) is needed only by the targets that use it.
        """
        return self._fit(as_data(X, votes, gold, classes), progress)

    def fit_measured(
        self,
        X: ArrayLike,
        votes: Votes | ArrayLike,
        gold: ArrayLike | None = None,
        *,
        classes: Sequence[str] | None = None,
        held_out: float = 0.2,
        progress: Progress = lambda done, total, loss: None,  # noqa: ARG005
    ) -> dict[str, Any]:
        """Like `fit`, and measured: the scores of a model that never saw a share `held_out` of the items, on those items.

        The scores are those of `metrics.score`: `raw`, and `tempered_votes` and `tempered_gold`, after one temperature,
        fitted on one half of the held-out items and judged on the other. `items` says how many were trained on and held
        out. Then the model is trained on all items, and divides its logits by the temperature that fits all held-out
        items, if tempering lowered soft NLL. A single held-out item gives no temperature, and raw scores alone.
        """
        data = as_data(X, votes, gold, classes)
        assert data.x is not None
        train, held = Holdout(held_out).split(data.labels, self.random_state)
        self._fit(data.subset(train), lambda done, total, loss: progress(done, 2 * total, loss))
        predictions = self.predictions(data.x[held].numpy())
        scores, _ = judge(predictions, data, held, self.random_state)
        temperature = 1.0
        if "tempered_votes" in scores and scores["tempered_votes"]["soft_nll"] < scores["raw"]["soft_nll"]:
            temperature = fit_temperature(predictions.logits, data.people[held]).value
        self._fit(data, lambda done, total, loss: progress(total + done, 2 * total, loss))
        self.temperature_ = temperature
        return {**scores, "items": {"train": len(train), "held_out": len(held)}}

    def _fit(self, data: Data, progress: Progress) -> Self:
        assert data.x is not None
        rule = _member(self.target, TARGETS, "target")
        target = rule.target(data, torch.arange(len(data)), seed=self.random_state)
        labels = _member(self.delivery, DELIVERIES, "delivery").labels(target, self.random_state)
        device = torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model = new_model(self._architecture(), data.x, len(data.classes), seed=self.random_state).to(device)
        settings = train.Settings(AdamW(self.lr, self.weight_decay), Cosine(), self.epochs, self.batch)
        train.fit(
            model,
            data.x.to(device),
            labels,
            settings,
            classes=len(data.classes),
            seed=self.random_state,
            observe=lambda epoch, loss: progress(epoch + 1, self.epochs, loss),
        )
        self.model_, self.temperature_ = model.eval(), 1.0
        self.classes_ = np.array(data.classes)
        self.n_features_in_ = data.x.shape[1]
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """What people would say, [N, K]; columns in the order of `classes_`."""
        return self._log_probs(X).exp().numpy()

    def predict(self, X: ArrayLike) -> NDArray[np.str_]:
        """The name of the likeliest class of each item."""
        named: NDArray[np.str_] = self.classes_[majority(self._log_probs(X)).numpy()]
        return named

    def score(self, X: ArrayLike, votes: Votes | ArrayLike, sample_weight: None = None) -> float:  # noqa: ARG002
        """Minus the mean soft NLL to the votes, in nats: greater is better, as scikit-learn's searches expect."""
        data = as_data(X, votes, None)
        return -float(metrics.soft_nll(self._log_probs(X), data.people).mean())

    def scores(self, X: ArrayLike, votes: Votes | ArrayLike, gold: ArrayLike | None = None) -> dict[str, Any]:
        """Every metric, with the floors and ceilings that the votes allow."""
        data = as_data(X, votes, gold)
        return metrics.score(self._log_probs(X), data.people, gold=data.gold, counts=data.counts)

    def predictions(self, X: ArrayLike) -> Predictions:
        """Logits as the model gives them, before its temperature, and penultimate features."""
        if not hasattr(self, "model_"):
            raise NotFittedError("This VoteClassifier is not fitted yet: call fit first.")
        x = _features(X)
        if x.shape[1] != self.n_features_in_:
            raise InputError(
                f"{x.shape[1]} columns, and the model was trained on {self.n_features_in_}",
                where="features",
                hint="Give it features of the same kind as those it was trained on",
            )
        device = next(self.model_.parameters()).device
        return evaluate.predict(self.model_, x.to(device))

    def save(self, folder: Path | str) -> None:
        """Write model.json and model.safetensors; `load` gives the same predictions back."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        named = {
            "target": _member(self.target, TARGETS, "target"),
            "delivery": _member(self.delivery, DELIVERIES, "delivery"),
        }
        settings = {**self.get_params(), **{axis: repr(member) for axis, member in named.items()}}
        about = {
            "format": FORMAT,
            "settings": settings,
            "classes": self.classes_.tolist(),
            "features": self.n_features_in_,
            "temperature": self.temperature_,
        }
        safetensors.torch.save_file(
            {k: v.cpu().contiguous() for k, v in self.model_.state_dict().items()}, folder / "model.safetensors"
        )
        (folder / "model.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path | str) -> VoteClassifier:
        """A model that `save` wrote."""
        folder = Path(folder)
        try:
            about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            weights = safetensors.torch.load_file(folder / "model.safetensors")
        except (OSError, ValueError) as problem:
            raise InputError(
                f"there is no readable model here ({problem})",
                where=str(folder),
                hint="Make one with `dissensus fit`",
                state="",
            ) from None
        kept = ("head", "hidden", "dropout", "epochs", "batch", "lr", "weight_decay", "random_state")
        loaded = cls(**{name: about["settings"][name] for name in kept})
        loaded.classes_, loaded.n_features_in_ = np.array(about["classes"]), about["features"]
        loaded.model_ = load_model(loaded._architecture(), (loaded.n_features_in_,), len(loaded.classes_), weights)
        loaded.temperature_ = about["temperature"]
        return loaded

    def _architecture(self) -> Architecture:
        if self.head not in HEADS:
            raise InputError(f"head {self.head!r} is not one of {', '.join(HEADS)}", where="fit", state="")
        return Linear() if self.head == "linear" else Mlp((self.hidden,), self.dropout)

    def _log_probs(self, X: ArrayLike) -> torch.Tensor:
        return torch.log_softmax(self.predictions(X).logits.double() / self.temperature_, -1)


def as_data(
    X: ArrayLike, votes: Votes | ArrayLike, gold: ArrayLike | None = None, classes: Sequence[str] | None = None
) -> Data:
    """Features beside votes, counts (whole numbers) or probabilities (floats whose rows sum to 1)."""
    x = _features(X)
    labels = None if gold is None else torch.as_tensor(np.asarray(gold)).long()
    if not isinstance(votes, Votes):
        matrix = np.asarray(votes)
        if matrix.ndim == 2 and matrix.dtype.kind == "f" and np.allclose(matrix.sum(1), 1, atol=1e-4):
            names = row_names(matrix.shape[1]) if classes is None else tuple(classes)
            probs = torch.from_numpy(matrix.astype(np.float64))
            _check_rows(len(x), len(probs))
            return Data(name="votes", x=x, gold=labels, probs=probs, classes=names, ids=row_names(len(matrix)))
        votes = Votes.from_counts(matrix, classes=classes)
    _check_rows(len(x), len(votes.items))
    return Data.of_votes(votes, x=x, gold=labels)


def _check_rows(features: int, items: int) -> None:
    if features != items:
        raise InputError(
            f"{features} rows of features, and votes on {items} items",
            where="features",
            hint="Give one row of features for each item, in the order of votes.items",
        )


def _features(X: ArrayLike) -> torch.Tensor:
    x = np.asarray(X)
    if x.ndim != 2 or x.dtype.kind not in "fiu":
        raise InputError(f"features are {x.dtype} of shape {x.shape}, not numbers [items, features]", where="features")
    bad = np.flatnonzero(~np.isfinite(x).all(1))
    if len(bad):
        raise InputError(
            f"row {bad[0]} has NaN or infinity ({len(bad)} rows do)", where="features", hint="Correct or drop the rows"
        )
    return torch.from_numpy(x.astype(np.float32))


def _member(value: Any, members: dict[str, type], axis: str) -> Any:
    if not isinstance(value, str):
        return value
    if value not in members:
        raise InputError(f"{axis} {value!r} is not one of {', '.join(members)}", where="fit", state="")
    return members[value]()
