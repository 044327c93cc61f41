"""A run that diverged is a failed run that says so; others beside it are left alone."""

from dataclasses import replace

import pytest

import lives
from dissensus import datasets
from dissensus.engine.divergence import EXPLODED, DivergedError, refuse_explosion
from dissensus.engine.local import LocalExecutor
from dissensus.engine.measures import Lowest, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.worker import compute
from dissensus.errors import InputError
from dissensus.models import Linear, Mlp
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec
from dissensus.training.optimisers import Sgd
from dissensus.training.recipe import Recipe
from test_assignments import heads

DATA = datasets.load("digits")
ALONE = Execution(threads=1)
HOT = Recipe(model=Mlp(hidden=(8,)), optimiser=Sgd(lr=1e6, momentum=0.9), epochs=3, batch=256)
WARM = replace(HOT, model=Linear(), optimiser=Sgd(lr=1e9, momentum=0.0), epochs=1)


@pytest.mark.parametrize(("recipe", "why"), [(HOT, "not finite"), (WARM, "soft NLL on held-out items is")])
def test_a_run_whose_loss_is_not_finite_or_absurd_says_that_it_diverged(recipe, why, tmp_path):
    spec, ledger, events = recipe.spec(DATA, 0), Ledger(tmp_path), []
    compute(lives.alone(spec), ledger, ALONE, events.append)
    assert events[-1].kind == "failed"
    assert "training diverged at epoch" in events[-1].message
    assert why in events[-1].message
    assert f"Lower the learning rate, which is {recipe.optimiser.lr:g}" in events[-1].message
    assert "Traceback" not in events[-1].message
    assert spec.id not in ledger


def test_a_run_of_a_grid_may_diverge_and_never_wins(tmp_path):
    ledger, column = Ledger(tmp_path), "train_loss"
    tame = replace(HOT, optimiser=Sgd(lr=0.01))
    grid = [replace(recipe, keep="curve").spec(DATA, 0) for recipe in (HOT, tame)]
    for spec in grid:
        execute(spec, ledger, ALONE)
    assert None in ledger.read(grid[0].id).curve[column]
    chosen = execute(measure_spec(Lowest(column), tuple(spec.id for spec in grid)), ledger, ALONE)
    assert chosen.facts["winner"] == grid[1].id


def test_a_grid_that_diverged_as_a_whole_has_no_winner(tmp_path):
    ledger, spec = Ledger(tmp_path), Spec("train", {"seed": 0})
    ledger.publish(Run(spec, {}, {"validation_loss": [None, None]}, {}, {}), {}, {})
    with pytest.raises(InputError, match="every run of the grid diverged"):
        Lowest().compute((spec.id,), ledger, lambda done, total: None)


def test_in_a_stack_only_the_run_that_diverged_fails_and_the_others_keep_their_bits(tmp_path, monkeypatch):
    specs = heads(tmp_path / "data", monkeypatch)
    bad = specs[0].settings["seed"], specs[0].id
    good, ledger = Ledger(tmp_path / "good"), Ledger(tmp_path / "ledger")
    assert not LocalExecutor(1, ALONE).run(specs, good).failed

    def refuse(recipe, curve, once=refuse_explosion):
        if curve["soft_nll"] == good.read(bad[1]).curve["soft_nll"]:
            once(recipe, {"soft_nll": [EXPLODED * 2]})

    monkeypatch.setattr("dissensus.engine.stacked_runs.refuse_explosion", refuse)
    result = LocalExecutor(1, ALONE).run(specs, ledger)
    assert list(result.failed) == [bad[1]]
    assert "training diverged" in result.failed[bad[1]]
    for spec in specs[1:]:
        assert ledger.read(spec.id).scores == good.read(spec.id).scores
        assert ledger.read(spec.id).provenance["stacked"] == len(specs)


def test_a_good_run_is_not_called_diverged():
    refuse_explosion(HOT, {"soft_nll": [EXPLODED * 2, 60.0]})
    refuse_explosion(HOT, {})
    with pytest.raises(DivergedError):
        refuse_explosion(HOT, {"soft_nll": [1.0, None]})
