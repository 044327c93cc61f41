"""Small crowds for tests: strategies that make votes of every awkward shape."""

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dissensus.datasets.data import Data
from dissensus.votes.votes import Votes


@st.composite
def counts(draw, max_items=8, max_classes=5, max_votes=6):
    """Count matrices in which every item has at least one vote."""
    shape = draw(st.tuples(st.integers(1, max_items), st.integers(1, max_classes)))
    matrix = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, max_votes)))
    favourite = draw(hnp.arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    matrix[np.arange(shape[0]), favourite] += 1
    return matrix


def crowd(items=60, classes=4, votes=12, seed=0, annotators=9, images=False):
    """Data with annotators, gold and inputs; the votes lean to the gold label."""
    rng = np.random.default_rng(seed)
    gold = np.arange(items) % classes
    probs = rng.dirichlet(np.full(classes, 0.5), items) * 0.5 + 0.5 * np.eye(classes)[gold]
    people = np.stack([rng.permutation(annotators * 2)[:votes] % annotators for _ in range(items)])
    label = np.stack([rng.choice(classes, votes, p=p) for p in probs])
    table = Votes(
        item=np.repeat(np.arange(items), votes),
        label=label.ravel(),
        items=tuple(f"item{i}" for i in range(items)),
        classes=tuple(f"class{c}" for c in range(classes)),
        annotator=people.ravel(),
        annotators=tuple(f"person{a}" for a in range(annotators)),
    )
    x = torch.from_numpy(rng.normal(size=(items, 5)) + 2 * np.eye(5)[gold % 5]).float()
    if images:
        x = torch.from_numpy(rng.integers(0, 256, (items, 1, 8, 8), dtype=np.uint8))
    return Data.of_votes(table, x=x, gold=torch.from_numpy(gold), name="crowd")
