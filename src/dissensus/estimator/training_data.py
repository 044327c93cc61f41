"""What users hand to `fit`, made into Data: features of any kind beside votes, counts, shares, tables or hard labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import DataConversionWarning
from torch import Tensor

from dissensus import random
from dissensus.datasets.data import Data
from dissensus.datasets.feature_resolution import HINT, lost_in_float32
from dissensus.errors import InputError
from dissensus.estimator.vote_frames import read_frame, refuse_other_order
from dissensus.votes.frames import is_frame
from dissensus.votes.votes import Votes, row_names

MOST_NUMBERS = 2**29  # in sparse features that are made dense: 2 GiB
SHARES_OFF_BY = 1e-4


def as_data(
    X: Any, votes: Any, gold: ArrayLike | None = None, classes: Sequence[str] | None = None
) -> tuple[Data, NDArray[Any]]:
    """Features beside what people said, and the classes as the user writes them.

    `votes` are Votes, a matrix of counts [N, K] (dense, sparse or a data frame), a matrix of shares whose rows sum to 1,
    a data frame with one row per vote, or one hard label per item.
    """
    x = features_of(X)
    labels = None if gold is None else torch.as_tensor(np.asarray(gold)).long()
    if votes is None:
        raise InputError("this estimator requires y to be passed, but the target y is None", where="votes", state="")
    if scipy.sparse.issparse(votes):
        votes = votes.toarray()
    if is_frame(votes) and votes.shape[1] == 1:
        votes = votes.to_numpy()
    if is_frame(votes):
        votes = read_frame(votes, X, classes)
        if isinstance(votes, tuple):
            votes, classes = votes
    if is_frame(X):
        refuse_other_order(X, votes)
    if not isinstance(votes, Votes):
        matrix = np.asarray(votes)
        if matrix.ndim == 2 and matrix.shape[1] == 1:
            text = "A column-vector y was passed when a 1d array was expected: it is read as one label per item"
            warnings.warn(text, DataConversionWarning, stacklevel=3)
            matrix = matrix[:, 0]
        if matrix.ndim == 1:
            return _of_hard_labels(x, matrix, labels)
        if matrix.ndim == 2 and matrix.dtype.kind == "f" and np.allclose(matrix.sum(1), 1, atol=SHARES_OFF_BY):
            names = row_names(matrix.shape[1]) if classes is None else tuple(classes)
            _check_rows(len(x), len(matrix))
            probs = torch.from_numpy(matrix.astype(np.float64))
            data = Data(name="votes", x=x, gold=labels, probs=probs, classes=names, ids=row_names(len(matrix)))
            return data, np.array(names)
        votes = Votes.from_counts(matrix, classes=classes)
    _check_rows(len(x), len(votes.items))
    return Data.of_votes(votes, x=x, gold=labels), np.array(votes.classes)


def people_of(votes: Any, X: Any, classes: NDArray[Any], gold: ArrayLike | None = None) -> Data:
    """`as_data` for a model that has been trained: what people said, in the order of its classes, matched by name."""
    if is_frame(X):
        refuse_other_order(X, votes)
    is_labels = not isinstance(votes, Votes) and not is_frame(votes) and np.ndim(votes) == 1
    if is_labels:
        labels = np.asarray(votes)
        if unknown := sorted(set(labels.tolist()) - set(classes.tolist()), key=str):
            raise InputError(f"label {unknown[0]!r} is not a class of the model", where="votes", state="")
        counts = (labels[:, None] == classes[None, :]).astype(np.int64)
        return as_data(X, counts, gold)[0]
    names = tuple(map(str, classes.tolist()))
    data, _ = as_data(X, votes, gold, names if is_frame(votes) else None)
    if isinstance(votes, Votes):
        assert data.votes is not None
        if set(data.classes) - set(names):
            other = sorted(set(data.classes) - set(names))[0]
            raise InputError(f"class {other!r} is not a class of the model", where="votes", state="")
        if data.classes != names:
            column = [data.classes.index(name) if name in data.classes else -1 for name in names]
            counts = np.concatenate([data.votes.counts, np.zeros((len(data), 1), dtype=np.int64)], 1)[:, column]
            data = Data.of_votes(Votes.from_counts(counts, classes=names, items=data.ids), x=data.x, gold=data.gold)
    elif len(data.classes) != len(names):
        raise InputError(f"{len(data.classes)} columns of votes for {len(names)} classes", where="votes", state="")
    return data


def features_of(X: Any) -> Tensor:
    """float32 [N, D], checked; a sparse matrix is made dense."""
    if scipy.sparse.issparse(X):
        if np.prod(X.shape, dtype=np.float64) > MOST_NUMBERS:
            raise InputError(
                f"sparse features of shape {X.shape} do not fit in memory as a dense matrix",
                where="features",
                hint="Reduce them first, for example with sklearn.decomposition.TruncatedSVD",
                state="",
            )
        X = X.toarray()
    x = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    if x.dtype.kind == "O":
        try:
            x = x.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise InputError(f"features are not numbers ({problem})", where="features", state="") from None
    if x.dtype.kind == "c":
        raise InputError("Complex data not supported: features are real numbers", where="features", state="")
    if x.ndim < 2 or x.dtype.kind not in "fiub":
        hint = "Reshape your data: one row per item, X.reshape(-1, 1) for a single feature" if x.ndim < 2 else ""
        what = f"features are {x.dtype} of shape {x.shape}, not numbers [items, features]"
        raise InputError(what, where="features", hint=hint)
    if 0 in x.shape:
        what = f"0 feature(s) (shape={x.shape}) while a minimum of 1 is required" if len(x) else "0 sample(s): no items"
        raise InputError(what, where="features", state="")
    with np.errstate(over="ignore"):
        small = x.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(small).reshape(len(x), -1).all(1))
    if len(bad):
        large = bool(np.isfinite(x).all())
        what = "a number beyond 3.4e38, the largest of float32" if large else "NaN or infinity"
        hint = "Scale the features" if large else "Correct or drop the rows"
        raise InputError(f"row {bad[0]} has {what} ({len(bad)} rows do)", where="features", hint=hint)
    return torch.from_numpy(small)


def check_resolution(X: Any, data: Data) -> None:
    """Refuse training features [N, D] that vary by less than float32, in which they are kept, can tell apart."""
    if data.x is None or scipy.sparse.issparse(X) or isinstance(X, Tensor):
        return
    if lost := lost_in_float32(np.asarray(X), data.x.numpy()):
        column, what = lost
        raise InputError(f"feature {column} {what}", where="features", hint=HINT, state="")


def weights_of(sample_weight: ArrayLike | None, items: int) -> Tensor | None:
    """How much each item counts, float64 [N]; None where all count the same."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    weights = np.full(items, float(weights)) if weights.ndim == 0 else weights
    hint = "Give one number per item, none below 0"
    if weights.shape != (items,) or not np.isfinite(weights).all() or (weights < 0).any():
        what = f"there are weights of shape {weights.shape} for {items} items, or some are negative or not finite"
        raise InputError(what, where="sample_weight", hint=hint, state="")
    if not weights.any():
        what = "Sample weights must contain at least one non-zero number"
        raise InputError(what, where="sample_weight", hint=hint, state="")
    return None if (weights == weights[0]).all() else torch.from_numpy(weights)


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn accepts: an int, None (another seed each time), or a generator of NumPy."""
    if random_state is None:
        return random.fresh_seed()
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    raise InputError(f"random_state {random_state!r} is neither a whole number nor None", where="random_state", state="")


def _of_hard_labels(x: Tensor, labels: NDArray[Any], gold: Tensor | None) -> tuple[Data, NDArray[Any]]:
    """One vote per item."""
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise InputError("Input y contains NaN or infinity", where="votes", state="")
        if (labels != np.floor(labels)).any():
            raise InputError("Unknown label type: continuous. Labels are numbers with fractions", where="votes", state="")
    _check_rows(len(x), len(labels))
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # None, NaN or numbers beside text
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.tolist()}))
        hint = "Leave out the items that have no label, and write the others alike"
        raise InputError(f"labels are of several kinds ({kinds})", where="votes", hint=hint, state="") from None
    names = tuple(map(str, classes.tolist()))
    votes = Votes(np.arange(len(labels)), codes.astype(np.int64), row_names(len(labels)), names)
    return Data.of_votes(votes, x=x, gold=gold), classes


def _check_rows(features: int, items: int) -> None:
    if features != items:
        raise InputError(
            f"{features} rows of features, and votes on {items} items (inconsistent numbers of samples)",
            where="features",
            hint="Give one row of features for each item, in the order of votes.items",
        )
