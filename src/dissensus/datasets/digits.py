"""digits: 1,797 real handwritten digits, 8×8, with a simulated crowd whose probabilities are all known.

The images are those in scikit-learn (the test part of the UCI set Optical Recognition of Handwritten Digits). The crowd
is simulated. No annotator sees an image clearly: its upper two rows are covered (an open 4 then looks like a 9) and the
rest is blurred. What that view shows is the leave-one-out posterior of a kernel classifier, so no method under test is of
the family that made the labels. Each annotator flattens it by a temperature of their own, and sometimes names a
similar digit instead, with a habit of their own. `truth` is the mean over the pool, from which each item's annotators are
drawn uniformly without replacement: exactly the distribution of a single vote.

The result has the same bits on every machine, as far as possible: views and distances are whole numbers, each annotator's
distribution is rounded to multiples of 2⁻²⁰, and everything after that is exact. Only a last-bit difference in `exp` or
in a sum right at a rounding edge could move a probability by 10⁻⁶: by chance on one of some hundreds of machines.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from dissensus import random
from dissensus.datasets.catalogue import Entry
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.votes.votes import Floats, Ints, Votes, row_names

ITEMS = 1797
CLASSES = tuple("0123456789")
ANNOTATORS = 200
CROWD = 0  # the seed of the crowd: another crowd would be another data set
COVERED_ROWS = 2
BANDWIDTH = 36.0  # the median distance to the nearest neighbour in the view is 83
TEMPERATURES = (1.0, 2.2)
MOST_SLIPS = 0.03  # the share of slips of the least careful annotator
GRID = 2**20

NOTE = (
    "The images are real, the crowd is simulated: every vote is drawn from a known distribution, "
    "so scores on these data say how methods compare, not how people see."
)


@lru_cache(maxsize=4)
def load(votes: int = 50) -> Data:
    """The data, with this many votes per item from different annotators; fewer votes are the first of more."""
    if not 1 <= votes <= ANNOTATORS:
        raise InputError(
            f"{votes} votes per item are not possible", where="digits", hint=f"Ask for 1 to {ANNOTATORS}", state=""
        )
    images, gold = _images()
    units = _crowd()
    lot = random.uniform(CROWD, "subsample", "digits", "who", rows=np.arange(ITEMS * ANNOTATORS))
    who = lot.reshape(ITEMS, ANNOTATORS).argsort(1, kind="stable")[:, :votes].ravel()
    item = np.repeat(np.arange(ITEMS), votes)
    point = random.uniform(CROWD, "subsample", "digits", "vote", rows=item * ANNOTATORS + who)
    label = (units[who, item].cumsum(1) <= np.floor(point * GRID)[:, None]).sum(1)
    people = tuple(f"annotator {number}" for number in range(ANNOTATORS))
    return Data(
        name="digits",
        classes=CLASSES,
        ids=row_names(ITEMS),
        x=torch.from_numpy((images * 255 + 8) // 16).to(torch.uint8)[:, None],  # 0…16 to 0…255
        votes=Votes(item, label, row_names(ITEMS), CLASSES, who, people),
        gold=torch.from_numpy(gold),
        truth=torch.from_numpy(units.sum(0) / (ANNOTATORS * GRID)),
        notes=(NOTE,),
    )


def _images() -> tuple[Ints, Ints]:
    """Pixels 0…16 [N, 8, 8], and the digits."""
    from sklearn.datasets import load_digits  # here, because it takes longer to import than all of this takes to run

    bunch = load_digits()
    return bunch.images.astype(np.int64), bunch.target.astype(np.int64)


@lru_cache(maxsize=1)
def _crowd() -> Ints:
    """The distribution of each annotator's vote on each item [A, N, K], in units of 1 / GRID; rows sum to GRID."""
    images, gold = _images()
    seen = _posterior(_view(images), gold)
    person = np.arange(ANNOTATORS)
    cool, warm = TEMPERATURES
    temperature = cool + (warm - cool) * random.uniform(CROWD, "subsample", "digits", "temperature", rows=person)
    slips = MOST_SLIPS * random.uniform(CROWD, "subsample", "digits", "slips", rows=person) ** 2
    habits = _look_alikes(seen, gold)
    identity = np.eye(len(CLASSES))
    units = np.empty((ANNOTATORS, ITEMS, len(CLASSES)), dtype=np.int64)
    for a in person:
        tempered = seen ** (1 / temperature[a])
        tempered /= tempered.sum(1, keepdims=True)
        confusion = (1 - slips[a]) * identity + slips[a] * identity[habits[a]]  # [perceived, said]
        units[a] = _on_grid(tempered @ confusion)
    return units


def _view(images: Ints) -> Floats:
    """What annotators see: the upper rows covered, the rest blurred by (1 2 1) both ways; whole numbers [N, 64]."""
    covered = images.copy()
    covered[:, :COVERED_ROWS] = 0
    padded = np.pad(covered, ((0, 0), (1, 1), (1, 1)))
    down = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    blurred = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return np.asarray(blurred.reshape(len(images), -1), dtype=np.float64)


def _posterior(view: Floats, gold: Ints) -> Floats:
    """Leave-one-out Nadaraya–Watson [N, K]: the share of each class among all other items, by Gaussian kernel weight."""
    norms = (view**2).sum(1)
    # Exact in whatever order BLAS adds: all are whole numbers below 2⁵³.
    distance = norms[:, None] + norms - 2 * view @ view.T
    np.fill_diagonal(distance, np.inf)
    weight = np.exp((distance.min(1, keepdims=True) - distance) / (2 * BANDWIDTH**2))
    of_class = weight @ np.eye(len(CLASSES))[gold]
    shares: Floats = of_class / of_class.sum(1, keepdims=True)
    return shares


def _look_alikes(seen: Floats, gold: Ints) -> Ints:
    """The digit that each annotator slips to from each digit [A, K], drawn by how often the view confuses the two."""
    classes = len(CLASSES)
    mean = np.stack([seen[gold == digit].mean(0) for digit in range(classes)])
    confusable = mean + mean.T
    np.fill_diagonal(confusable, 0)
    reached = (confusable / confusable.sum(1, keepdims=True)).cumsum(1)
    draws = random.uniform(CROWD, "subsample", "digits", "habits", rows=np.arange(ANNOTATORS * classes))
    habits = (reached[None] <= draws.reshape(ANNOTATORS, classes, 1)).sum(2)
    return np.asarray(np.minimum(habits, classes - 1), dtype=np.int64)


def _on_grid(probs: Floats) -> Ints:
    """Probabilities as whole units of 1 / GRID, rounded down; the likeliest class takes what is left over."""
    units = np.floor(probs * GRID).astype(np.int64)
    units[np.arange(len(units)), units.argmax(1)] += GRID - units.sum(1)
    return units


ENTRY = Entry(
    name="digits",
    description="1,797 handwritten digits, 8×8, with a simulated crowd whose true distribution is known",
    licence="images: those inside scikit-learn, cite Alpaydin & Kaynak (UCI, 1998); the crowd is part of dissensus",
    source="https://archive.ics.uci.edu/dataset/80",
    load=load,
    sizes=lambda _: {"images": (ITEMS, ITEMS)},
)
