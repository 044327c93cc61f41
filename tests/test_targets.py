from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from crowds import counts, crowd
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.labels.targets import (
    TARGETS,
    ClassMean,
    DawidSkene,
    Dirichlet,
    Empirical,
    Gold,
    Majority,
    Shuffled,
    Smoothed,
    Teacher,
    ties,
)
from dissensus.store.encoding import decode, encode
from dissensus.votes.votes import Votes


def data_of(matrix, gold=None):
    return Data.of_votes(Votes.from_counts(matrix), gold=None if gold is None else torch.tensor(gold))


@given(counts())
def test_the_empirical_target_is_the_share_of_votes_and_keeps_the_counts(matrix):
    target = Empirical().target(data_of(matrix), torch.arange(len(matrix)), seed=0)
    assert np.allclose(target.probs.numpy(), matrix / matrix.sum(1, keepdims=True))
    assert (target.counts.numpy() == matrix).all()


def test_a_tied_majority_goes_to_the_lowest_class_and_is_counted():
    data = data_of([[2, 2, 1], [0, 3, 3], [0, 1, 5]])
    rows = torch.arange(3)
    assert Majority().target(data, rows, seed=0).probs.argmax(1).tolist() == [0, 1, 2]
    assert ties(data, rows) == 2


def test_smoothing_moves_eps_of_the_majority_to_all_classes_alike():
    probs = Smoothed(0.1).target(data_of([[0, 3, 1, 0]]), torch.arange(1), seed=0).probs
    assert torch.allclose(probs, torch.tensor([[0.025, 0.925, 0.025, 0.025]], dtype=torch.float64))


def test_class_means_come_from_the_given_rows_of_the_gold_class_alone():
    data = data_of([[4, 0], [2, 2], [0, 4], [1, 3]], gold=[0, 0, 1, 1])
    probs = ClassMean().target(data, torch.tensor([0, 1, 2]), seed=0).probs
    assert torch.allclose(probs, torch.tensor([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]], dtype=torch.float64))


def test_shrinkage_vanishes_with_many_votes_and_is_the_class_mean_with_a_strong_prior():
    data = data_of(np.array([[3000, 1000], [1000, 3000], [4000, 0]]))
    rows = torch.arange(3)
    weak, strong = Dirichlet(1e-6).target(data, rows, seed=0).probs, Dirichlet(1e12).target(data, rows, seed=0).probs
    assert torch.allclose(weak, data.people, atol=1e-6)
    assert torch.allclose(strong, ClassMean().target(data, rows, seed=0).probs, atol=1e-6)


def test_shrinkage_never_looks_at_gold():
    matrix = [[2, 1], [1, 2], [3, 0]]
    rows = torch.arange(3)
    with_gold, without = data_of(matrix, gold=[1, 0, 1]), data_of(matrix)
    assert torch.equal(Dirichlet().target(with_gold, rows, seed=0).probs, Dirichlet().target(without, rows, seed=0).probs)


def test_dawid_skene_believes_the_reliable_annotators_more_than_a_crowd_of_guessers():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 300)
    good = np.where(rng.random((2, 300)) < 0.95, gold, rng.integers(0, 3, (2, 300)))
    guessers = rng.integers(0, 3, (5, 300))
    said = np.concatenate([good, guessers])
    votes = Votes(
        item=np.tile(np.arange(300), 7),
        label=said.ravel(),
        items=tuple(map(str, range(300))),
        classes=("a", "b", "c"),
        annotator=np.repeat(np.arange(7), 300),
        annotators=tuple("ABCDEFG"),
    )
    data, rows = Data.of_votes(votes), torch.arange(300)
    by_skill = (DawidSkene().target(data, rows, seed=0).probs.argmax(1).numpy() == gold).mean()
    by_count = (Majority().target(data, rows, seed=0).probs.argmax(1).numpy() == gold).mean()
    assert by_skill > 0.93
    assert by_skill > by_count + 0.05


def lopsided_crowd(items=1000, people=59, classes=8, seed=2):
    """Few votes per item, most of them by a few busy annotators of very different skill."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes, items)
    skill = rng.uniform(0.3, 0.9, people)
    confusion = skill[:, None, None] * np.eye(classes)
    confusion = confusion + (1 - skill)[:, None, None] * rng.dirichlet(np.full(classes, 0.5), (people, classes))
    busy = rng.dirichlet(np.full(people, 0.3)) + 1e-3
    who = [rng.choice(people, 1 + rng.poisson(1.5), replace=False, p=busy / busy.sum()) for _ in range(items)]
    item, annotator = np.repeat(np.arange(items), [len(voters) for voters in who]), np.concatenate(who)
    label = np.array([rng.choice(classes, p=confusion[a, gold[i]]) for i, a in zip(item, annotator, strict=True)])
    names = [tuple(map(str, range(n))) for n in (items, classes, people)]
    return Votes(item, label, names[0], names[1], annotator, names[2])


def test_dawid_skene_goes_on_until_it_has_converged():
    votes = lopsided_crowd()
    rows, data = torch.arange(1000), Data.of_votes(votes)
    converged = DawidSkene().target(data, rows, seed=0).probs.numpy()
    with pytest.warns(RuntimeWarning, match="has not converged"):
        after_long = DawidSkene(iterations=3000, tolerance=0).target(data, rows, seed=0).probs.numpy()
    with pytest.warns(RuntimeWarning, match="after 100 iterations: some probability still moves by"):
        after_100 = DawidSkene(iterations=100).target(data, rows, seed=0).probs.numpy()
    assert np.abs(converged - after_long).max() < 1e-4
    assert np.abs(after_100 - after_long).max() > 0.1
    assert (after_100.argmax(1) != after_long.argmax(1)).any()


def test_dawid_skene_agrees_with_a_loop_over_votes():
    data = crowd(items=12, classes=3, votes=4, annotators=5)
    votes, k = data.votes, 3
    posterior = votes.soft.copy()
    for _ in range(3):
        prior = posterior.mean(0)
        confusion = np.full((5, k, k), 0.01)  # [annotator, true, said]
        for i, a, y in zip(votes.item, votes.annotator, votes.label, strict=True):
            confusion[a, :, y] += posterior[i]
        confusion /= confusion.sum(2, keepdims=True)
        updated = np.tile(prior, (12, 1))
        for i, a, y in zip(votes.item, votes.annotator, votes.label, strict=True):
            updated[i] *= confusion[a, :, y]
        posterior = updated / updated.sum(1, keepdims=True)
    with pytest.warns(RuntimeWarning, match="has not converged after 3 iterations"):
        fast = DawidSkene(iterations=3, tolerance=0).target(data, torch.arange(12), seed=0).probs.numpy()
    assert np.allclose(fast, posterior, atol=1e-12)


def test_a_shuffled_target_has_the_same_rows_at_other_items_and_stays_in_the_training_split():
    data, rows = crowd(), torch.arange(0, 60, 2)
    plain, shuffled = Empirical().target(data, rows, seed=0), Shuffled(Empirical(), seed=1).target(data, rows, seed=0)
    assert (plain.probs != shuffled.probs).any()
    assert sorted(map(tuple, plain.counts.tolist())) == sorted(map(tuple, shuffled.counts.tolist()))
    assert torch.allclose(shuffled.probs, shuffled.counts / shuffled.counts.sum(1, keepdim=True).double())
    assert torch.equal(shuffled.rows, rows)


def test_an_ensemble_of_teachers_is_the_mean_of_their_probabilities():
    one, two = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    data, asked = data_of([[1, 0]]), {"seed": 0, "teachers": {"one": one, "two": two}}
    target = Teacher(("one", "two")).target(data, torch.arange(1), **asked)
    assert torch.allclose(target.probs, (one.double().softmax(1) + two.double().softmax(1)) / 2)
    hot = Teacher(("one",), temperature=1e6).target(data, torch.arange(1), **asked)
    assert torch.allclose(hot.probs, torch.full((1, 2), 0.5, dtype=torch.float64), atol=1e-5)


def test_a_teacher_whose_predictions_are_not_given_refuses():
    with pytest.raises(InputError, match="predictions of two are not given"):
        Teacher(("one", "two")).target(crowd(), torch.arange(4), seed=0, teachers={"one": torch.zeros(4, 4)})


def test_a_target_names_the_runs_it_needs_and_a_shuffled_one_those_of_its_inner_target():
    assert Teacher(("one", "two")).needed_runs == ("one", "two")
    assert Shuffled(Teacher(("one",))).needed_runs == ("one",)
    assert all(TARGETS[name]().needed_runs == () for name in TARGETS if name != "teacher")
    logits = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    asked = {"seed": 0, "teachers": {"one": logits}}
    rows = torch.arange(30)
    plain, shuffled = (
        rule.target(crowd(), rows, **asked).probs for rule in (Teacher(("one",)), Shuffled(Teacher(("one",))))
    )
    assert not torch.equal(plain, shuffled)
    assert sorted(plain.tolist()) == sorted(shuffled.tolist())


def test_a_shuffle_is_the_same_for_every_run_unless_it_has_the_seed_of_the_run():
    def drawn(rule, seed):
        return rule.target(crowd(), torch.arange(60), seed=seed).probs

    assert torch.equal(drawn(Shuffled(), 1), drawn(Shuffled(), 2))
    own = Shuffled(seed=None)
    assert not torch.equal(drawn(own, 1), drawn(own, 2))
    assert torch.equal(drawn(own, 5), drawn(Shuffled(seed=5), 1))
    assert encode(Shuffled()) == {"name": "shuffled", "inner": {"name": "empirical"}, "seed": 0}
    assert decode(encode(own), TARGETS) == own


def test_probabilities_can_stand_in_for_votes_where_counts_are_not_needed():
    probs = torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64)
    data = Data(name="given", classes=("a", "b"), ids=("1", "2"), probs=probs)
    target = Empirical().target(data, torch.arange(2), seed=0)
    assert torch.equal(target.probs, probs)
    assert target.counts is None
    with pytest.raises(InputError, match="number of votes per item"):
        Dirichlet().target(data, torch.arange(2), seed=0)
    with pytest.raises(InputError, match="who cast each vote"):
        DawidSkene().target(data, torch.arange(2), seed=0)
    with pytest.raises(InputError, match="`majority`"):
        Gold().target(data, torch.arange(2), seed=0)


def test_data_with_gold_labels_alone_have_only_the_gold_target():
    data = Data(name="plain", classes=("a", "b"), ids=("1", "2"), gold=torch.tensor([1, 0]))
    assert Gold().target(data, torch.arange(2), seed=0).probs.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(InputError, match="`gold`"):
        Empirical().target(data, torch.arange(2), seed=0)


def test_targets_see_the_votes_they_are_given_and_no_others():
    data = crowd()
    few = replace(data, votes=data.votes.resample(3, seed=1))
    assert (Empirical().target(few, torch.arange(60), seed=0).counts.sum(1) == 3).all()
