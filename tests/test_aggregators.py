import sys
import warnings

import numpy as np
import pytest
import torch

from crowds import crowd
from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.labels.targets import Glad, Mace
from dissensus.votes.votes import Votes, row_names

SMALL = {"glad": Glad(iterations=10), "mace": Mace(restarts=3, iterations=10)}


@pytest.fixture
def crowdkit():
    return pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed (the extra `aggregators`)")


def two_experts_among_guessers():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 60)
    experts = np.where(rng.random((3, 60)) < 0.95, gold, rng.integers(0, 3, (3, 60)))
    said = np.concatenate([experts, rng.integers(0, 3, (6, 60))])
    item, annotator = np.tile(np.arange(60), 9), np.repeat(np.arange(9), 60)
    return Votes(item, said.ravel(), row_names(60), (*"abc", "never"), annotator, tuple("ABCDEFGHI")), gold


@pytest.mark.parametrize("name", SMALL)
def test_without_crowd_kit_the_error_names_the_command_that_installs_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "crowdkit", None)
    with pytest.raises(InputError, match=r"pip install 'dissensus\[aggregators\]'"):
        SMALL[name].target(crowd(), torch.arange(10), seed=0)


@pytest.mark.parametrize("name", SMALL)
def test_votes_without_annotators_are_refused(name):
    data = Data.of_votes(Votes.from_counts([[1, 2], [2, 0]]))
    with pytest.raises(InputError, match="who cast each vote"):
        SMALL[name].target(data, torch.arange(2), seed=0)


@pytest.mark.parametrize("name", SMALL)
def test_experts_are_believed_and_a_class_that_nobody_chose_gets_nothing(name, crowdkit):
    votes, gold = two_experts_among_guessers()
    probs = SMALL[name].target(Data.of_votes(votes), torch.arange(60), seed=0).probs.numpy()
    assert np.allclose(probs.sum(1), 1)
    assert (probs[:, 3] == 0).all()
    by_model, by_majority = (probs.argmax(1) == gold).mean(), (votes.counts.argmax(1) == gold).mean()
    assert by_model > by_majority + 0.05


@pytest.mark.parametrize("name", SMALL)
def test_a_posterior_is_what_crowd_kit_gives_for_the_names_in_the_table(name, crowdkit):
    import pandas as pd

    votes, _ = two_experts_among_guessers()
    rows = torch.arange(59, -1, -2)  # a subset, in another order
    part = votes.subset(rows.numpy())
    frame = pd.DataFrame(
        {
            "task": [part.items[i] for i in part.item],
            "worker": [part.annotators[a] for a in part.annotator],
            "label": [part.classes[y] for y in part.label],
        }
    )
    model = crowdkit.GLAD(n_iter=10) if name == "glad" else crowdkit.MACE(n_restarts=1, n_iter=30, random_state=1)
    rule = SMALL["glad"] if name == "glad" else Mace(restarts=2, iterations=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # crowd-kit's own
        theirs = model.fit_predict_proba(frame).loc[list(part.items), list("abc")].to_numpy()
    ours = rule.target(Data.of_votes(votes), rows, seed=0).probs.numpy()[:, :3]
    assert np.abs(ours - theirs).max() < (1e-8 if name == "glad" else 0.02)


@pytest.mark.parametrize("name", SMALL)
def test_votes_that_all_agree_are_certain(name, crowdkit):
    votes = Votes(np.arange(4) % 2, np.ones(4, int), row_names(2), ("a", "b"), np.arange(4) // 2, ("x", "y"))
    probs = SMALL[name].target(Data.of_votes(votes), torch.arange(2), seed=0).probs
    assert probs.tolist() == [[0, 1], [0, 1]]


def test_the_starts_of_mace_depend_on_its_own_seed_and_not_on_the_run(crowdkit):
    votes, _ = two_experts_among_guessers()
    data, rows = Data.of_votes(votes), torch.arange(60)
    first, of_other_run = (Mace(1, 2).target(data, rows, seed=run).probs for run in (0, 1))
    of_other_start = Mace(1, 2, seed=1).target(data, rows, seed=0).probs
    assert torch.equal(first, of_other_run)
    assert not torch.equal(first, of_other_start)
