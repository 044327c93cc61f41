"""How much an item counts in training, by how many people voted on it.

The shares of a hundred votes say more about an item than one vote does, but not a hundred times as much where people
agree on what the features do not show: then a second vote mostly repeats the first. `repetition` measures that (the
extra-binomial variation of Williams 1982), and each item counts by what its votes are worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dissensus.training.logistic import PENALTIES, class_prior, search_penalty
from dissensus.training.selection.lesson import Lesson

ALIKE = 0.98  # of the items' worth under their best weights: where equal weights keep so much, all items count the same
COARSE = PENALTIES[::4]  # one to a decade: a prediction that is nearly the best is enough to measure by


def vote_weights(lesson: Lesson, folds: Sequence[Tensor]) -> Tensor | None:
    """Weights float64 [N] that belong to the numbers of votes, times those that the user gave; None where all are equal.

    Only where the target is the shares of counted votes: nothing else says how well it is known.
    """
    counts = lesson.target(torch.arange(len(lesson.data))).counts
    if counts is None or not folds:
        return lesson.weights
    votes, given = counts.sum(1).double(), lesson.weights
    if equally_good(votes):  # so are all weights between these and equal ones
        return given
    base = 1.0 if given is None else given
    prior = class_prior(lesson.data.people, given).exp().expand(len(votes), -1)
    guess = votes_worth(votes, repetition(counts, prior))
    search = search_penalty(lesson.x, lesson.data.people, folds, weights=guess * base, penalties=COARSE)
    worth = votes_worth(votes, repetition(counts, search.log_probs[search.best].exp()))
    return given if equally_good(worth) else worth * base


def votes_worth(votes: Tensor, repeated: float) -> Tensor:
    """How many independent votes those of each item [N] are worth: all of them, or one where each repeats the first.

    >>> votes = torch.tensor([1.0, 9.0])
    >>> [votes_worth(votes, repeated).tolist() for repeated in (0.0, 0.25, 1.0)]
    [[1.0, 9.0], [1.0, 3.0], [1.0, 1.0]]
    """
    return votes / (1 + (votes - 1) * repeated)


def repetition(counts: Tensor, probs: Tensor) -> float:
    """The correlation of two votes on the same item, given predictions [N, K] that have not seen them; from 0 to 1.

    The squared distance between an item's shares and what is predicted is v (1 + (m - 1) r) / m on average, for m votes
    of variance v each.

    >>> probs = torch.full((4, 2), 0.5)
    >>> repetition(torch.tensor([[2, 0], [1, 1], [1, 1], [0, 2]]), probs)  # as coins fall
    0.0
    >>> repetition(torch.tensor([[2, 0], [2, 0], [0, 2], [0, 2]]), probs)
    1.0
    """
    votes = counts.sum(1).double()
    variance = (probs * (1 - probs)).sum(1)
    distance = (counts / votes[:, None] - probs).square().sum(1)
    expected = ((votes - 1) * variance).sum()
    return float(((votes * distance - variance).sum() / expected).clamp(0, 1)) if float(expected) > 0 else 1.0


def equally_good(worth: Tensor) -> bool:
    """Whether equal weights are nearly as good as these: the variance of a mean has nearly its least value.

    >>> equally_good(torch.tensor([50.0, 52.0, 60.0])), equally_good(torch.tensor([1.0, 100.0]))
    (True, False)
    """
    return float(len(worth) ** 2 / (worth.sum() * (1 / worth).sum())) > ALIKE
