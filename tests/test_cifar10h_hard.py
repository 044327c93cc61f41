"""CIFAR-10H-Hard: 002's rule on small files written here, and its 1,103 images where the real ones are."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import entr

from dissensus import datasets
from dissensus.datasets import cifar10h, cifar10h_hard
from dissensus.errors import InputError


def write(root: Path, counts: np.ndarray) -> np.ndarray:
    records = np.random.default_rng(0).integers(0, 256, (len(counts), 3073), dtype=np.uint8)
    records[:, 0] %= 10
    (root / "cifar-10-batches-bin").mkdir()
    (root / "cifar10h").mkdir()
    records.tofile(root / "cifar-10-batches-bin" / "test_batch.bin")
    np.save(root / "cifar10h" / "cifar10h-counts.npy", counts)
    return records


def crowd(n: int) -> np.ndarray:
    """Counts of 50 votes over two classes, from unanimous to even."""
    second = np.arange(n) % 26
    return np.stack([50 - second, second, *np.zeros((8, n), int)], axis=1)


def test_images_and_votes_are_those_of_cifar10h_under_the_same_ids(tmp_path):
    write(tmp_path, crowd(300))
    whole, hard = datasets.load("cifar10h", root=tmp_path), datasets.load("cifar10h_hard", root=tmp_path)
    rows = torch.tensor([whole.ids.index(name) for name in hard.ids])
    assert torch.equal(hard.x, whole.x[rows])
    np.testing.assert_array_equal(hard.votes.counts, whole.votes.counts[rows])
    assert rows.tolist() == sorted(rows.tolist())
    assert not hard.has_gold  # hard is the majority in 002
    assert hard.name == "cifar10h_hard"


def test_at_most_200_a_bin_of_equal_width_are_kept_and_the_upper_end_is_in_no_bin():
    entropy = np.concatenate([np.zeros(1000), np.linspace(0.31, 0.39, 50), np.linspace(0.91, 0.99, 300), [1.0]])
    rows = cifar10h_hard.spread(entropy, seed=0)
    kept = np.histogram(entropy[rows], bins=np.linspace(0, 1, 11))[0]
    assert kept.tolist() == [200, 0, 0, 50, 0, 0, 0, 0, 0, 200]
    assert entropy[rows].max() < 1.0


def test_the_seed_decides_which_and_nothing_else():
    entropy = np.concatenate([np.zeros(1000), np.full(100, 0.5), [1.0]])
    first, again, other = (set(cifar10h_hard.spread(entropy, seed).tolist()) for seed in (0, 0, 1))
    assert first == again != other
    assert {row for row in first if row >= 1000} == {row for row in other if row >= 1000}


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path):
    with pytest.raises(InputError, match="dissensus data get cifar10h"):
        datasets.load("cifar10h_hard", root=tmp_path)


HERE = "DISSENSUS_DATA" in os.environ and all(n == 10_000 for n, _ in cifar10h.sizes(datasets.data_root()).values())


@pytest.mark.skipif(not HERE, reason="DISSENSUS_DATA names no folder with all of cifar10h")
@pytest.mark.parametrize("seed", [0, 1])
def test_exactly_the_papers_1103_images_remain(seed):
    data = datasets.load("cifar10h_hard", seed=seed)
    normalised = entr(data.votes.soft).sum(1) / math.log(10)
    assert len(data) == 1_103
    assert normalised.mean() == pytest.approx(0.24, abs=0.005)  # 002, table 1
    assert normalised.std(ddof=1) == pytest.approx(0.16, abs=0.005)
    whole = datasets.load("cifar10h")
    most_disputed = whole.ids[int(entr(whole.votes.soft).sum(1).argmax())]
    assert most_disputed not in data.ids
