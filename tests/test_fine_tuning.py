"""Runs that start from other runs, networks judged on splits of other data, and searches that keep weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import (
    Attack,
    AugmentedAttack,
    Ensemble,
    Lowest,
    SameFirstChoice,
    ScoreRatio,
    ShiftedScores,
    SplitScores,
    WeightedMean,
    WinnerScores,
    measure_spec,
)
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.rescore import Rescored, rescore
from dissensus.engine.setup import TrainingSetup
from dissensus.errors import InputError
from dissensus.experiments.description import Experiment, ValueTable
from dissensus.experiments.plan import Measurement, Training, Tuned, make_plan
from dissensus.experiments.values import Measured
from dissensus.labels.targets import Gold, Teacher
from dissensus.models import Mlp, Smallcnn
from dissensus.random import generator
from dissensus.store.ledger import GALLERY, Ledger
from dissensus.store.spec import Run
from dissensus.training import evaluate
from dissensus.training.augmentation import CropFlip
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant
from dissensus.training.splits import Folds, Holdout, Last
from dissensus.training.stacked.eligibility import why_not_stacked
from finished import SOFT, finished, measured, ref_to, write_cifar10_training, write_cifar10h

BASE = replace(SOFT, votes=None, best=None, epochs=1)
DIGITS = datasets.load("digits")
HERE = ref_to(DIGITS)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def published(ledger, measure, *run_ids):
    """A measure's record in the ledger."""
    return execute(measure_spec(measure, run_ids), ledger, Execution(threads=1)).id


# Fine-tuning


def test_a_fine_tuned_run_starts_from_the_last_weights_of_the_other(ledger):
    first = finished(ledger, BASE)
    tuned = replace(BASE, init=first, optimiser=Sgd(lr=0.001))
    setup = TrainingSetup.of(tuned.spec(DIGITS, 5), ledger)
    torch.testing.assert_close(setup.initial_model(ledger).state_dict(), ledger.weights(first, "last"), rtol=0, atol=0)
    run = ledger.read(finished(ledger, tuned, 5))
    alone = ledger.read(finished(ledger, replace(tuned, init=None), 5))
    assert run.curve["train_loss"][0] < alone.curve["train_loss"][0]
    assert run.spec.inputs == {"init": (first,)}
    assert run.spec.needs == (first,)


def test_a_spec_that_starts_from_nothing_does_not_mention_it_and_both_come_back():
    plain, tuned = BASE.spec(DIGITS, 0), replace(BASE, init="0123456789abcdef").spec(DIGITS, 0)
    assert "init" not in plain.settings
    assert Recipe.of(plain.settings) == BASE
    assert Recipe.of(tuned.settings).init == "0123456789abcdef"


def test_weights_of_another_architecture_are_refused(ledger):
    first = finished(ledger, BASE)
    tuned = replace(BASE, model=Smallcnn(width=4, hidden=13), init=first)
    with pytest.raises(InputError, match=f"init {first}: it has other architecture than this recipe"):
        finished(ledger, tuned)


def test_a_stack_does_not_start_from_other_weights():
    head = Recipe(
        model=Mlp(hidden=(4,)),
        options=(("features", "some"),),
        validation=Holdout(0.2),
        optimiser=Sgd(),
        schedule=Constant(),
    )
    assert why_not_stacked(head) == ""
    assert "weights of its own" in why_not_stacked(replace(head, init="0"))


def test_a_plan_names_what_a_run_starts_from_and_learns_from_and_orders_them():
    first, second = Training(BASE, 0), Training(BASE, 1)
    student = Training(replace(BASE, epochs=2), 0, init=first, teachers=(first, second))
    planned = _plan(student)
    one, two, three = planned.specs
    assert three.inputs == {"teacher": (one.id, two.id), "init": (one.id,)}
    assert Recipe.of(three.settings).target == Teacher((one.id, two.id))


def test_the_candidates_of_a_tuned_run_start_where_it_does():
    grid = tuple(replace(BASE, optimiser=Sgd(lr=lr), validation=Holdout(0.1), keep="curve") for lr in (0.1, 0.01))
    planned = _plan(Training(Tuned(BASE, grid, grid_seed=100), 0, init=Training(BASE, 7)))
    first, *candidates, chosen, tuned = planned.specs
    assert chosen.kind == "select"
    assert all(spec.inputs["init"] == (first.id,) for spec in (*candidates, tuned))
    assert {spec.settings["seed"] for spec in candidates} == {100}


def _plan(node):
    table = ValueTable(key="t", title="t", cells={"a": {"": {"0": node}}}, columns={"x": Measured("x")})
    described = Experiment(key="k", title="t", question="q", scale="smoke", exhibits=(table,))
    return make_plan(described, lambda name, options: "digest", "c")


# Judged on a split that is not one's own


def test_judged_on_its_own_split_a_run_has_its_own_scores(ledger):
    run = ledger.read(finished(ledger, BASE))
    again = measured(SplitScores(HERE, BASE.split, seed=0), ledger, run.id)
    for calibration, scores in run.scores["last"].items():
        assert again.scores["best"][calibration] == pytest.approx(scores, abs=1e-5)


def test_several_runs_are_judged_as_the_mean_of_their_probabilities(ledger):
    split = Folds(10, 3)
    runs = [finished(ledger, replace(BASE, split=split), seed) for seed in (0, 1)]
    elsewhere = measured(SplitScores(HERE, split, seed=0), ledger, *runs)
    stored = measured(Ensemble(), ledger, *runs)
    assert elsewhere.scores["best"]["raw"] == pytest.approx(stored.scores["last"]["raw"], abs=1e-5)
    logits = [ledger.predictions(run, "last")["logits"] for run in runs]
    probs = np.mean([np.exp(part) / np.exp(part).sum(1, keepdims=True) for part in logits], 0)
    kept = elsewhere.arrays["predictions_best"]
    np.testing.assert_allclose(np.exp(kept["logits"]), probs, atol=1e-5)


def test_an_ensemble_on_shifted_data_is_the_mean_of_its_members(ledger):
    runs = [finished(ledger, replace(BASE, split=Folds(10, 0)), seed) for seed in (0, 1)]
    there = DataRef("digits", (("votes", 5),), datasets.load("digits", votes=5).digest)
    together = measured(ShiftedScores(there), ledger, *runs)
    data = datasets.load("digits", votes=5)
    models = [TrainingSetup.of(ledger.read(run).spec, ledger).trained(run, ledger, "last") for run in runs]
    probs = torch.stack([evaluate.predict(model, data.x).log_probs.exp() for model in models]).mean(0)
    by_hand = -(probs.gather(1, data.labels[:, None]).log().mean())
    assert together.scores["nll_gold"] == pytest.approx(float(by_hand), abs=1e-6)


# Searches


SEARCHED = replace(BASE, keep="best", validation=Holdout(0.1), best=Best("validation"), epochs=2)


def test_of_a_search_both_epochs_are_scored_and_the_weights_of_the_best_are_kept(ledger):
    run_id = finished(ledger, SEARCHED)
    assert set(ledger.read(run_id).scores) == {"last", "best"}
    assert ledger.weights(run_id, "best")
    with pytest.raises(InputError):
        ledger.weights(run_id, "last")


def test_keeping_the_best_epoch_needs_a_loss_to_judge_it_by():
    with pytest.raises(InputError, match="must say by which loss"):
        replace(BASE, keep="best")


def test_a_candidate_that_diverges_loses_the_search_and_does_not_end_it(ledger):
    wild = replace(SEARCHED, optimiser=Sgd(lr=1e18))
    runs = [finished(ledger, recipe) for recipe in (wild, SEARCHED)]
    diverged = ledger.read(runs[0])
    assert not np.isfinite([value if value is not None else np.nan for value in diverged.curve["train_loss"]]).all()
    assert measured(Lowest(), ledger, *runs).facts["winner"] == runs[1]


def test_what_is_measured_of_a_choice_is_measured_of_the_winner(ledger):
    runs = [finished(ledger, replace(SEARCHED, optimiser=Sgd(lr=lr))) for lr in (0.001, 0.1)]
    winner = published(ledger, WinnerScores(), *runs)
    chosen = ledger.read(winner).facts["winner"]
    attack = Attack(epsilon=0.02, items=30, checkpoint="best")
    assert measured(attack, ledger, winner).scores == measured(attack, ledger, chosen).scores


# Data without votes


@pytest.fixture
def images(tmp_path, monkeypatch):
    write_cifar10h(tmp_path, 40)
    write_cifar10_training(tmp_path, 60)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    return tmp_path


def test_both_parts_of_cifar10_are_one_data_set_with_the_test_images_at_the_end(images):
    every, train, test = (datasets.load("cifar10", part=part) for part in ("all", "train", "test"))
    assert every.ids == train.ids + test.ids
    assert torch.equal(every.x, torch.cat([train.x, test.x]))
    assert torch.equal(every.gold, torch.cat([train.gold, test.gold]))
    few = datasets.load("cifar10", part="all", items=10)
    assert few.ids == train.ids[:10] + test.ids[:10]
    assert datasets.load("cifar10h", items=10).ids == test.ids[:10]


@pytest.mark.usefixtures("images")
def test_data_without_votes_are_trained_on_and_have_the_scores_that_need_labels_alone(ledger):
    recipe = replace(BASE, data="cifar10", options=(("part", "all"),), split=Last(40), target=Gold(), batch=20)
    run = ledger.read(finished(ledger, recipe))
    assert run.facts["items"] == {"train": 60, "evaluation": 40}
    assert {"train_loss", "nll_gold", "accuracy"} == set(run.curve)
    raw = run.scores["last"]["raw"]
    assert raw["nll_gold"] == pytest.approx(run.curve["nll_gold"][-1], abs=1e-6)
    assert "soft_nll" not in raw
    assert "tempered_votes" not in run.scores["last"]
    assert Run.from_json(run.to_json()) == run
    assert rescore(ledger, run.id) == Rescored((), ())


def test_the_last_items_are_held_out_and_more_than_there_are_is_refused():
    split = Last(3).split(torch.arange(10), seed=5)
    assert split.train.tolist() == list(range(7))
    assert split.held_out.tolist() == [7, 8, 9]
    with pytest.raises(InputError, match="10 of 10 items cannot be held out"):
        Last(10).split(torch.arange(10), seed=0)


def test_a_fold_that_is_none_of_the_folds_is_refused():
    with pytest.raises(InputError, match="there is no fold 10 among 10"):
        Folds(10, 10)


# Numbers made of other numbers


def test_a_ratio_and_a_weighted_mean_are_those_of_the_scores(ledger):
    runs = [finished(ledger, replace(BASE, split=Folds(10, 0)), seed) for seed in (0, 1)]
    attacks = [published(ledger, Attack(epsilon=0.02, items=20), run) for run in runs]
    first, second = (ledger.read(run).scores for run in attacks)
    ratio = measured(ScoreRatio(), ledger, *attacks).scores
    assert ratio["nll_gold_attacked"] == first["nll_gold_attacked"] / second["nll_gold_attacked"]
    mixed = measured(WeightedMean((1.0, 3.0), checkpoint="last"), ledger, runs[0], attacks[1]).scores
    own = ledger.read(runs[0]).scores["last"]["raw"]
    assert mixed["accuracy"] == pytest.approx(0.25 * own["accuracy"] + 0.75 * second["accuracy"])
    with pytest.raises(InputError, match="Give one weight per run"):
        measured(WeightedMean((1.0,)), ledger, *runs)


def test_an_attack_as_printed_is_on_all_images_cropped_and_flipped(ledger):
    run_id = finished(ledger, BASE)
    result = measured(AugmentedAttack(epsilon=0.0, padding=1), ledger, run_id)
    assert result.facts["items"]["evaluation"] == len(DIGITS)
    setup = TrainingSetup.of(ledger.read(run_id).spec, ledger)
    x = CropFlip(1)(DIGITS.x, generator(setup.seed, "attack", "augment"))
    by_hand = evaluate.predict(setup.trained(run_id, ledger, "last"), x).log_probs.argmax(1) == DIGITS.labels
    assert result.scores["accuracy_attacked"] == pytest.approx(float(by_hand.double().mean()), abs=1e-3)


def test_the_gallery_has_items_with_the_same_first_choice_the_most_different_first(ledger):
    run_id = finished(ledger, BASE)
    result = measured(SameFirstChoice(HERE, "net", items=4, per_class=1, checkpoint="last"), ledger, run_id)
    stored = ledger.predictions(run_id, "last")
    probs = torch.softmax(torch.from_numpy(stored["logits"]).double(), 1)
    people = torch.from_numpy(stored["people"])
    best = []
    for item in range(len(people)):
        top = people[item].max()
        if int((people[item] == top).sum()) == 1 and people[item].argmax() == probs[item].argmax():
            best.append((float((people[item] - probs[item]).abs().sum() / 2), int(people[item].argmax()), item))
    best.sort(key=lambda entry: -entry[0])
    expected, classes = [], set()
    for _, winner, item in best:
        if winner not in classes:
            classes.add(winner)
            expected.append(int(stored["rows"][item]))
    pictures = result.arrays[GALLERY]
    assert pictures["rows"].tolist() == expected[:4]
    assert np.array_equal(pictures["x"], DIGITS.x[torch.tensor(expected[:4])].numpy())
    assert result.facts["candidates"] == len(best)


def test_a_measurement_node_can_be_what_a_run_starts_from():
    grid = tuple(Training(replace(SEARCHED, optimiser=Sgd(lr=lr)), 0) for lr in (0.1, 0.01))
    planned = _plan(Training(BASE, 0, init=Measurement(WinnerScores(), grid)))
    assert planned.specs[-1].inputs["init"] == (planned.specs[-2].id,)
    assert planned.specs[-2].settings["name"] == "winner_scores"
