import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crowds import counts, crowd
from dissensus.errors import InputError
from dissensus.labels.delivery import DELIVERIES, Multipass, Sampled, Soft, invert_cdf
from dissensus.labels.targets import Empirical, Target

MEMBERS = [Soft(), Sampled(), Sampled(every=3), Multipass(), Multipass(seed_offset=1000)]


def target_of(matrix, rows=None):
    counted = torch.from_numpy(np.asarray(matrix, dtype=np.int64))
    rows = torch.arange(len(counted)) if rows is None else rows
    return Target(counted / counted.sum(1, keepdim=True).double(), rows, counted)


def shown(labels, classes):
    return labels if labels.ndim == 2 else torch.nn.functional.one_hot(labels, classes).float()


def test_every_delivery_of_the_package_is_under_test():
    assert {type(member) for member in MEMBERS} == set(DELIVERIES.values())


@pytest.mark.parametrize("delivery", MEMBERS)
def test_over_many_epochs_each_item_is_shown_what_its_annotators_said(delivery):
    target = Empirical().target(crowd(items=40, votes=12), torch.arange(40), seed=0)
    epochs = 1200
    labels = delivery.labels(target, seed=5)
    mean = sum(shown(labels(epoch), 4) for epoch in range(epochs)) / epochs
    draws = epochs / (delivery.every if isinstance(delivery, Sampled) else 1)
    exact = not isinstance(delivery, Sampled)
    tolerance = 1e-5 if exact else 4.5 * np.sqrt(0.25 / draws)  # 4.5 standard errors, for 160 cells
    assert (mean - target.probs).abs().max() < tolerance


@pytest.mark.parametrize("delivery", MEMBERS)
@given(counts(), st.integers(0, 100), st.integers(0, 200))
@settings(max_examples=25)
def test_every_epoch_has_one_label_an_item_that_somebody_chose(delivery, matrix, seed, epoch):
    labels = delivery.labels(target_of(matrix), seed)(epoch)
    assert len(labels) == len(matrix)
    if labels.ndim == 1:
        assert (matrix[np.arange(len(matrix)), labels.numpy()] > 0).all()


@pytest.mark.parametrize("delivery", MEMBERS)
@given(counts(), st.integers(0, 60))
@settings(max_examples=25)
def test_the_labels_are_the_same_after_any_resume_point(delivery, matrix, resume):
    target = target_of(matrix)
    unbroken = delivery.labels(target, seed=3)
    before = [unbroken(epoch) for epoch in range(resume)]
    resumed = delivery.labels(target, seed=3)
    assert torch.equal(resumed(resume), unbroken(resume))
    assert all(torch.equal(resumed(epoch), label) for epoch, label in enumerate(before))


@pytest.mark.parametrize("delivery", MEMBERS)
def test_a_subset_of_the_items_in_another_order_gets_the_same_labels(delivery):
    data = crowd()
    whole = Empirical().target(data, torch.arange(60), seed=0)
    rows = torch.tensor([31, 4, 59, 0])
    part = Empirical().target(data, rows, seed=0)
    for epoch in (0, 1, 17):
        assert torch.equal(delivery.labels(part, 9)(epoch), delivery.labels(whole, 9)(epoch)[rows])


@given(counts(max_votes=4), st.integers(0, 50))
@settings(max_examples=50)
def test_multipass_shows_every_vote_exactly_once_in_each_cycle(matrix, seed):
    labels = Multipass().labels(target_of(matrix), seed)
    votes = matrix.sum(1)
    for item in range(len(matrix)):
        for cycle in range(2):
            epochs = range(cycle * votes[item], (cycle + 1) * votes[item])
            seen = np.bincount([int(labels(epoch)[item]) for epoch in epochs], minlength=matrix.shape[1])
            assert (seen == matrix[item]).all()


def test_the_deterministic_control_is_multipass_in_another_order():
    target = Empirical().target(crowd(), torch.arange(60), seed=0)
    one, control = Multipass().labels(target, 2), Multipass(seed_offset=1000).labels(target, 2)
    assert any(not torch.equal(one(epoch), control(epoch)) for epoch in range(12))
    assert all(torch.equal(control(epoch), Multipass().labels(target, 1002)(epoch)) for epoch in range(12))


def test_held_labels_change_only_at_multiples_of_the_holding_time():
    target = Empirical().target(crowd(), torch.arange(60), seed=0)
    labels = Sampled(every=5).labels(target, 0)
    changed = [not torch.equal(labels(epoch), labels(epoch + 1)) for epoch in range(30)]
    assert changed == [(epoch + 1) % 5 == 0 for epoch in range(30)]


def test_holding_labels_for_no_epoch_is_refused():
    with pytest.raises(InputError, match="at least 1"):
        Sampled(every=0)


def test_multipass_without_votes_names_sampled_as_the_way():
    target = target_of([[1, 1]])
    with pytest.raises(InputError, match="`sampled`"):
        Multipass().labels(Target(target.probs, target.rows, None), 0)


@given(counts(), st.floats(0, 1, exclude_max=True))
def test_inverting_the_cdf_agrees_with_a_loop_and_never_gives_an_impossible_class(matrix, u):
    probs = matrix / matrix.sum(1, keepdims=True)
    fast = invert_cdf(probs.cumsum(1), np.full(len(probs), u))
    for row, label in zip(probs, fast, strict=True):
        assert row[label] > 0
        slow = next(k for k in range(len(row)) if row.cumsum()[k] > u * row.cumsum()[-1])
        assert label == slow
