import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from crowds import crowd
from dissensus.errors import InputError
from dissensus.estimator import VoteClassifier
from dissensus.labels.delivery import Sampled
from dissensus.labels.targets import Smoothed

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
