"""Dawid & Skene (1979): who is right, when each annotator has a confusion matrix of their own; by EM."""

from __future__ import annotations

import warnings

import numpy as np

from dissensus.votes.votes import Floats, Votes


def posterior(votes: Votes, *, iterations: int, tolerance: float, smoothing: float) -> Floats:
    """Each item's class given who said what, [N, K]; EM from the vote shares until no probability moves by `tolerance`.

    `smoothing` is added to each cell of a confusion matrix. EM that has not converged after `iterations` warns.
    """
    current = votes.soft.copy()
    for _ in range(iterations):
        updated = _step(votes, current, smoothing)
        change = float(np.abs(updated - current).max())
        current = updated
        if change < tolerance:
            return current
    warnings.warn(
        f"Dawid–Skene has not converged after {iterations:,} iterations: some probability still moves by {change:.1g} "
        f"per iteration, and the tolerance is {tolerance:g}. Give it more iterations, or a larger tolerance.",
        RuntimeWarning,
        stacklevel=2,
    )
    return current


def _step(votes: Votes, posterior: Floats, smoothing: float) -> Floats:
    """One iteration: annotators' confusions from the items' classes, then the items' classes from the confusions."""
    assert votes.annotator is not None and votes.annotators is not None
    n, k = posterior.shape
    cell = votes.annotator * k + votes.label  # which (annotator, label) pair a vote belongs to
    cells = len(votes.annotators) * k
    weighted = [np.bincount(cell, weights=posterior[votes.item, true], minlength=cells) for true in range(k)]
    confusion = np.stack(weighted, -1).reshape(-1, k, k) + smoothing  # [annotator, label, true class]
    log_confusion = np.log(confusion / confusion.sum(1, keepdims=True)).reshape(cells, k)
    with np.errstate(divide="ignore"):
        log_joint = np.tile(np.log(posterior.mean(0)), (n, 1))
    for true in range(k):
        log_joint[:, true] += np.bincount(votes.item, weights=log_confusion[cell, true], minlength=n)
    joint = np.exp(log_joint - log_joint.max(1, keepdims=True))
    updated: Floats = joint / joint.sum(1, keepdims=True)
    return updated
