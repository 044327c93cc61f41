"""cifar10h_hard: 1,103 images of CIFAR-10H, spread over the range of vote entropy.

Singh, Tiwari, Hasanbeig & Gupta ("Soft-Label Training Preserves Epistemic Uncertainty", 2025) draw "with 10 entropy bins
and up to 200 samples per bin". Ten half-open bins of equal width over [0, the largest entropy] and 200 images per bin
give exactly their 1,103: the single most disputed image lies on the upper end, in no bin, and is left out. Which images
are drawn from the four fullest bins depends on the seed.

"Hard" labels are the majority vote in that paper, so there is no gold here: `cifar10h` has the CIFAR labels of the same
images.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.special import entr

from dissensus import random
from dissensus.datasets import cifar10h
from dissensus.datasets.catalogue import Entry
from dissensus.datasets.data import Data
from dissensus.votes.votes import Floats, Ints

BINS = 10
MOST = 200  # images per bin


def load(seed: int = 0, root: Path | None = None) -> Data:
    """Images and votes of the subset that this seed draws, in the order of CIFAR-10."""
    whole = cifar10h.load(root=root)
    assert whole.votes is not None
    assert whole.x is not None
    rows = spread(entr(whole.votes.soft).sum(1), seed)
    return replace(
        whole,
        name="cifar10h_hard",
        ids=tuple(whole.ids[row] for row in rows),
        x=whole.x[torch.from_numpy(rows)],
        votes=whole.votes.subset(rows),
        gold=None,
    )


def spread(entropy: Floats, seed: int) -> Ints:
    """Rows, ascending: at most `MOST` of each of `BINS` bins, by a draw that is keyed by the row."""
    bins = np.floor(entropy / entropy.max() * BINS)
    lot = random.uniform(seed, "subsample", "cifar10h_hard", rows=np.arange(len(entropy)))
    chosen = [members[np.argsort(lot[members])][:MOST] for members in (np.flatnonzero(bins == b) for b in range(BINS))]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


ENTRY = Entry(
    name="cifar10h_hard",
    description="CIFAR-10H-Hard: 1,103 images spread over the range of vote entropy (Singh et al. 2025)",
    licence=cifar10h.ENTRY.licence,
    source=cifar10h.ENTRY.source,
    load=load,
    sizes=cifar10h.sizes,
    remotes=cifar10h.ENTRY.remotes,
)
