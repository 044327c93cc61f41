"""A model judged on items it has not seen, beside the baselines that it must beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.engine.judging import judge
from dissensus.errors import InputError
from dissensus.metrics.threads import torch_threads
from dissensus.models.predictions import Predictions
from dissensus.training.baselines import BASELINES
from dissensus.training.selection.lesson import Candidate, Progress
from dissensus.training.splits import Holdout, Split

MeasuredFit = dict[str, Any]
"""`raw`, `tempered_votes`, `tempered_gold`, `baselines`, `items`, `chosen`, `temperature`, `warnings`."""

NOT_BY_CHANCE = 2.0  # standard errors


class Fitted(Protocol):
    """What is measured: a classifier after `fit`."""

    temperature_: float
    temperature_note_: str
    candidates_: tuple[Candidate, ...]

    def predict_proba(self, X: Any) -> Any:
        """[N, K]."""
        ...


def measured_fit(
    data: Data,
    held_out: float | Sequence[int],
    seed: int,
    fitted: Callable[[Data, Tensor, Progress], Fitted],
    progress: Progress,
) -> MeasuredFit:
    """Fit on a part and score the rest, then fit on everything; `fitted` gets data, their rows, and a progress."""
    assert data.x is not None
    train, held = _split(data, held_out, seed)
    part = fitted(
        data.subset(train), train, lambda share, doing: progress(0.45 * share, f"without held-out items: {doing}")
    )
    progress(0.45, "scores and baselines")
    with torch_threads(1):
        scores, baselines, warnings = _scored(part, data, train, held, seed)
    whole = fitted(
        data, torch.arange(len(data)), lambda share, doing: progress(0.5 + 0.5 * share, f"final model: {doing}")
    )
    return {
        **scores,
        "baselines": baselines,
        "items": {"train": len(train), "held_out": len(held)},
        "chosen": [
            {"name": part.name, "soft_nll": None if np.isnan(part.soft_nll) else part.soft_nll, "weight": part.weight}
            for part in whole.candidates_
        ],
        "temperature": whole.temperature_,
        "warnings": list(dict.fromkeys([*warnings, *_temperature_warning(whole)])),
    }


def _scored(
    part: Fitted, data: Data, train: Tensor, held: Tensor, seed: int
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The scores of the model and of the baselines on the held-out items, and what to look at."""
    assert data.x is not None
    log_probs = torch.from_numpy(np.log(part.predict_proba(data.x[held].numpy())))
    warnings, baselines = _temperature_warning(part), {}
    scores, _ = judge(Predictions(log_probs), data, held, seed)
    votes = None if data.counts is None else data.counts.sum(1)[train]
    for name, baseline in BASELINES.items():
        theirs = baseline(data.x[train], data.people[train], votes, data.x[held], seed=seed)
        baselines[name], _ = judge(Predictions(theirs), data, held, seed)
        if name == "class_prior":
            warnings += _prior_warning(log_probs, theirs, data.people[held])
    return scores, baselines, warnings


def _split(data: Data, held_out: float | Sequence[int], seed: int) -> Split:
    if isinstance(held_out, float):
        return Holdout(held_out).split(data.labels, seed)
    held = torch.from_numpy(np.unique(np.asarray(held_out, dtype=np.int64)))
    if not 0 < len(held) < len(data) or int(held[0]) < 0 or int(held[-1]) >= len(data):
        raise InputError(
            f"{len(held)} rows are held out of {len(data)} items",
            where="held_out",
            hint="Leave some to train on",
            state="",
        )
    keep = torch.ones(len(data), dtype=torch.bool)
    keep[held] = False
    return Split(keep.nonzero().flatten(), held)


def _temperature_warning(part: Fitted) -> list[str]:
    if not part.temperature_note_:
        return []
    what = f"The best temperature of the model is at its bound ({part.temperature_note_}), so none is used."
    return [f"{what} Something is odd about the votes or the features: look at them before using the model."]


def _prior_warning(log_probs: Tensor, prior: Tensor, people: Tensor) -> list[str]:
    """Whether the features were of any use."""
    worse = metrics.soft_nll(log_probs, people) - metrics.soft_nll(prior.contiguous(), people)
    mean, items = float(worse.mean()), len(worse)
    if mean < 0:
        return []
    error = float(worse.std()) / items**0.5 if items > 1 else float("inf")
    clearly = mean > NOT_BY_CHANCE * error
    what = "is worse than" if clearly else "is no better than"
    return [
        f"The model {what} the class prior, which knows no features (soft NLL {mean:+.4f} on {items} held-out items). "
        "Do not use it: check that features and votes are of the same items, in the same order."
    ]


__all__ = ["MeasuredFit", "measured_fit"]
