import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets import cifar10, feature_files
from dissensus.engine.measures import Ensemble, Evaluation, Lowest, measure_spec
from dissensus.engine.one_run import execute
from dissensus.engine.setup import TrainingSetup
from dissensus.errors import InputError
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.targets import Majority, Shuffled, Teacher
from dissensus.models import Linear, Mlp, Smallcnn, moments
from dissensus.store.ledger import Ledger
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Chosen, Recipe, Resampled
from dissensus.training.schedules import EarlyStopping
from dissensus.training.splits import Holdout
from dissensus.votes import Votes
from finished import write_cifar10h

SMALL = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=64)
DATA = datasets.load("digits")


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def test_a_run_is_finished_with_scores_curve_predictions_pictures_and_weights(ledger):
    seen = []
    run = execute(replace(SMALL, model=Smallcnn()).spec(DATA, 0), ledger, progress=lambda *at: seen.append(at))
    assert [(epoch, epochs) for epoch, epochs, _ in seen] == [(1, 2), (2, 2)]
    assert set(run.scores["last"]) == {"raw", "tempered_votes", "tempered_gold"}
    assert run.scores["last"]["raw"]["soft_nll"] > run.scores["last"]["raw"]["soft_nll_floor"]
    assert run.scores["last"]["raw"]["kl_to_truth"] > 0
    assert [len(column) for column in run.curve.values()] == [2, 2, 2]
    assert np.isclose(run.curve["soft_nll"][-1], run.scores["last"]["raw"]["soft_nll"], atol=1e-6)
    kept = ledger.predictions(run.id, "last")
    assert len(kept["rows"]) == run.facts["items"]["evaluation"] == len(kept["ids"])
    assert ledger.gallery(run.id)["x"].shape == (12, 1, 8, 8)
    assert set(ledger.weights(run.id, "last")) > {"normalise.mean"}
    assert any("simulated" in note for note in run.facts["notes"])
    assert run.provenance["torch"] == torch.__version__
    json.dumps(run.to_json(), allow_nan=False)


def test_images_of_cifar_are_normalised_by_the_published_moments_and_their_features_by_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    write_cifar10h(tmp_path)
    images = datasets.load("cifar10h")
    x = np.random.default_rng(0).normal(3, 2, (len(images), 5)).astype(np.float32)
    feature_files.store(feature_files.Features(images.ids, x, {"encoder": "toy"}), "cifar10h", "toy", tmp_path)
    recipe = replace(SMALL, data="cifar10h", batch=10)
    stage = TrainingSetup.of(recipe.spec(images, 0), Ledger(tmp_path / "runs"))
    mean, std = cifar10.MOMENTS
    assert torch.equal(stage.model().normalise.mean.flatten(), torch.tensor(mean))
    assert torch.equal(stage.model().normalise.std.flatten(), torch.tensor(std))
    assert datasets.load("cifar10h", items=50).moments == cifar10.MOMENTS
    features = datasets.load("cifar10h", features="toy")
    assert features.moments is None
    stage = TrainingSetup.of(replace(recipe, options=(("features", "toy"),)).spec(features, 0), Ledger(tmp_path / "runs"))
    assert torch.equal(stage.model().normalise.mean, moments(features.x[stage.train])[0])


def test_a_finished_run_is_never_computed_again(ledger):
    spec = SMALL.spec(DATA, 1)
    first = execute(spec, ledger)
    assert execute(spec, ledger, progress=lambda *progress: pytest.fail("it trained again")) == first


def test_the_same_spec_gives_the_same_numbers_in_another_ledger(tmp_path):
    spec = replace(SMALL, model=Mlp(hidden=(16,)), delivery=Sampled()).spec(DATA, 2)
    one, two = execute(spec, Ledger(tmp_path / "a")), execute(spec, Ledger(tmp_path / "b"))
    assert one.scores == two.scores
    assert one.curve == two.curve


def test_deliveries_share_split_and_initial_weights_and_nothing_but_labels_differs(tmp_path):
    frozen = replace(SMALL, model=Mlp(hidden=(8,)), optimiser=AdamW(lr=1e-30, weight_decay=0.0), epochs=1)
    ledger = Ledger(tmp_path)
    runs = [
        execute(replace(frozen, delivery=one).spec(DATA, 0), ledger) for one in (frozen.delivery, Sampled(), Multipass())
    ]
    rows = [ledger.predictions(run.id, "last")["rows"] for run in runs]
    weights = [torch.cat([w.reshape(-1) for w in ledger.weights(run.id, "last").values()]) for run in runs]
    for other in (1, 2):
        assert (rows[0] == rows[other]).all()
        assert torch.allclose(weights[0], weights[other], atol=1e-20)


def test_sparse_votes_reach_the_training_and_full_votes_the_judging(ledger):
    sparse = execute(replace(SMALL, votes=Resampled(1, replace=False)).spec(DATA, 0), ledger)
    kept = ledger.predictions(sparse.id, "last")
    assert (kept["counts"].sum(1) == 50).all()
    assert sparse.scores["last"]["raw"]["soft_nll_floor"] > 0


def test_the_best_validation_epoch_is_kept_beside_the_last(ledger):
    recipe = replace(
        SMALL,
        optimiser=AdamW(lr=1.0),
        epochs=6,
        validation=Holdout(0.25),
        best=Best(),
        stopping=EarlyStopping(patience=2),
    )
    run = execute(recipe.spec(DATA, 0), ledger)
    losses = run.curve["validation_loss"]
    assert run.facts["best_epoch"] == int(np.argmin(losses))
    assert set(run.scores) == {"last", "best"}
    assert len(losses) <= 6
    again = execute(measure_spec(Evaluation("best"), (run.id,)), ledger)
    assert np.isclose(again.scores["best"]["raw"]["soft_nll"], run.scores["best"]["raw"]["soft_nll"], atol=1e-9)


def test_a_student_learns_from_its_teachers(ledger):
    teachers = tuple(execute(replace(SMALL, epochs=10).spec(DATA, seed), ledger).id for seed in (5, 6))
    student = replace(SMALL, target=Teacher(teachers), epochs=10)
    spec = student.spec(DATA, 7)
    assert spec.needs == tuple(sorted(teachers))
    run = execute(spec, ledger)
    assert run.scores["last"]["raw"]["accuracy"] > 0.8


def test_a_shuffled_teacher_waits_for_its_teachers_and_teaches_nothing(ledger):
    teacher = execute(replace(SMALL, epochs=10).spec(DATA, 5), ledger).id
    spec = replace(SMALL, target=Shuffled(Teacher((teacher,))), epochs=10).spec(DATA, 7)
    assert spec.inputs == {"teacher": (teacher,)}
    assert Recipe.of(spec.settings).spec(DATA, 7) == spec
    assert execute(spec, ledger).scores["last"]["raw"]["accuracy"] < 0.5


def test_an_ensemble_is_scored_on_the_items_that_all_its_members_held_out(ledger):
    members = tuple(execute(replace(SMALL, target=Majority()).spec(DATA, seed), ledger).id for seed in (0, 1))
    run = execute(measure_spec(Ensemble(), members), ledger)
    rows = [set(ledger.predictions(one, "last")["rows"].tolist()) for one in members]
    assert run.facts["items"]["evaluation"] == len(rows[0] & rows[1])
    alone = execute(measure_spec(Ensemble(), members[:1]), ledger)
    assert np.isclose(
        alone.scores["last"]["raw"]["soft_nll"], ledger.read(members[0]).scores["last"]["raw"]["soft_nll"], atol=1e-6
    )


def test_the_winner_of_a_grid_is_the_run_with_the_lowest_column(ledger):
    grid = tuple(execute(replace(SMALL, optimiser=AdamW(lr=lr)).spec(DATA, 0), ledger).id for lr in (1e-5, 1e-2))
    chosen = execute(measure_spec(Lowest("train_loss"), grid), ledger)
    assert chosen.facts["winner"] == grid[1]
    with pytest.raises(InputError, match="no 'validation_loss'"):
        execute(measure_spec(Lowest(), grid), ledger)


def test_rounding_does_not_choose_between_runs_that_are_the_same_but_for_it(ledger):
    first = execute(SMALL.spec(DATA, 0), ledger)
    least = min(first.curve["train_loss"])
    specs = {by: replace(SMALL, epochs=SMALL.epochs + 1).spec(DATA, seed) for seed, by in ((7, 1e-9), (8, 1e-3))}
    for by, spec in specs.items():
        ledger.publish(replace(first, spec=spec, curve={"train_loss": [least * (1 - by)]}), {}, {})
    a_tie = execute(measure_spec(Lowest("train_loss"), (first.id, specs[1e-9].id)), ledger)
    better = execute(measure_spec(Lowest("train_loss"), (first.id, specs[1e-3].id)), ledger)
    assert (a_tie.facts["winner"], better.facts["winner"]) == (first.id, specs[1e-3].id)


def test_data_that_changed_since_the_plan_are_refused(tmp_path):
    spec = SMALL.spec(DATA, 0)
    spec.settings["data"]["digest"] = "0" * 16
    with pytest.raises(InputError, match="planned on 0000000000000000"):
        execute(spec, Ledger(tmp_path))


def test_of_a_run_that_keeps_its_curve_alone_nothing_else_is_kept(tmp_path):
    ledger, data = Ledger(tmp_path), DATA
    whole = replace(SMALL, validation=Holdout(0.25), best=Best("validation"))
    slim = execute(replace(whole, keep="curve").spec(data, 0), ledger)
    assert set(slim.curve) == {"train_loss", "validation_loss"}
    assert slim.scores == {}
    assert sorted(path.suffix for path in (tmp_path / slim.id).iterdir() if path.suffix not in ("", ".json")) == []
    full = execute(whole.spec(data, 0), ledger)
    assert {name: full.curve[name] for name in slim.curve} == slim.curve
    assert slim.facts["best_epoch"] == full.facts["best_epoch"]


def test_a_run_that_keeps_its_curve_alone_cannot_choose_its_epoch_on_the_evaluation_items():
    with pytest.raises(InputError, match="no best epoch there"):
        replace(SMALL, keep="curve", best=Best("evaluation"))


def test_a_monitored_run_follows_loss_accuracy_and_kl_on_all_three_parts(tmp_path):
    data = DATA
    recipe = replace(SMALL, validation=Holdout(0.25), monitored=True, target=Majority())
    run = execute(recipe.spec(data, 0), Ledger(tmp_path))
    parts, names = ("train", "validation", "evaluation"), ("loss", "accuracy", "kl")
    assert {f"{name}_on_{part}" for part in parts for name in names} <= set(run.curve)
    assert run.curve["loss_on_validation"] == pytest.approx(run.curve["validation_loss"])
    assert run.curve["accuracy_on_evaluation"] == run.curve["accuracy"]
    assert run.curve["kl_on_evaluation"][-1] == pytest.approx(run.scores["last"]["raw"]["kl"])


def test_a_chosen_run_is_trained_as_the_winner_was_and_says_so(tmp_path):
    ledger, data = Ledger(tmp_path), DATA
    base = replace(SMALL, validation=Holdout(0.25), keep="curve", epochs=1)
    grid = [execute(replace(base, optimiser=AdamW(lr=lr)).spec(data, 0), ledger).id for lr in (1e-5, 0.01)]
    choice = execute(measure_spec(Lowest(), tuple(grid)), ledger)
    assert choice.facts["winner"] == grid[1]
    chosen = execute(replace(SMALL, chosen=Chosen(choice.id)).spec(data, 1), ledger)
    assert chosen.facts["chosen"]["optimiser"]["lr"] == 0.01
    assert chosen.facts["epochs"] == 1
    alone = execute(replace(SMALL, optimiser=AdamW(lr=0.01), epochs=1).spec(data, 1), ledger)
    assert alone.scores == chosen.scores


def test_a_class_that_nobody_chose_among_the_training_items_is_refused(tmp_path, monkeypatch):
    classes = (*DATA.classes, "ten")
    votes = Votes.from_counts(np.pad(DATA.votes.counts, ((0, 0), (0, 1))), classes=classes, items=DATA.votes.items)
    more = replace(DATA, classes=classes, votes=votes, truth=None)
    monkeypatch.setattr("dissensus.engine.setup.datasets.load", lambda name: more)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))  # what was loaded before does not count
    with pytest.raises(InputError, match="nobody chose 'ten'"):
        execute(SMALL.spec(more, 0), Ledger(tmp_path))
