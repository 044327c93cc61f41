import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.training.splits import Folds, Holdout

STRATA = torch.arange(1000) % 10


@given(st.lists(st.integers(0, 4), min_size=4, max_size=80), st.floats(0.05, 0.95), st.integers(0, 9))
def test_a_holdout_parts_all_items_and_takes_its_share_of_every_stratum(labels, fraction, seed):
    counts = np.bincount(labels)
    strata = torch.tensor(labels)
    if counts.max() < 2:
        return
    train, held = Holdout(fraction).split(strata, seed)
    assert sorted(train.tolist() + held.tolist()) == list(range(len(labels)))
    for stratum, size in enumerate(counts):
        taken = int((strata[held] == stratum).sum())
        assert taken == 0 if size < 2 else 1 <= taken <= size - 1
        if size >= 2:
            assert abs(taken - fraction * size) <= 1


def test_a_fifth_of_ten_classes_is_the_same_number_of_each():
    _, held = Holdout(0.2).split(STRATA, seed=3)
    assert torch.bincount(STRATA[held]).tolist() == [20] * 10


def test_seeds_and_purposes_redraw_the_holdout_and_nothing_else_does():
    held = Holdout().split(STRATA, 0).held_out
    assert torch.equal(held, Holdout().split(STRATA, 0).held_out)
    assert not torch.equal(held, Holdout().split(STRATA, 1).held_out)
    assert not torch.equal(held, Holdout().split(STRATA, 0, "validation").held_out)


def test_folds_hold_out_every_item_once_in_equal_parts_whatever_the_seed():
    held = [Folds(10, fold).split(STRATA, seed=fold).held_out for fold in range(10)]
    assert sorted(torch.cat(held).tolist()) == list(range(1000))
    assert all(torch.bincount(STRATA[part]).tolist() == [10] * 10 for part in held)
    assert torch.equal(held[2], Folds(10, 2).split(STRATA, seed=77).held_out)


def test_items_too_few_to_split_are_refused():
    with pytest.raises(InputError, match="too few"):
        Holdout().split(torch.tensor([0, 1, 2]), 0)
    with pytest.raises(InputError, match="between 0 and 1"):
        Holdout(1.5)


def test_a_fixed_holdout_is_the_draw_of_its_own_seed_whatever_the_run():
    labels = torch.arange(50) % 5
    fixed = [Holdout(0.2, fixed=3).split(labels, seed).held_out.tolist() for seed in (0, 1, 2)]
    assert fixed == [Holdout(0.2).split(labels, 3).held_out.tolist()] * 3
