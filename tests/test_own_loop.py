import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset

import dissensus
from crowds import crowd
from dissensus import DeliveredDataset, multipass, sampled, soft
from dissensus.errors import InputError
from dissensus.labels import Empirical, Multipass, Sampled, Smoothed, Soft
from dissensus.votes.votes import Votes

MAKERS = {"soft": soft, "sampled": sampled, "multipass": multipass}
OPTIONS = {"soft": {}, "sampled": {"seed": 3, "every": 2}, "multipass": {"seed": 3}}
MEMBERS = {"soft": Soft(), "sampled": Sampled(2), "multipass": Multipass()}


def made(name, votes, **more):
    return MAKERS[name](votes, **OPTIONS[name], **more)


@pytest.mark.parametrize("name", MAKERS)
def test_labels_in_an_own_loop_are_those_of_a_recipe(name):
    data = crowd()
    ours = made(name, data.votes)
    target = Empirical().target(data, torch.arange(len(data)), seed=3)
    theirs = MEMBERS[name].labels(target, OPTIONS[name].get("seed", 0))
    for epoch in (0, 1, 2, 17):
        assert torch.equal(ours(epoch), theirs(epoch))


@pytest.mark.parametrize("name", MAKERS)
def test_votes_data_and_counts_give_the_same_labels(name):
    data = crowd()
    of_votes = made(name, data.votes)
    for same in (data, data.votes.counts, torch.from_numpy(data.votes.counts.copy())):
        assert torch.equal(made(name, same)(5), of_votes(5))


def test_shares_can_be_delivered_in_every_way_that_needs_no_votes():
    shares = crowd().votes.soft
    assert torch.equal(soft(shares)(0), torch.from_numpy(shares.copy()).float())
    assert torch.equal(sampled(shares, seed=1)(4), sampled(crowd().votes, seed=1)(4))
    with pytest.raises(InputError, match="`sampled`"):
        multipass(shares)


@pytest.mark.parametrize("name", MAKERS)
def test_some_rows_get_the_labels_that_they_have_among_all(name):
    votes, rows = crowd().votes, np.array([40, 3, 17])
    assert torch.equal(made(name, votes, rows=rows)(6), made(name, votes)(6)[rows])
    mask = np.isin(np.arange(60), rows)
    assert torch.equal(made(name, votes, rows=mask)(6), made(name, votes)(6)[np.sort(rows)])


def test_a_target_is_chosen_by_name_or_with_options():
    data = crowd()
    by_name, with_options = soft(data.votes, target="smoothed")(0), soft(data.votes, target=Smoothed(eps=0.4))(0)
    assert by_name.min() == pytest.approx(0.1 / 4)
    assert with_options.min() == pytest.approx(0.4 / 4)
    gold = soft(data.votes, target="gold", gold=data.gold)(0)
    assert torch.equal(gold.argmax(1), data.gold)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda votes: soft(votes, target="telepathy"), "'telepathy' is not one of empirical"),
        (lambda votes: soft(votes, target="gold"), "no gold labels"),
        (lambda votes: soft(votes, target="teacher"), "probabilities in place of the votes"),
        (lambda votes: multipass(votes, target="majority"), "`sampled`"),
        (lambda votes: sampled(votes, every=0), "cannot be held 0 epochs"),
        (lambda votes: sampled(votes, rows=[60]), "outside 0…59"),
        (lambda votes: sampled(votes, rows=[0.5]), "row numbers, or a mask"),
        (lambda votes: soft([[0.5, 0.2]]), "is not a count"),
        (lambda votes: soft(crowd(), gold=[0] * 60), "of their own"),
        (lambda votes: DeliveredDataset(range(59), soft(votes)), "59 items in the dataset, and labels for 60"),
        (lambda votes: DeliveredDataset(range(60), soft(votes)).set_epoch(-1), "no epoch -1"),
        (lambda votes: DeliveredDataset([(1, 2, 3)] * 60, soft(votes))[0], "not clear which is the label"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_once(call, message):
    with pytest.raises(InputError, match=message):
        call(crowd().votes)


@pytest.mark.parametrize("name", MAKERS)
def test_labels_survive_pickling_in_the_middle_of_training(name):
    labels = made(name, crowd().votes)
    labels(1)
    assert torch.equal(pickle.loads(pickle.dumps(labels))(9), labels(9))
    assert len(labels) == 60


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (7, (7, 1)),
        ((7,), (7, 1)),
        ((7, "old"), (7, 1)),
        ([7, "old"], (7, 1)),
        ({"x": 7}, {"x": 7, "labels": 1}),
        ({"x": 7, "labels": 0}, {"x": 7, "labels": 1}),
    ],
)
def test_an_item_gets_its_label_whatever_it_is(item, expected):
    dataset = DeliveredDataset([item], multipass(Votes.from_counts([[0, 4]])))
    assert dataset[0] == expected
    own = DeliveredDataset([item], dataset.labels, combine=lambda item, label: (int(label), item))
    assert own[0] == (1, item)


def numbered(n=60):
    """A dataset whose inputs are the row numbers."""
    return TensorDataset(torch.arange(n), torch.full((n,), -1))


def seen(loader):
    rows, labels = zip(*loader, strict=True)
    return torch.cat(labels)[torch.cat(rows).argsort()]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine with one core
@pytest.mark.parametrize(
    ("workers", "options"),
    [(0, {}), (2, {"persistent_workers": True}), (1, {"persistent_workers": True, "multiprocessing_context": "spawn"})],
    ids=["no workers", "persistent workers", "spawned workers"],
)
def test_a_data_loader_gives_the_labels_of_the_epoch_that_was_set(workers, options):
    labels = multipass(crowd().votes, seed=1)
    dataset = DeliveredDataset(numbered(), labels)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=workers, **options)
    for epoch in (0, 1, 5):
        dataset.set_epoch(epoch)
        assert torch.equal(seen(loader), labels(epoch))
    assert dataset.epoch == 5


def test_a_subset_of_the_data_is_delivered_with_the_rows_of_the_subset():
    votes, rows = crowd().votes, [5, 50, 7]
    dataset = DeliveredDataset(Subset(numbered(), rows), multipass(votes, rows=rows))
    dataset.set_epoch(4)
    whole = multipass(votes)(4)
    assert [(int(x), int(label)) for x, label in dataset] == [(row, int(whole[row])) for row in rows]
    assert [int(x) for x, _ in dataset.__getitems__([2, 0])] == [7, 5]


def test_labels_of_an_epoch_are_made_once_and_not_once_per_item():
    asked = []

    def labels(epoch):
        asked.append(epoch)
        return torch.arange(4) + epoch

    dataset = DeliveredDataset(range(4), labels)
    asked.clear()
    for epoch in (0, 2):
        dataset.set_epoch(epoch)
        assert [int(label) for _, label in dataset] == [epoch, epoch + 1, epoch + 2, epoch + 3]
    assert asked == [0, 2]


def test_the_three_lines_are_public():
    assert {"soft", "sampled", "multipass", "DeliveredDataset"} <= set(dissensus.__all__)
