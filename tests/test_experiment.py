"""From an experiment to the graph of specs that it needs."""

from dataclasses import replace

import pytest

from dissensus import datasets
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import Ensemble, Evaluation, Lowest, VoteStatistics, measure_spec
from dissensus.experiments.description import (
    Analysis,
    Claim,
    Exhibit,
    Experiment,
    Panel,
    Training,
    Tuned,
    plan,
    size,
)
from dissensus.models import Mlp
from dissensus.recipes import RECIPES
from dissensus.training.optimisers import Adam
from dissensus.training.recipe import Recipe

BASE = Recipe(model=Mlp(), optimiser=Adam(0.1), epochs=2)
SLOW = replace(BASE, optimiser=Adam(0.01))
LOADED = []


def load(name, **options):
    LOADED.append((name, options))
    return Data(name, ("a", "b"), ())


def experiment(**parts):
    return Experiment("n", "t", "q", parts.pop("panels", ()), (0, 1), "smoke", **parts)


def test_equal_specs_are_one_run_and_data_are_loaded_once():
    LOADED.clear()
    panel = Panel("p", {"a": BASE, "b": SLOW}, "a")
    planned = plan(experiment(panels=(panel, replace(panel, title="again"))), load, "c")
    assert len(planned.specs) == 4
    assert LOADED == [("digits", {})]
    first, again = planned.manifest.tables
    assert first.rows == again.rows


def test_a_row_may_have_seeds_of_its_own():
    planned = plan(experiment(panels=(Panel("p", {"a": BASE, "b": SLOW}, "a", seeds={"b": (1,)}),)), load, "c")
    assert [list(row.runs) for row in planned.manifest.tables[0].rows] == [[0, 1], [1]]


def test_measures_come_after_what_they_need_and_bring_it_along():
    runs = tuple(Training(BASE, seed) for seed in (0, 1))
    both = Analysis(Ensemble(), runs)
    cells = {"one": {"": tuple(Analysis(Evaluation(), run) for run in runs)}}
    claim = Claim("c", "above", {"both": (both,)}, ("v",))
    planned = plan(experiment(exhibits=(Exhibit("e", "table", cells, ("v",)),), claims=(claim,)), load, "c")
    assert [spec.kind for spec in planned.specs] == ["train", "train", "measure", "measure", "relate"]
    ids = tuple(spec.id for spec in planned.specs)
    assert planned.manifest.exhibits[0].cells == {"one": {"": ids[2:4]}}
    assert planned.manifest.claims[0].groups == {"both": ids[4:]}
    assert planned.specs[4].inputs == {"of": ids[:2]}


def test_a_measure_of_data_names_them_by_digest():
    cells = {"one": {"": (Analysis(VoteStatistics(DataRef("digits", (("votes", 3),)))),)}}
    (spec,) = plan(experiment(exhibits=(Exhibit("e", "table", cells, ("v",)),)), load, "c").specs
    assert LOADED[-1] == ("digits", {"votes": 3})
    assert spec == measure_spec(VoteStatistics(DataRef("digits", (("votes", 3),), load("digits").digest)))


def test_a_tuned_row_waits_for_its_grid_and_names_the_choice():
    grid = tuple(replace(one, keep="curve") for one in (BASE, SLOW))
    planned = plan(experiment(panels=(Panel("p", {"a": Tuned(BASE, grid)}, "a"),)), load, "c")
    *candidates, chosen, first, second = planned.specs
    assert chosen == measure_spec(Lowest(), tuple(spec.id for spec in candidates))
    assert {spec.settings["seed"] for spec in candidates} == {0}
    assert first.inputs == second.inputs == {"chosen": (chosen.id,)}
    assert first.settings["chosen"]["by"] == chosen.id


@pytest.mark.parametrize("name", RECIPES)
def test_the_size_of_a_recipe_is_that_of_its_plan_whatever_the_data(name):
    assert size(RECIPES[name]("smoke", None)) > 0


def test_the_size_of_the_demo_is_counted_without_its_data():
    experiment = RECIPES["demo"]("smoke", (0, 1, 2))
    assert size(experiment) == len(plan(experiment, datasets.load, "").specs)
