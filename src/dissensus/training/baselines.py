"""What a model must beat before it is worth anything: the class prior, and logistic regression on votes or majorities.

Each is a pure function of the training items; whoever compares models asks for the same three rows.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from dissensus.training.logistic import class_prior, majority_target, stratified_folds, tuned_logistic

FOLDS = 5


class Baseline(Protocol):
    """Log-probabilities float64 [M, K] of other items [M, D], from training items: features, shares and vote counts."""

    def __call__(self, x: Tensor, shares: Tensor, votes: Tensor | None, others: Tensor, *, seed: int = 0) -> Tensor:
        """`x` [N, D], `shares` [N, K]; `votes` [N] is how many people voted on each item, None where it is not known."""
        ...


def prior_baseline(x: Tensor, shares: Tensor, votes: Tensor | None, others: Tensor, *, seed: int = 0) -> Tensor:  # noqa: ARG001
    """The mean opinion, said of every item."""
    return class_prior(shares).expand(len(others), -1)


def votes_baseline(x: Tensor, shares: Tensor, votes: Tensor | None, others: Tensor, *, seed: int = 0) -> Tensor:
    """Logistic regression on the votes, every vote a row, with its penalty chosen by cross-validated soft NLL."""
    folds = baseline_folds(shares, seed)
    return tuned_logistic(x, shares, folds, weights=votes).log_probs(others)


def majority_baseline(x: Tensor, shares: Tensor, votes: Tensor | None, others: Tensor, *, seed: int = 0) -> Tensor:  # noqa: ARG001
    """Logistic regression on the majority alone, tuned as one would without the votes: by the NLL of the majority."""
    folds = baseline_folds(shares, seed)
    return tuned_logistic(x, majority_target(shares), folds).log_probs(others)


def baseline_folds(shares: Tensor, seed: int) -> list[Tensor]:
    """The folds of the baselines' own cross-validation: five, or as many as there are items."""
    strata = majority_target(shares).argmax(1)
    return stratified_folds(strata, max(2, min(FOLDS, len(shares))), seed, "baselines")


BASELINES: dict[str, Baseline] = {
    "class_prior": prior_baseline,
    "votes_logistic": votes_baseline,
    "majority_logistic": majority_baseline,
}
"""By the name they have in scores and reports."""
