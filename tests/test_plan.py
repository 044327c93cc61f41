"""From a described experiment to the graph of specs that it needs."""

from dataclasses import replace

import pytest

from dissensus import datasets
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import Ensemble, Evaluation, Lowest, VoteStatistics, measure_spec
from dissensus.errors import InputError
from dissensus.experiments.description import Claim, Experiment, ValueTable
from dissensus.experiments.plan import Measurement, Training, Tuned, make_plan, measured, score_table, seeded, size
from dissensus.experiments.values import Measured
from dissensus.models import Mlp
from dissensus.recipes import RECIPES, find, scales_of
from dissensus.training.optimisers import Adam
from dissensus.training.recipe import Recipe

BASE = Recipe(model=Mlp(), optimiser=Adam(0.1), epochs=2)
SLOW = replace(BASE, optimiser=Adam(0.01))
ASKED = []
V = Measured("v")


def digest_of(name, options):
    ASKED.append((name, options))
    return f"digest of {name}"


def experiment(*exhibits, claims=()):
    return Experiment(key="n", title="t", question="q", scale="smoke", exhibits=exhibits, claims=claims)


def table(cells):
    return ValueTable(key="e", title="e", cells=cells, columns={"v": V})


def test_equal_specs_are_one_run_and_each_data_set_is_asked_for_once():
    ASKED.clear()
    scores = score_table({"a": BASE, "b": SLOW}, (0, 1), key="p", title="p", baseline="a")
    planned = make_plan(experiment(scores, replace(scores, key="again")), digest_of, "c")
    assert len(planned.specs) == 4
    assert ASKED == [("digits", ())]
    first, again = planned.experiment.exhibits
    assert first.cells == again.cells
    assert planned.experiment.command == "c"


def test_a_row_may_have_seeds_of_its_own():
    scores = score_table({"a": BASE, "b": SLOW}, (0, 1), {"b": (1,)}, key="p", title="p", baseline="a")
    planned = make_plan(experiment(scores), digest_of, "c")
    assert [list(row[""]) for row in planned.experiment.exhibits[0].cells.values()] == [["0", "1"], ["1"]]


def test_measures_come_after_what_they_need_and_bring_it_along():
    runs = seeded(BASE, (0, 1))
    both = Measurement(Ensemble(), tuple(runs.values()))
    cells = {"one": {"": measured(Evaluation(), runs)}}
    planned = make_plan(
        experiment(table(cells), claims=(Claim("c", "above", {"both": {"": both}}, (V,), 0.0),)), digest_of, "c"
    )
    assert [spec.kind for spec in planned.specs] == ["train", "train", "measure", "measure", "relate"]
    ids = tuple(spec.id for spec in planned.specs)
    assert planned.experiment.exhibits[0].cells == {"one": {"": {"0": ids[2], "1": ids[3]}}}
    assert planned.experiment.claims[0].groups == {"both": {"": ids[4]}}
    assert planned.specs[4].inputs == {"of": ids[:2]}


def test_a_measure_of_data_names_them_by_digest():
    named = DataRef("digits", (("votes", 3),))
    (spec,) = make_plan(experiment(table({"one": {"": {"": Measurement(VoteStatistics(named))}}})), digest_of, "c").specs
    assert spec == measure_spec(VoteStatistics(replace(named, digest="digest of digits")), ())


def test_a_tuned_row_waits_for_its_grid_and_names_the_choice():
    grid = tuple(replace(recipe, keep="curve") for recipe in (BASE, SLOW))
    scores = score_table({"a": Tuned(BASE, grid)}, (0, 1), key="p", title="p", baseline="a")
    *candidates, chosen, first, second = make_plan(experiment(scores), digest_of, "c").specs
    assert chosen == measure_spec(Lowest(), tuple(spec.id for spec in candidates))
    assert {spec.settings["seed"] for spec in candidates} == {0}
    assert first.inputs == second.inputs == {"chosen": (chosen.id,)}
    assert first.settings["chosen"]["by"] == chosen.id


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_can_be_planned_at_each_of_its_scales_whatever_the_data(name):
    for scale in scales_of(name):
        assert size(find(name, scale)) > 0


def test_a_scale_that_a_recipe_does_not_have_is_refused():
    with pytest.raises(InputError, match="recipe 002/table1: it has no scale 'miniature'"):
        find("002/table1", "miniature")


def test_the_size_of_the_demo_is_counted_without_its_data():
    demo = RECIPES["demo"]("smoke", (0, 1, 2))
    of_data = make_plan(demo, datasets.digest_of, "")
    assert size(demo) == len(of_data.specs)


def test_runs_of_one_recipe_differ_in_their_seed_alone():
    assert seeded(BASE, (3,)) == {"3": Training(BASE, 3)}
