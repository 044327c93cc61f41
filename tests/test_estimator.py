import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from crowds import crowd
from dissensus import metrics
from dissensus.errors import InputError
from dissensus.estimator import VoteClassifier
from dissensus.labels.delivery import Sampled
from dissensus.labels.targets import Smoothed, Teacher
from dissensus.metrics.temperature import fit_temperature
from dissensus.training.splits import Holdout

DATA = crowd(items=200, classes=4, votes=10)
X = DATA.x.numpy()


@pytest.mark.parametrize("head", ["linear", "mlp"])
@pytest.mark.parametrize("delivery", ["soft", "sampled", "multipass"])
def test_a_fitted_model_is_nearer_to_the_people_than_the_mean_opinion(head, delivery):
    model = VoteClassifier(head=head, delivery=delivery, epochs=20, lr=0.01).fit(X, DATA.votes)
    probs = model.predict_proba(X)
    assert np.allclose(probs.sum(1), 1)
    mean = DATA.votes.soft.mean(0)
    assert -model.score(X, DATA.votes) < -(DATA.votes.soft * np.log(mean)).sum(1).mean() - 0.1
    assert set(model.predict(X)) <= set(DATA.classes)


def test_votes_counts_and_shares_give_the_same_soft_model():
    by_votes = VoteClassifier(epochs=3).fit(X, DATA.votes).predict_proba(X)
    by_counts = VoteClassifier(epochs=3).fit(X, DATA.votes.counts).predict_proba(X)
    by_shares = VoteClassifier(epochs=3).fit(X, DATA.votes.soft).predict_proba(X)
    assert np.array_equal(by_votes, by_counts)
    assert np.allclose(by_votes, by_shares, atol=1e-6)


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    one, two, other = (VoteClassifier(epochs=2, random_state=s).fit(X, DATA.votes).predict_proba(X) for s in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_saved_model_predicts_the_same_after_loading(tmp_path):
    model = VoteClassifier(epochs=2, hidden=32, target=Smoothed(0.2), delivery=Sampled(every=2)).fit(X, DATA.votes)
    model.temperature_ = 1.5
    model.save(tmp_path / "model")
    again = VoteClassifier.load(tmp_path / "model")
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert again.classes_.tolist() == list(DATA.classes)


def test_scores_carry_the_floor_and_the_ceiling_of_the_votes():
    scores = VoteClassifier(epochs=2).fit(X, DATA.votes).scores(X, DATA.votes)
    assert scores["soft_nll"] > scores["soft_nll_floor"] > 0
    assert 0 < scores["entropy_spearman_ceiling"] <= 1
    assert scores["gold"] == "majority"


def test_a_measured_model_is_judged_on_items_it_never_saw_and_then_trained_on_all():
    told = []
    model = VoteClassifier(epochs=30, lr=0.02, random_state=4)
    scores = model.fit_measured(X, DATA.votes, DATA.gold, held_out=0.1, progress=lambda *step: told.append(step[:2]))
    assert told == [(done, 60) for done in range(1, 61)]
    assert scores["items"] == {"train": 180, "held_out": 20}
    train, held = Holdout(0.1).split(DATA.labels, 4)
    part = VoteClassifier(epochs=30, lr=0.02, random_state=4).fit(X[train], DATA.votes.subset(train.numpy()))
    alone = metrics.score(part.predictions(X[held]).log_probs, DATA.people[held], gold=DATA.gold[held])
    assert {name: scores["raw"][name] for name in alone} == alone
    whole = VoteClassifier(epochs=30, lr=0.02, random_state=4).fit(X, DATA.votes)
    assert torch.equal(model.predictions(X).logits, whole.predictions(X).logits)
    assert scores["tempered_votes"]["soft_nll"] < scores["raw"]["soft_nll"], "this test needs an over-confident model"
    best = fit_temperature(part.predictions(X[held]).logits, DATA.people[held]).value
    assert model.temperature_ == best > 1
    assert -model.score(X, DATA.votes) != -whole.score(X, DATA.votes)


def test_a_temperature_that_does_not_help_is_not_used():
    model = VoteClassifier(head="linear", epochs=300, lr=0.05)
    counts = np.tile([[3, 1], [1, 3]], (20, 1))
    scores = model.fit_measured(np.tile([[0.0], [1.0]], (20, 1)), counts)
    assert scores["tempered_votes"]["soft_nll"] >= scores["raw"]["soft_nll"] - 1e-3
    assert (model.temperature_ == 1) == (scores["tempered_votes"]["soft_nll"] >= scores["raw"]["soft_nll"])


@pytest.mark.parametrize("items", [2, 4, 6])
def test_with_a_single_held_out_item_there_is_no_temperature(items):
    model = VoteClassifier(epochs=2)
    scores = model.fit_measured(np.arange(items, dtype=float)[:, None], np.tile([[3, 1]], (items, 1)))
    assert scores["items"] == {"train": items - 1, "held_out": 1}
    assert set(scores) == {"raw", "items"}
    assert model.temperature_ == 1


def test_the_columns_of_a_matrix_have_the_names_they_are_given():
    for people in (DATA.votes.counts, DATA.votes.soft):
        assert VoteClassifier(epochs=1).fit(X, people, classes=["a", "b", "c", "d"]).classes_.tolist() == list("abcd")
        assert VoteClassifier(epochs=1).fit(X, people).classes_.tolist() == ["0", "1", "2", "3"]


def test_a_teacher_needs_runs_that_features_and_votes_do_not_have():
    with pytest.raises(InputError, match="predictions of one are not given"):
        VoteClassifier(target=Teacher(("one",))).fit(X, DATA.votes)


def test_it_can_be_cloned_and_searched_over():
    assert clone(VoteClassifier(hidden=7)).hidden == 7
    search = GridSearchCV(VoteClassifier(head="linear", epochs=3), {"lr": [1e-6, 0.05]}, cv=2).fit(X, DATA.votes.counts)
    assert search.best_params_ == {"lr": 0.05}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (X[:-1], "199 rows of features, and votes on 200 items"),
        (np.where(np.arange(200)[:, None] == 7, np.nan, X), "row 7 has NaN"),
        (X[:, 0], "not numbers"),
        (X.astype(str), "not numbers"),
    ],
)
def test_bad_features_are_refused(features, message):
    with pytest.raises(InputError, match=message):
        VoteClassifier().fit(features, DATA.votes)


def test_other_bad_input_is_refused(tmp_path):
    with pytest.raises(InputError, match="not a count"):
        VoteClassifier().fit(X, DATA.votes.soft * 1.5)
    with pytest.raises(InputError, match="target 'softest' is not one of empirical"):
        VoteClassifier(target="softest").fit(X, DATA.votes)
    with pytest.raises(InputError, match="head 'tree'"):
        VoteClassifier(head="tree").fit(X, DATA.votes)
    with pytest.raises(InputError, match="3 columns, and the model was trained on 5"):
        VoteClassifier(epochs=1).fit(X, DATA.votes).predict(X[:, :3])
    with pytest.raises(InputError, match="no readable model"):
        VoteClassifier.load(tmp_path)


def test_the_optimiser_sees_the_delivered_votes_of_the_seed():
    torch.manual_seed(0)
    a = VoteClassifier(delivery="sampled", epochs=2, random_state=3).fit(X, DATA.votes).predict_proba(X)
    torch.manual_seed(1)
    b = VoteClassifier(delivery="sampled", epochs=2, random_state=3).fit(X, DATA.votes).predict_proba(X)
    assert np.array_equal(a, b)
