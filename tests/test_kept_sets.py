"""The user's own files as a named data set, and what is measured on it."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.datasets.feature_files import Features
from dissensus.datasets.kept_sets import OWN, keep
from dissensus.engine.measures import BaselineScores, LearningPoint, measure_of, measure_spec
from dissensus.engine.measures.learning_point import first_items, first_votes
from dissensus.errors import InputError
from dissensus.experiments.comparison_study import CrossValidation, head_recipe, usable_methods
from dissensus.random import numpy_generator
from dissensus.training import stacked
from dissensus.training.baselines import BASELINES
from dissensus.training.splits import Folds
from dissensus.votes.votes import Votes

ITEMS, CLASSES = 60, ("cat", "dog", "owl")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Votes with annotators, three features, and the folder where sets are kept."""
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    draw = numpy_generator(0, "probe", "own")
    x = draw.standard_normal((ITEMS, 3)).astype(np.float32)
    shares = np.exp(2 * x) / np.exp(2 * x).sum(1, keepdims=True)
    label = np.array([draw.choice(3, p=share) for share in shares for _ in range(4)])
    item, annotator = np.repeat(np.arange(ITEMS), 4), np.tile(np.arange(4), ITEMS)
    votes = Votes(item, label, [f"i{row}" for row in range(ITEMS)], CLASSES, annotator, ["a", "b", "c", "d"])
    data = Data.of_votes(votes, name="some folder/my votes.csv")
    return data, Features(data.ids, x, {})


def test_what_is_kept_comes_back_under_its_name(own):
    data, features = own
    kept = keep(data, features)
    assert kept.name.startswith("my-votes-")
    loaded = datasets.load(OWN, **dict(kept.options))
    assert loaded.ids == data.ids
    assert loaded.classes == CLASSES
    assert loaded.votes.annotators == data.votes.annotators
    assert (loaded.votes.counts == data.votes.counts).all()
    assert (loaded.votes.annotator == data.votes.annotator).all()
    assert torch.equal(loaded.x, torch.from_numpy(features.x))
    assert loaded.digest == datasets.load(OWN, **dict(keep(data, features).options)).digest


def test_shares_and_gold_labels_are_kept_too(own):
    data, features = own
    shares = replace(data, votes=None, probs=data.people, gold=torch.zeros(ITEMS, dtype=torch.int64))
    loaded = datasets.load(OWN, **dict(keep(shares, features).options))
    assert torch.equal(loaded.people, data.people)
    assert loaded.gold.tolist() == [0] * ITEMS


def test_other_content_is_another_set_and_another_folder_is_not(own):
    data, features = own
    name = keep(data, features).name
    assert keep(replace(data, name="elsewhere/my votes.csv"), features).name == name
    assert keep(data, replace(features, x=features.x + 1)).name != name


def test_a_set_that_is_not_here_says_how_to_get_it(own):
    with pytest.raises(InputError, match="Run that command again"):
        datasets.load(OWN, kept="votes-0", features="given")


def test_heads_on_own_features_are_trained_stacked(own):
    data, features = own
    assert stacked.why_not_stacked(head_recipe(keep(data, features), ITEMS)) == ""


def test_methods_that_the_votes_do_not_allow_are_left_out_with_a_reason(own):
    data, _ = own
    usable, left_out = usable_methods(data)
    assert "Dawid–Skene" in usable
    assert left_out == {"Gold": "there are no gold labels"}
    shares = replace(data, votes=None, probs=data.people)
    assert {"Multipass", "Soft (shrunk)", "Dawid–Skene"} <= usable_methods(shares)[1].keys()
    with pytest.raises(InputError, match="no method"):
        usable_methods(data, ("best",))
    with pytest.raises(InputError, match="Gold cannot be used"):
        usable_methods(data, ("gold",))


def test_every_item_is_judged_once_in_each_repeat():
    labels = torch.arange(40) % 3
    design = CrossValidation(repeats=2, folds=4)
    held_out = [split.split(labels, seed).held_out for seed, split in design.splits.items()]
    for repeat in (held_out[:4], held_out[4:]):
        assert sorted(torch.cat(repeat).tolist()) == list(range(40))
    assert held_out[0].tolist() != held_out[4].tolist()


def test_subsamples_are_nested_in_items_and_in_votes(own):
    data, _ = own
    pool = torch.arange(ITEMS)[::2]
    few, more = first_items(pool, 10, seed=3), first_items(pool, 20, seed=3)
    assert set(few.tolist()) < set(more.tolist()) < set(pool.tolist())
    counts = [first_votes(data, few, votes, seed=3) for votes in (1, 2, 4, 9)]
    assert [int(of_votes.sum()) for of_votes in counts] == [10, 20, 40, 40]
    assert all(bool((a <= b).all()) for a, b in pairwise(counts))
    assert torch.equal(counts[-1], data.counts[few])


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_baseline_is_judged_on_the_items_it_was_not_fitted_to(own, baseline):
    data, features = own
    kept = keep(data, features)
    ref = DataRef(OWN, kept.options, datasets.digest_of(OWN, kept.options))
    measure = BaselineScores(ref, baseline, Folds(3, 1), seed=7)
    assert measure_of(measure_spec(measure)) == measure
    result = measure.compute((), None, None)
    train, held_out = Folds(3, 1).split(data.labels, 7)
    x = torch.from_numpy(features.x)
    log_probs = BASELINES[baseline](x[train], data.people[train], torch.full((len(train),), 4.0), x[held_out], seed=7)
    expected = float(-(data.people[held_out] * log_probs).sum(1).mean())
    assert result.scores["best"]["raw"]["soft_nll"] == pytest.approx(expected, abs=1e-6)
    assert result.facts["items"] == {"train": len(train), "evaluation": len(held_out)}


def test_a_point_with_all_items_and_votes_is_logistic_regression_on_them(own):
    data, features = own
    kept = keep(data, features)
    ref = DataRef(OWN, kept.options, datasets.digest_of(OWN, kept.options))
    train, _ = Folds(3, 0).split(data.labels, 0)
    point = LearningPoint(ref, Folds(3, 0), len(train), 4, seed=0).compute((), None, None)
    baseline = BaselineScores(ref, "votes_logistic", Folds(3, 0), seed=0).compute((), None, None)
    assert point.scores["soft_nll"] == pytest.approx(baseline.scores["best"]["raw"]["soft_nll"], abs=1e-6)
    assert point.facts["votes"] == 4 * len(train)
