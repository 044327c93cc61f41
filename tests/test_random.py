import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissensus import random


def test_no_two_purposes_share_a_stream():
    firsts = [torch.rand(4, generator=random.generator(7, purpose)).tolist() for purpose in random.PURPOSES]
    assert all(a != b for a, b in itertools.combinations(firsts, 2))


def test_seed_and_place_both_choose_the_stream():
    keys = {random.key(seed, "order", epoch) for seed in range(20) for epoch in range(20)}
    assert len(keys) == 400
    assert random.key(0, "order", 1) != random.key(0, "order", "1")


def test_an_unknown_purpose_is_refused():
    with pytest.raises(ValueError, match="unknown purpose 'luck'"):
        random.key(0, "luck")


@given(st.permutations(range(50)), st.integers(0, 2**31))
def test_a_rows_draw_does_not_depend_on_the_other_rows_or_their_order(rows, seed):
    whole = random.uniform(seed, "deliver", 3, rows=np.arange(50))
    assert (random.uniform(seed, "deliver", 3, rows=np.array(rows)) == whole[rows]).all()


def test_uniform_draws_are_uniform_and_uncorrelated_between_epochs_and_neighbours():
    draws = np.stack([random.uniform(0, "deliver", epoch, rows=np.arange(20_000)) for epoch in range(20)])
    assert draws.min() >= 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, bins=100, range=(0, 1))
    assert ((counts - 4_000) ** 2 / 4_000).sum() < 160  # chi-square of 99 degrees of freedom: p about 1e-4
    between_epochs = np.corrcoef(draws)[np.triu_indices(20, 1)]
    between_rows = np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]
    assert np.abs(between_epochs).max() < 0.03
    assert abs(between_rows) < 0.01


def test_a_seeded_block_leaves_the_global_generator_as_it_was():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with random.seeded(5, "init"):
        inside = torch.rand(3)
    assert (torch.rand(3) == expected).all()
    with random.seeded(5, "init"):
        assert (torch.rand(3) == inside).all()
