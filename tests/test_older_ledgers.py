"""A ledger that the version before wrote is read, believed and gone on with.

data/ledger_of_84acdc0.tar.gz was written by that commit: one finished run, one measure of it, one interrupted run.
"""

import tarfile
from pathlib import Path

import pytest

from dissensus import datasets
from dissensus.engine.measures import Convergence, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.labels.delivery import Sampled
from dissensus.models import Linear
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import Summary
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Recipe
from dissensus.training.splits import Holdout

DATA = datasets.load("digits")
RECIPE = Recipe(
    model=Linear(),
    delivery=Sampled(),
    optimiser=AdamW(lr=0.01),
    epochs=2,
    batch=256,
    split=Holdout(0.01),
    best=Best("evaluation"),
)


@pytest.fixture
def older(tmp_path):
    with tarfile.open(Path(__file__).parent / "data" / "ledger_of_84acdc0.tar.gz") as archive:
        archive.extractall(tmp_path / "older", filter="data")
    return Ledger(tmp_path / "older")


def test_all_that_it_holds_can_be_read(older):
    trained, measured = older.ids()
    assert all(older.verify(run_id) == [] for run_id in older.ids())
    assert all(older.read(run_id).id == run_id for run_id in older.ids())
    assert older.read(trained).scores["best"]["tempered_votes"]["soft_nll"] > 0
    assert older.read(measured).spec.needs == (trained,)
    assert {older.predictions(trained, checkpoint)["logits"].shape for checkpoint in ("last", "best")} == {(20, 10)}
    assert older.gallery(trained)["x"].shape == (12, 1, 8, 8)
    assert older.weights(trained, "best").keys() == older.weights(trained, "last").keys()
    indexed = older.summaries()
    (older.folder / ".index.json").unlink()
    assert older.summaries() == indexed == [Summary.of(run) for run in older]


def test_a_plan_of_today_finds_its_runs_there(older):
    spec = RECIPE.spec(DATA, 0)
    assert Recipe.of(older.read(spec.id).spec.settings) == RECIPE
    assert set(older.ids()) == {spec.id, measure_spec(Convergence(), (spec.id,)).id}


def test_a_run_that_it_left_interrupted_ends_as_if_nothing_had_happened(older, tmp_path):
    spec = RECIPE.spec(DATA, 1)
    assert older.begun() == {spec.id}
    one_thread = Execution(threads=1)
    resumed, whole = execute(spec, older, one_thread), execute(spec, Ledger(tmp_path / "whole"), one_thread)
    assert resumed.provenance["resumed"] == 1
    loss, unbroken = (run.scores["last"]["raw"]["soft_nll"] for run in (resumed, whole))
    assert loss == pytest.approx(unbroken, abs=1e-4)  # not to the bit: it was begun on another machine
