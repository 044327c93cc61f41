"""What a metric accepts. Every public metric checks its arguments here, so that each kind of mistake has one message.

All return float64 (or int64, bool) on the CPU, detached: scores are numbers to read, not losses to differentiate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.row_blocks import Rows

SHARES_TOLERANCE = 1e-4  # what printing six digits of ten classes can do to a sum, with room


def checked_probs(probs: Tensor, *, where: str = "probs", first: int = 0) -> Tensor:
    """One distribution per row [N, K]. Integer tensors are refused: they are counts or labels.

    Here as below, `first` is the number of the first row in messages, where these rows are a part of more.
    """
    check_matrix(probs, where)
    if not probs.is_floating_point():
        raise InputError(
            f"{probs.dtype} values are counts or labels, not probabilities",
            where=where,
            hint="Divide counts by their row sums; make labels one-hot in float64",
            state="",
        )
    probs = probs.detach().to("cpu", torch.float64)
    check_probabilities(probs, probs.shape[1], where=where, first=first)
    return probs


def checked_target(target: Tensor, like: Tensor, *, first: int = 0) -> Tensor:
    """What people said, for the same items and classes as the predictions `like`."""
    target = checked_probs(target, where="target", first=first)
    check_same_shape(target, like, "target")
    return target


def checked_log_probs(log_probs: Tensor, *, first: int = 0) -> Tensor:
    """Normalised log-probabilities [N, K]; -inf is a probability of 0. Raw logits and probabilities are refused."""
    return with_probs(log_probs, first=first)[0]


def with_probs(log_probs: Tensor, *, first: int = 0) -> tuple[Tensor, Tensor]:
    """Log-probabilities, checked, and the probabilities that the check needs anyway."""
    check_matrix(log_probs, "log_probs")
    log_probs = log_probs.detach().to("cpu", torch.float64)
    probs = log_probs.exp()
    total = probs.sum(1)
    off = torch.nonzero(~((total - 1).abs() <= SHARES_TOLERANCE))
    if len(off):
        row = int(off[0])
        if bool(total[row].isnan()):
            raise InputError(f"row {first + row} has NaN", where="log_probs", hint="Correct or drop the row", state="")
        raise InputError(
            f"the probabilities of row {first + row} sum to {float(total[row]):.6g}, not 1",
            where="log_probs",
            hint="Pass logits through log_softmax, and probabilities through log",
            state="",
        )
    return log_probs, probs


def checked_gold(gold: Tensor, like: Rows) -> Tensor:
    """One class index per item, int64 [N]. Distributions are refused: a hard metric would silently round them."""
    items, classes = like.shape
    if gold.ndim != 1 or gold.is_floating_point() or gold.is_complex() or gold.dtype == torch.bool:
        raise InputError(
            f"{gold.dtype} {list(gold.shape)} is not one class index per item",
            where="gold",
            hint="Give a hard-label metric int64 [N]; for soft targets use soft_nll, kl, js or soft_brier",
            state="",
        )
    if len(gold) != items:
        raise InputError(f"{len(gold)} labels for {items} items", where="gold", state="")
    gold = gold.detach().to("cpu", torch.int64)
    if int(gold.min()) < 0 or int(gold.max()) >= classes:
        raise InputError(
            f"labels {int(gold.min())}…{int(gold.max())} are outside 0…{classes - 1}", where="gold", state=""
        )
    return gold


def checked_counts(counts: Tensor, like: Tensor | None = None, *, first: int = 0) -> Tensor:
    """Counts of votes, int64 [N, K], at least one per item. Shares are refused: they do not say how many people voted."""
    check_matrix(counts, "counts")
    if counts.is_floating_point():
        raise InputError(
            f"{counts.dtype} values are not counts",
            where="counts",
            hint="Give an integer tensor; shares of votes do not say how many people voted",
            state="",
        )
    counts = counts.detach().to("cpu", torch.int64)
    if like is not None:
        check_same_shape(counts, like, "counts")
    bad = torch.nonzero((counts < 0).any(1) | (counts.sum(1) < 1))
    if len(bad):
        row = first + int(bad[0])
        raise InputError(f"row {row} has a negative count, or no vote at all", where="counts", state="")
    return counts


def checked_events(confidence: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    """One probability per item and whether the event happened: float64 [N] in [0, 1] and bool [N]."""
    if confidence.ndim != 1 or correct.shape != confidence.shape or len(confidence) == 0:
        raise InputError(
            f"{list(confidence.shape)} confidences and {list(correct.shape)} outcomes are not one of each per item",
            where="confidence",
            state="",
        )
    if correct.dtype != torch.bool:
        raise InputError(f"{correct.dtype} values are not true or false", where="correct", state="")
    confidence = confidence.detach().to("cpu", torch.float64)
    if not bool(((confidence >= 0) & (confidence <= 1)).all()):
        raise InputError("some values are outside 0…1, or NaN", where="confidence", state="")
    return confidence, correct.detach().cpu()


def check_matrix(values: Rows, where: str) -> None:
    """Refuse what is not [items, classes]."""
    if len(values.shape) != 2 or 0 in values.shape:
        raise InputError(f"{list(values.shape)} is not [items, classes] with at least one of each", where=where, state="")


def check_same_shape(values: Rows, like: Rows, where: str) -> None:
    """Refuse what has not one row per item and one column per class of the predictions."""
    if tuple(values.shape) != tuple(like.shape):
        raise InputError(
            f"{list(values.shape)} does not match the predictions {list(like.shape)} [items, classes]",
            where=where,
            state="",
        )


def check_probabilities(probs: Tensor, classes: int, *, where: str, first: int = 0) -> None:
    """Refuse what is not one distribution per row: wrong width, NaN, negative, or a sum that is not 1."""
    if probs.ndim != 2 or probs.shape[1] != classes:
        raise InputError(f"{tuple(probs.shape)} is not [items, {classes} classes]", where=where)
    check_shares(probs.detach().cpu().double().numpy(), where=lambda row: f"{where}, row {first + row}")


def check_shares(shares: NDArray[np.float64], *, where: Callable[[int], str]) -> None:
    """Refuse rows of [N, K] that are not distributions: NaN, negative, or a sum that is not 1.

    `where` names a row in messages ("preds.csv:7"). Values far from any distribution are taken for logits or counts.
    """
    if len(bad := np.flatnonzero(~np.isfinite(shares).all(1))):
        raise InputError(
            "NaN or infinity among the probabilities", where=where(int(bad[0])), hint="Correct or drop the row"
        )
    total = shares.sum(1)
    if len(bad := np.flatnonzero((shares < 0).any(1) | (np.abs(total - 1) > 0.5))):
        row = shares[bad[0]]
        shown = ", ".join(f"{value:.4g}" for value in row[:4]) + (", …" if len(row) > 4 else "")
        raise InputError(
            f"not a probability distribution ({shown})",
            where=where(int(bad[0])),
            hint="If these are logits, pass --logits; if they are counts, pass them as votes",
        )
    if len(bad := np.flatnonzero(np.abs(total - 1) > SHARES_TOLERANCE)):
        raise InputError(
            f"the probabilities sum to {total[bad[0]]:.6g}, not 1",
            where=where(int(bad[0])),
            hint="Divide each row by its sum, or pass --logits if these are logits",
        )
