"""GLAD and MACE, as crowd-kit computes them (the extra `aggregators`): each item's class, given who said what."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dissensus import random
from dissensus.errors import InputError
from dissensus.votes.votes import Floats, Votes


def glad(votes: Votes, *, iterations: int, tolerance: float) -> Floats:
    """The posterior [N, K] of Whitehill et al. (2009): annotators have an ability, items have a difficulty."""
    model = _crowdkit("GLAD")(n_iter=iterations, tol=tolerance)
    return _posterior(model, votes)


def mace(votes: Votes, *, restarts: int, iterations: int, seed: int) -> Floats:
    """The posterior [N, K] of Hovy et al. (2013): an annotator either knows the class, or answers by a habit of theirs.

    Of several random starts, the one with the highest likelihood counts.
    """
    # A generator, not a number: given a number, crowd-kit starts every restart at the same point.
    generator = random.numpy_generator(seed, "init", "mace")
    model = _crowdkit("MACE")(n_restarts=restarts, n_iter=iterations, random_state=generator)
    return _posterior(model, votes)


def _crowdkit(name: str) -> Any:
    try:
        from crowdkit import aggregation
    except ModuleNotFoundError as missing:
        raise InputError(
            f"the target `{name.lower()}` needs the package crowd-kit ({missing.name} is not installed)",
            where="target",
            hint="Install it with `pip install 'dissensus[aggregators]'`, or use the target `dawid_skene`",
            state="",
        ) from None
    return getattr(aggregation, name)


def _posterior(model: Any, votes: Votes) -> Floats:
    """The model's probabilities in the order of items and classes; a class that nobody chose has none."""
    import pandas as pd

    n, k = len(votes.items), len(votes.classes)
    seen = np.unique(votes.label)
    if len(seen) == 1:  # crowd-kit divides by the number of other classes
        certain: Floats = np.eye(k)[np.full(n, seen[0])]
        return certain
    frame = pd.DataFrame({"task": votes.item, "worker": votes.annotator, "label": votes.label})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)  # of pandas, about crowd-kit's own code
        warnings.filterwarnings("ignore", category=FutureWarning)
        fitted = model.fit_predict_proba(frame)
    probs: Floats = fitted.reindex(index=range(n), columns=range(k), fill_value=0.0).to_numpy(np.float64, copy=True)
    probs /= probs.sum(1, keepdims=True)
    return probs
