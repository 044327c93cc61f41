import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from crowds import crowd
from dissensus import metrics
from dissensus.errors import InputError
from dissensus.estimator import HEADS, VoteClassifier
from dissensus.estimator.measured_fit import _prior_warning
from dissensus.labels.delivery import Sampled
from dissensus.labels.targets import Smoothed, Teacher
from dissensus.models import Mlp
from dissensus.training.splits import Holdout
from dissensus.votes import read_votes
from dissensus.votes.votes import Votes

DATA = crowd(items=200, classes=4, votes=10)
X = DATA.x.numpy()
SMALL = {"head": "mlp", "hidden": 16, "dropout": 0.2, "weight_decay": 0.01, "epochs": 3, "seeds": 1}
"""One small MLP, quickly trained: for what does not depend on the quality of the model."""


def prior_loss(votes):
    return -(votes.soft * np.log(votes.soft.mean(0))).sum(1).mean()


@pytest.mark.parametrize("head", ["auto", "linear", "mlp"])
@pytest.mark.parametrize("delivery", ["soft", "sampled", "multipass"])
def test_a_fitted_model_is_nearer_to_the_people_than_the_mean_opinion(head, delivery):
    settings = {} if head == "linear" else {"dropout": 0.2, "hidden": 32, "lr": 0.01, "seeds": 1}
    model = VoteClassifier(head=head, delivery=delivery, **settings).fit(X[:150], DATA.votes[:150])
    probs = model.predict_proba(X[150:])
    assert np.allclose(probs.sum(1), 1)
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:]) - 0.1
    assert set(model.predict(X)) <= set(DATA.classes)


def test_votes_counts_and_shares_give_the_same_soft_model():
    by_votes = VoteClassifier(**SMALL).fit(X, DATA.votes).predict_proba(X)
    by_counts = VoteClassifier(**SMALL).fit(X, DATA.votes.counts).predict_proba(X)
    by_sparse = VoteClassifier(**SMALL).fit(X, scipy.sparse.csr_matrix(DATA.votes.counts)).predict_proba(X)
    by_shares = VoteClassifier(**SMALL).fit(X, DATA.votes.soft).predict_proba(X)
    assert np.array_equal(by_votes, by_counts)
    assert np.array_equal(by_votes, by_sparse)
    assert np.allclose(by_votes, by_shares, atol=1e-6)


def test_the_same_seed_gives_the_same_model_and_another_seed_or_none_another():
    seeds = (0, 0, 1, None, None, np.random.RandomState(0))
    first, again, *others = (VoteClassifier(**SMALL, random_state=s).fit(X, DATA.votes).predict_proba(X) for s in seeds)
    assert np.array_equal(first, again)
    for number, other in enumerate(others):
        assert not np.array_equal(first, other)
        assert not any(np.array_equal(other, later) for later in others[number + 1 :])


@pytest.mark.parametrize("head", ["auto", "linear", "mlp"])
def test_a_saved_model_predicts_the_same_after_loading(tmp_path, head):
    settings = {} if head == "linear" else {"hidden": 32, "epochs": 2, "seeds": 2}
    model = VoteClassifier(head=head, target=Smoothed(0.2), delivery=Sampled(every=2), **settings).fit(X, DATA.votes)
    model.temperature_ = 1.5
    model.save(tmp_path / "model")
    again = VoteClassifier.load(tmp_path / "model")
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert again.classes_.tolist() == list(DATA.classes)
    assert (again.target, again.delivery) == (Smoothed(0.2), Sampled(every=2))


def test_scores_carry_the_floor_and_the_ceiling_of_the_votes():
    scores = VoteClassifier(**SMALL).fit(X, DATA.votes).scores(X, DATA.votes)
    assert scores["soft_nll"] > scores["soft_nll_floor"] > 0
    assert 0 < scores["entropy_spearman_ceiling"] <= 1
    assert scores["gold"] == "majority"


def test_a_measured_model_is_judged_on_items_it_never_saw_and_then_is_the_model_that_fit_gives():
    told = []
    model = VoteClassifier(**SMALL, random_state=4)
    scores = model.fit_measured(X, DATA.votes, DATA.gold, held_out=0.1, progress=lambda *step: told.append(step))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert scores["items"] == {"train": 180, "held_out": 20}
    train, held = Holdout(0.1).split(DATA.labels, 4)
    part = VoteClassifier(**SMALL, random_state=4).fit(X[train], DATA.votes.subset(train.numpy()), DATA.gold[train])
    log_probs = torch.from_numpy(np.log(part.predict_proba(X[held])))
    alone = metrics.score(log_probs, DATA.people[held], gold=DATA.gold[held])
    assert {name: scores["raw"][name] for name in alone} == pytest.approx(alone)
    whole = VoteClassifier(**SMALL, random_state=4).fit(X, DATA.votes, DATA.gold)
    assert np.array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_the_rows_to_hold_out_can_be_named():
    rows = [3, 1, 4, 15, 92, 65]
    scores = VoteClassifier(head="linear").fit_measured(X, DATA.votes, held_out=rows)
    assert scores["items"] == {"train": 194, "held_out": 6}
    part = VoteClassifier(head="linear").fit(np.delete(X, rows, 0), DATA.votes[np.delete(np.arange(200), rows)])
    assert -part.score(X[sorted(rows)], DATA.votes[sorted(rows)]) == pytest.approx(scores["raw"]["soft_nll"])
    for wrong in ([], list(range(200)), [-1], [200]):
        with pytest.raises(InputError, match="held out"):
            VoteClassifier(head="linear").fit_measured(X, DATA.votes, held_out=wrong)


def test_baselines_stand_beside_every_measured_model():
    scores = VoteClassifier(head="linear").fit_measured(X, DATA.votes)
    assert set(scores["baselines"]) == {"class_prior", "votes_logistic", "majority_logistic"}
    prior = scores["baselines"]["class_prior"]["raw"]
    assert scores["raw"]["soft_nll"] < prior["soft_nll"]
    assert "tempered_votes" in scores["baselines"]["majority_logistic"]
    assert scores["warnings"] == []


def test_a_model_that_learned_nothing_is_called_so():
    noise = np.random.default_rng(0).normal(size=(200, 5))
    shuffled = DATA.votes[np.random.default_rng(1).permutation(200)]
    for features, settings in ((noise, {}), (X, {"lr": 0.01})):
        scores = VoteClassifier(**SMALL, **settings).fit_measured(features, shuffled)
        if scores["raw"]["soft_nll"] < scores["baselines"]["class_prior"]["raw"]["soft_nll"]:
            assert not any("class prior" in warning for warning in scores["warnings"])
        else:
            assert any("than the class prior" in warning for warning in scores["warnings"])
    log_probs = torch.tensor([[0.9, 0.1]] * 9 + [[0.5, 0.5]]).double().log()
    prior, people = torch.full((10, 2), 0.5).double().log(), torch.tensor([[0.1, 0.9]] * 10).double()
    assert "is worse than" in _prior_warning(log_probs, prior, people)[0]
    assert "is no better than" in _prior_warning(prior, prior, people)[0]
    assert _prior_warning(people.log(), prior, people) == []


def test_a_temperature_at_its_bound_is_called_so():
    labels = np.arange(60) % 2
    scores = VoteClassifier(head="linear", weight_decay=1.0).fit_measured(
        labels[:, None] * 1.0, np.eye(2, dtype=int)[labels]
    )
    (warning,) = scores["warnings"]
    assert "at its bound (sharper is better, down to the bound 0.01)" in warning
    assert scores["temperature"] == 1


@pytest.mark.parametrize("items", [2, 4, 6])
def test_a_handful_of_items_is_enough_to_train_on(items):
    model = VoteClassifier()
    scores = model.fit_measured(np.arange(items, dtype=float)[:, None], np.tile([[3, 1]], (items, 1)))
    assert scores["items"] == {"train": items - 1, "held_out": 1}
    assert "tempered_votes" not in scores
    assert model.predict_proba([[1.0]])[0, 0] == pytest.approx(0.75, abs=0.15)


def test_the_columns_of_a_matrix_have_the_names_they_are_given():
    for people in (DATA.votes.counts, DATA.votes.soft):
        linear = VoteClassifier(head="linear", weight_decay=1.0)
        assert linear.fit(X, people, classes=["a", "b", "c", "d"]).classes_.tolist() == list("abcd")
        assert linear.fit(X, people).classes_.tolist() == ["0", "1", "2", "3"]


def test_a_teacher_needs_runs_that_features_and_votes_do_not_have():
    with pytest.raises(InputError, match="predictions of one are not given"):
        VoteClassifier(target=Teacher(("one",))).fit(X, DATA.votes)


def test_training_that_diverges_is_called_so():
    with pytest.raises(InputError, match="training diverged"):
        VoteClassifier(head="mlp", lr=1e3, epochs=5).fit(X, DATA.votes)
    with pytest.raises(InputError, match="training diverged"):
        VoteClassifier(lr=1e3).fit(X, DATA.votes)
    with pytest.raises(InputError, match="training diverged"):
        VoteClassifier(module=torch.nn.Linear(5, 4), lr=1e6, epochs=5).fit(X, DATA.votes)


# Any estimator and any module


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=20),
        RandomForestClassifier(20, random_state=0),
        make_pipeline(StandardScaler(), LogisticRegression()),
        KNeighborsClassifier(25),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_of_scikit_learn_learns_from_votes(estimator):
    model = VoteClassifier(estimator=estimator).fit(X[:150], DATA.votes[:150])
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:])
    assert np.allclose(model.predict_proba(X).sum(1), 1)
    assert np.isfinite(model.score(X[150:], DATA.votes[150:])), "the prior keeps a tree from being infinitely wrong"


def test_lightgbm_learns_from_votes():
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    estimator = lightgbm.LGBMClassifier(n_estimators=20, min_child_samples=5, verbose=-1, n_jobs=1)
    model = VoteClassifier(estimator=estimator).fit(X[:150], DATA.votes[:150])
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:])
    assert {part.name for part in model.candidates_} == {"LGBMClassifier", "class prior"}
    alone = clone(estimator).fit(X[:150], DATA.votes[:150].counts.argmax(1)).predict_proba(X[150:])
    on_majority = -(DATA.votes[150:].soft * np.log(alone)).sum(1).mean()
    assert -model.score(X[150:], DATA.votes[150:]) < on_majority, "votes say more than their majority"


def test_votes_reach_an_estimator_as_weighted_rows():
    seen = []

    class Recorder(LogisticRegression):
        def fit(self, x, y, sample_weight=None):
            seen.append((len(x), float(sample_weight.sum())))
            return super().fit(x, y, sample_weight=sample_weight)

    VoteClassifier(estimator=Recorder()).fit(X, DATA.votes)
    assert seen[-1] == ((DATA.votes.counts > 0).sum(), DATA.votes.n_votes)
    VoteClassifier(estimator=Recorder(), target="majority").fit(X, DATA.votes)
    assert seen[-1] == (200, 200)


def test_an_estimator_is_refused_for_what_it_cannot_do(tmp_path):
    with pytest.raises(InputError, match="predict_proba"):
        VoteClassifier(estimator=LinearSVC()).fit(X, DATA.votes)
    with pytest.raises(InputError, match="no other delivery than soft"):
        VoteClassifier(estimator=LogisticRegression(), delivery="sampled").fit(X, DATA.votes)
    with pytest.raises(InputError, match="takes no sample_weight"):
        VoteClassifier(estimator=KNeighborsClassifier()).fit(X, DATA.votes.soft)
    with pytest.raises(InputError, match="pickle"):
        VoteClassifier(estimator=LogisticRegression()).fit(X, DATA.votes).save(tmp_path)
    with pytest.raises(InputError, match="not both"):
        VoteClassifier(estimator=LogisticRegression(), module=torch.nn.Linear(5, 4)).fit(X, DATA.votes)


def test_any_module_of_torch_learns_from_votes():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = VoteClassifier(module=module, lr=0.01).fit(X[:150], DATA.votes[:150])
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:]) - 0.1
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items()), "it is copied"
    with pytest.raises(InputError, match="one logit per class"):
        VoteClassifier(module=torch.nn.Linear(5, 3), epochs=1).fit(X, DATA.votes)


def test_any_architecture_can_be_the_head():
    model = VoteClassifier(head=Mlp((16, 16), 0.1), lr=0.01).fit(X[:150], DATA.votes[:150])
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:]) - 0.1


@pytest.mark.parametrize("head", HEADS)
def test_a_named_head_learns_from_votes_and_says_how_uncertain_it_is(head, tmp_path):
    model = VoteClassifier(head=head, hidden=32, lr=0.01, epochs=5, batch=32).fit(X[:150], DATA.votes[:150])
    assert -model.score(X[150:], DATA.votes[150:]) < prior_loss(DATA.votes[150:]) - 0.05
    uncertainty = model.predictions(X[150:]).uncertainty
    assert uncertainty.shape == (50,)
    assert float(model.predictions(10 * X[150:]).uncertainty.mean()) > float(uncertainty.mean()), "far from all it knows"
    with pytest.raises(InputError, match="pickle"):
        model.save(tmp_path)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert torch.equal(again.predictions(X).uncertainty, model.predictions(X).uncertainty)


# At home in scikit-learn


def long_frame(votes):
    return pd.DataFrame({"item": [votes.items[i] for i in votes.item], "label": [votes.classes[c] for c in votes.label]})


def test_a_long_data_frame_is_read_as_votes():
    by_votes = VoteClassifier(head="linear").fit(X, DATA.votes)
    by_frame = VoteClassifier(head="linear").fit(X, long_frame(DATA.votes))
    assert by_frame.classes_.tolist() == by_votes.classes_.tolist()
    assert np.allclose(by_votes.predict_proba(X), by_frame.predict_proba(X), atol=1e-6)
    shuffled = long_frame(DATA.votes).sample(frac=1, random_state=0)
    by_index = VoteClassifier(head="linear").fit(pd.DataFrame(X, index=DATA.votes.items).add_prefix("x"), shuffled)
    assert np.allclose(by_votes.predict_proba(X), by_index.predict_proba(X), atol=1e-6)
    with pytest.raises(InputError, match="name no item and label"):
        VoteClassifier(head="linear").fit(X, pd.DataFrame({"a": ["1"], "b": [2]}))


FIXED = {"head": "linear", "weight_decay": 0.1}


def test_items_of_a_long_frame_are_matched_by_name_by_number_or_by_plain_order_and_never_by_accident():
    expected = VoteClassifier(**FIXED).fit(X, long_frame(DATA.votes)).predict_proba(X)
    shuffled = long_frame(DATA.votes).sample(frac=1, random_state=0)
    with pytest.raises(InputError, match="scattered"):
        VoteClassifier(**FIXED).fit(X, shuffled)
    with pytest.raises(InputError, match="scattered"):
        VoteClassifier(**FIXED).fit(pd.DataFrame(X).add_prefix("x"), shuffled)
    numbered = shuffled.assign(item=shuffled["item"].str.removeprefix("item").astype(int))
    assert np.allclose(VoteClassifier(**FIXED).fit(X, numbered).predict_proba(X), expected)
    other = pd.DataFrame(X, index=["else", *DATA.votes.items[1:]]).add_prefix("x")
    with pytest.raises(InputError, match="are in the index of the features, the others are not"):
        VoteClassifier(**FIXED).fit(other, long_frame(DATA.votes))


def test_an_index_that_names_other_items_than_the_votes_or_in_another_order_is_refused():
    frame = pd.DataFrame(X, index=DATA.votes.items)
    model = VoteClassifier(**FIXED).fit(frame, DATA.votes)
    shuffled, foreign = frame.sample(frac=1, random_state=0), frame.rename(index=lambda name: f"z{name}")
    labels = pd.Series(DATA.votes.counts.argmax(1), index=frame.index)
    for use in (model.fit, model.score):
        with pytest.raises(InputError, match="in another order"):
            use(shuffled, DATA.votes)
        with pytest.raises(InputError, match="in another order"):
            use(shuffled, labels)
    named = Votes(DATA.votes.item, DATA.votes.label, [f"t{n}" for n in range(len(X))], DATA.votes.classes)
    with pytest.raises(InputError, match="the index names 0 of the"):
        model.fit(foreign, named)
    half = [*named.items[:9], *(f"new{n}" for n in range(len(named) - 9))]
    with pytest.raises(InputError, match="the index names 9 of the"):
        model.fit(pd.DataFrame(X, index=half), named)
    rows_of_a_part = pd.DataFrame(X, index=np.arange(len(named)) + 1000)
    assert np.array_equal(
        model.fit(rows_of_a_part, named).predict_proba(X), model.fit(frame, DATA.votes).predict_proba(X)
    )


def test_searches_take_a_long_data_frame_as_the_votes_that_read_votes_makes_of_it():
    votes = read_votes(long_frame(DATA.votes))
    frame = pd.DataFrame(X, index=DATA.votes.items).loc[list(votes.items)]
    assert len(cross_val_score(VoteClassifier(**FIXED), frame, votes, cv=3)) == 3


def test_a_count_column_of_a_long_frame_is_counted_and_a_missing_label_is_no_class():
    frame = long_frame(DATA.votes)
    counted = frame.value_counts(["item", "label"], sort=False).reset_index(name="count")
    indexed = pd.DataFrame(X, index=DATA.votes.items).add_prefix("x")
    expected = VoteClassifier(**FIXED).fit(X, frame).predict_proba(X)
    assert np.allclose(VoteClassifier(**FIXED).fit(indexed, counted).predict_proba(indexed), expected)
    with pytest.raises(InputError, match="1 rows have no label"):
        VoteClassifier(**FIXED).fit(X, frame.assign(label=frame["label"].where(frame.index != 3)))
    with pytest.raises(InputError, match="not whole numbers"):
        VoteClassifier(**FIXED).fit(indexed, counted.assign(count=0.5))


def test_a_data_frame_of_counts_has_its_classes_in_its_columns():
    counts = pd.DataFrame(DATA.votes.counts, columns=DATA.votes.classes)
    model = VoteClassifier(**FIXED).fit(X, counts)
    assert model.classes_.tolist() == list(DATA.votes.classes)
    assert model.score(X, counts) == model.score(X, counts[counts.columns[::-1]]) == model.score(X, DATA.votes)
    assert VoteClassifier(**FIXED).fit(X, counts.div(counts.sum(axis=1), axis=0)).score(X, counts) == model.score(
        X, counts
    )
    with pytest.raises(InputError, match="'total' is the sum of the others"):
        VoteClassifier(**FIXED).fit(X, counts.assign(total=counts.sum(axis=1)))
    with pytest.raises(InputError, match="name no item and label"):
        VoteClassifier(**FIXED).fit(X, counts.assign(id=range(len(X))))
    with pytest.raises(InputError, match="same index in another order"):
        VoteClassifier(**FIXED).fit(pd.DataFrame(X).add_prefix("x"), counts.sample(frac=1, random_state=0))
    with pytest.raises(InputError, match="class 'wolf' is not one of"):
        model.score(X, counts.rename(columns={DATA.votes.classes[0]: "wolf"}))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_labels_that_are_missing_beside_text_are_refused(missing):
    labels = np.array(DATA.classes)[DATA.labels].astype(object)
    labels[3] = missing
    with pytest.raises(InputError, match="several kinds"):
        VoteClassifier(**FIXED).fit(X, labels)


def test_features_that_float32_cannot_hold_are_refused():
    wide = X.astype(np.float64)
    with pytest.raises(InputError, match="float32 cannot tell apart"):
        VoteClassifier(**FIXED).fit(wide + 1e9, DATA.votes)
    with pytest.raises(InputError, match=r"beyond 3\.4e38"):
        VoteClassifier(**FIXED).fit(wide * 1e300, DATA.votes)
    near = VoteClassifier(**FIXED).fit(wide + 1e4, DATA.votes)
    assert near.score(wide + 1e4, DATA.votes) == pytest.approx(
        VoteClassifier(**FIXED).fit(X, DATA.votes).score(X, DATA.votes), abs=1e-3
    )


@pytest.mark.parametrize(
    "labels", [DATA.labels.numpy() + 5, np.array(DATA.classes)[DATA.labels]], ids=["numbers", "names"]
)
def test_hard_labels_are_one_vote_each_and_come_back_as_they_were(labels):
    model = VoteClassifier(head="linear").fit(X, labels)
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    assert model.predict(X).dtype.kind == labels.dtype.kind
    assert (model.predict(X) == labels).mean() > 0.7
    one_hot = VoteClassifier(head="linear").fit(X, (labels[:, None] == model.classes_).astype(int))
    assert np.allclose(model.predict_proba(X), one_hot.predict_proba(X))
    assert model.score(X, labels) == pytest.approx(one_hot.score(X, (labels[:, None] == model.classes_).astype(int)))
    with pytest.raises(InputError, match="not a class of the model"):
        model.score(X[:1], ["other"])


def test_votes_are_matched_to_the_classes_of_the_model_by_name():
    model = VoteClassifier(head="linear").fit(X, DATA.votes)
    turned = Votes.from_counts(DATA.votes.counts[:, ::-1], classes=DATA.classes[::-1], items=DATA.ids)
    assert model.score(X, turned) == pytest.approx(model.score(X, DATA.votes))
    with pytest.raises(InputError, match="'other' is not a class"):
        model.score(X, Votes.from_counts(DATA.votes.counts, classes=["other", *DATA.classes[1:]]))


def test_splits_searches_and_pipelines_of_scikit_learn_take_votes():
    x_train, x_test, votes_train, votes_test = train_test_split(X, DATA.votes, random_state=0)
    linear = VoteClassifier(head="linear")
    assert -linear.fit(x_train, votes_train).score(x_test, votes_test) < prior_loss(votes_test)
    for people in (DATA.votes, DATA.votes.counts, DATA.votes.soft, DATA.labels.numpy()):
        assert np.isfinite(cross_val_score(VoteClassifier(head="linear", weight_decay=0.1), X, people, cv=2)).all()
    search = GridSearchCV(linear, {"weight_decay": [1e4, 0.05]}, cv=2).fit(X, DATA.votes)
    assert search.best_params_ == {"weight_decay": 0.05}
    piped = make_pipeline(StandardScaler(), VoteClassifier(head="linear")).fit(x_train, votes_train)
    assert piped.score(x_test, votes_test) == pytest.approx(linear.score(x_test, votes_test), abs=0.01)


def test_it_can_be_cloned_and_pickled():
    assert clone(VoteClassifier(hidden=7)).hidden == 7
    model = VoteClassifier(**SMALL).fit(X, DATA.votes)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert not hasattr(clone(model), "model_")


def test_sparse_features_give_the_model_of_the_dense_ones():
    sparse = scipy.sparse.csr_matrix(X)
    model = VoteClassifier(head="linear").fit(sparse, DATA.votes)
    assert np.array_equal(model.predict_proba(sparse), VoteClassifier(head="linear").fit(X, DATA.votes).predict_proba(X))


@pytest.mark.parametrize("settings", [{"head": "linear", "weight_decay": 0.01}, SMALL], ids=["linear", "mlp"])
def test_an_item_of_weight_zero_is_not_learned_from(settings):
    weights = np.r_[np.ones(150), np.zeros(50)]
    spoiled = DATA.votes.counts.copy()
    spoiled[150:] = spoiled[150:, ::-1]
    kept = VoteClassifier(**settings).fit(X, DATA.votes.counts, sample_weight=weights)
    other = VoteClassifier(**settings).fit(X, spoiled, sample_weight=weights)
    assert np.allclose(kept.predict_proba(X), other.predict_proba(X), atol=0.02)
    unweighted = VoteClassifier(**settings).fit(X, spoiled)
    assert np.abs(kept.predict_proba(X) - unweighted.predict_proba(X)).max() > 0.05


def test_equal_weights_are_no_weights():
    model = VoteClassifier(**SMALL).fit(X, DATA.votes)
    equal = VoteClassifier(**SMALL).fit(X, DATA.votes, sample_weight=np.full(200, 3.0))
    assert np.array_equal(model.predict_proba(X), equal.predict_proba(X))


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(200), np.full(200, np.nan), np.zeros(200)])
def test_bad_weights_are_refused(weights):
    with pytest.raises(InputError, match="sample_weight"):
        VoteClassifier(head="linear").fit(X, DATA.votes, sample_weight=weights)


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
    with pytest.raises(InputError, match="X has 3 features, but VoteClassifier is expecting 5"):
        VoteClassifier(head="linear").fit(X, DATA.votes).predict(X[:, :3])
    with pytest.raises(InputError, match="no readable model"):
        VoteClassifier.load(tmp_path)


def test_the_optimiser_sees_the_delivered_votes_of_the_seed():
    torch.manual_seed(0)
    a = VoteClassifier(**SMALL, delivery="sampled", random_state=3).fit(X, DATA.votes).predict_proba(X)
    torch.manual_seed(1)
    b = VoteClassifier(**SMALL, delivery="sampled", random_state=3).fit(X, DATA.votes).predict_proba(X)
    assert np.array_equal(a, b)


def test_columns_of_features_in_another_order_than_in_training_are_refused():
    frame = pd.DataFrame(X, columns=[f"f{n}" for n in range(X.shape[1])])
    model = VoteClassifier(head="linear", weight_decay=0.1).fit(frame, DATA.votes)
    shuffled = frame[frame.columns[::-1]]
    with pytest.raises(InputError, match="feature names should match"):
        model.predict_proba(shuffled)
    assert (model.predict_proba(shuffled[model.feature_names_in_]) == model.predict_proba(frame)).all()
