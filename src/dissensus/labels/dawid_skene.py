"""Dawid & Skene (1979): who is right, when each annotator has a confusion matrix of their own; by EM."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array

from dissensus.votes.votes import Floats, Ints, Votes


def posterior(votes: Votes, *, iterations: int, tolerance: float, smoothing: float) -> Floats:
    """Each item's class given who said what, [N, K]; EM from the vote shares until no probability moves by `tolerance`.

    `smoothing` is added to each cell of a confusion matrix. EM that has not converged after `iterations` warns.
    """
    assert votes.annotator is not None and votes.annotators is not None
    k = len(votes.classes)
    answer = votes.annotator * k + votes.label  # which (annotator, label) pair a vote belongs to
    answers = len(votes.annotators) * k
    items_of_answer = _incidence(answer, votes.item, (answers, len(votes.items)))
    answers_of_item = _incidence(votes.item, answer, (len(votes.items), answers))
    current = votes.soft.copy()
    for _ in range(iterations):
        updated = _step(items_of_answer, answers_of_item, current, smoothing)
        current -= updated  # in place: it is needed no more
        change = max(float(current.max()), -float(current.min()))
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


def _step(items_of_answer: csr_array, answers_of_item: csr_array, posterior: Floats, smoothing: float) -> Floats:
    """One iteration: annotators' confusions from the items' classes, then the items' classes from the confusions."""
    k = posterior.shape[1]
    confusion = (items_of_answer @ posterior).reshape(-1, k, k) + smoothing  # [annotator, label, true class]
    log_confusion = np.log(confusion / confusion.sum(1, keepdims=True)).reshape(-1, k)
    with np.errstate(divide="ignore"):
        log_prior = np.log(posterior.mean(0))
    updated: Floats = answers_of_item @ log_confusion  # changed in place from here on: fresh memory costs more than log
    updated += log_prior
    updated -= updated.max(1, keepdims=True)
    np.exp(updated, out=updated)
    updated /= updated.sum(1, keepdims=True)
    return updated


def _incidence(row: Ints, column: Ints, shape: tuple[int, int]) -> csr_array:
    """A 1 for every vote: multiplied by a matrix, each row becomes the sum of the rows that its votes lead to.

    The votes of a row keep their order, and so does the sum: the result has the same bits as adding vote by vote.
    """
    votes = len(row)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    # (row, vote) as one number: sorting numbers is 20 times faster than a stable argsort, and gives the same order.
    order = np.sort(row * votes + np.arange(votes)) % votes
    return csr_array((np.ones(votes), column[order], starts), shape=shape)
