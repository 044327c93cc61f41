from dataclasses import replace

import pytest

from dissensus import datasets
from dissensus.engine.measures import Ensemble, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.experiments import cost as forecast_module
from dissensus.experiments.cost import forecast, training_cost
from dissensus.models import Linear, Mlp
from dissensus.store.ledger import Ledger
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe
from dissensus.training.splits import Holdout

DATA = datasets.load("digits")
QUICK = Recipe(model=Linear(), optimiser=AdamW(lr=0.01), epochs=2, batch=256)


def test_the_forecast_cost_is_what_a_run_counts_when_it_is_computed(tmp_path):
    for recipe in (QUICK, replace(QUICK, model=Mlp(hidden=(8,)), validation=Holdout(0.25))):
        spec = recipe.spec(DATA, 0)
        run = execute(spec, Ledger(tmp_path), Execution(threads=1))
        assert training_cost(spec.settings) == pytest.approx(run.facts["training_flops"], rel=0.01)


def test_a_forecast_knows_the_time_once_a_run_of_the_same_model_is_finished(tmp_path):
    ledger = Ledger(tmp_path)
    specs = [QUICK.spec(DATA, seed) for seed in range(4)]
    specs.append(measure_spec(Ensemble(), (specs[0].id, specs[1].id)))
    before = forecast(specs, ledger)
    assert (before.done, before.remaining, before.waiting, before.seconds) == (0, 5, 1, None)
    assert "unknown" in before.sentence(2)
    run = execute(specs[0], ledger, Execution(threads=1))
    after = forecast(specs, ledger)
    assert (after.done, after.remaining) == (1, 4)
    assert after.flops == pytest.approx(3 * run.facts["training_flops"], rel=0.01)
    assert after.seconds == pytest.approx(3 * run.provenance["seconds"], rel=0.01)
    other = [replace(QUICK, model=Mlp()).spec(DATA, 0)]
    assert forecast(other, ledger).seconds is None
    for spec in specs:
        execute(spec, ledger, Execution(threads=1))
    assert forecast(specs, ledger).sentence(1) == "All 5 runs are done."


def test_measures_take_the_time_that_finished_ones_of_their_name_took(tmp_path):
    ledger = Ledger(tmp_path)
    specs = [QUICK.spec(DATA, seed) for seed in range(3)]
    pairs = [measure_spec(Ensemble(), (specs[0].id, other.id)) for other in specs[1:]]
    for spec in specs:
        execute(spec, ledger, Execution(threads=1))
    before = forecast([*specs, *pairs], ledger)
    assert (before.seconds, before.measures, before.untimed) == (0.0, 2, ("ensemble",))
    assert "the time of ensemble is not known" in before.sentence(1)
    assert "about 0 s" not in before.sentence(1)  # of nothing that remains the time is known
    run = execute(pairs[0], ledger, Execution(threads=1))
    after = forecast([*specs, *pairs], ledger)
    assert after.seconds == pytest.approx(run.provenance["seconds"])
    assert after.untimed == ()


def test_a_forecast_of_many_runs_loads_their_data_once(tmp_path, monkeypatch):
    forecast_module._sizes.cache_clear()
    loads, load = [], datasets.load
    monkeypatch.setattr(datasets, "load", lambda *name, **options: loads.append(name) or load(*name, **options))
    rates = (0.1, 0.01, 0.001)
    specs = [replace(QUICK, optimiser=AdamW(lr=lr)).spec(DATA, seed) for lr in rates for seed in range(5)]
    assert forecast(specs, Ledger(tmp_path)).flops == pytest.approx(15 * training_cost(specs[0].settings))
    assert len(loads) == 1
