"""Every recipe of 003, at smoke scale, on tiny files in the official formats."""

import csv
import math
import re

import pytest

from dissensus import datasets, report
from dissensus.executors import local
from dissensus.experiment import plan
from dissensus.ledger import Ledger
from dissensus.recipes import RECIPES, numbers
from dissensus.recipes.paper003 import PAPER003 as OURS
from dissensus.recipes.paper003.settings import MAIN, at, methods
from dissensus.runner import Execution
from finished import write_cifar10h, write_sample, write_svhn


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The runs of all recipes, computed once each."""
    root = tmp_path_factory.mktemp("data")
    write_cifar10h(root, 400)
    write_svhn(root)
    write_sample(root, "cifar100", classes=100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISSENSUS_DATA", str(root))
        found = Ledger(tmp_path_factory.mktemp("ledger"))
        specs = {spec.id: spec for name in OURS for spec in planned(name).specs}
        ended = local.run_all(list(specs.values()), found, workers=2, execution=Execution(threads=1))
        assert not ended.failed
        assert not ended.blocked
        yield found


def planned(name):
    return plan(RECIPES[name]("smoke", None), datasets.load, name)


@pytest.mark.parametrize("name", OURS)
def test_every_cell_of_a_recipe_is_finite(name, ledger, tmp_path):
    manifest = planned(name).manifest
    report.write(manifest, ledger, tmp_path)
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert lines
    assert not [line for line in lines if line["statistic"] == "not_finished"]
    tables = {table.title for table in manifest.tables}
    for line in lines:
        if line["table"] in tables and line["metric"] not in manifest.columns:
            continue  # other scores that every run has: an infinite or undefined one is said where it is shown
        assert math.isfinite(float(line["value"])), line
    text = (tmp_path / "results.md").read_text()
    assert "exhibit not finished" not in text
    assert "| – |" not in text
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_rows_differ_in_what_they_name_and_in_nothing_else():
    data = type("Data", (), {"digest": "0"})()
    for scale in ("smoke", "laptop", "paper"):
        soft = methods(at(scale).base)["Soft"].spec(data, 0).settings
        for label, recipe in methods(at(scale).base).items():
            own = recipe.spec(data, 0).settings
            differing = {name for name in own if own[name] != soft[name]}
            assert differing <= {"target", "delivery", "mixing"}, label
            assert differing or label == "Soft"


def test_the_paper_scale_is_what_the_paper_says():
    said = {(one.row, one.column): one.mean for one in numbers.printed("003", "text")}
    recipe, run = at("paper").base, at("paper")
    assert recipe.optimiser.lr == said["Training", "lr"]
    assert recipe.optimiser.momentum == said["Training", "momentum"]
    assert recipe.optimiser.weight_decay == said["Training", "weight_decay"]
    assert (recipe.epochs, recipe.batch) == (said["Training", "epochs"], said["Training", "batch"])
    assert 1 - recipe.split.fraction == said["Data", "training_share"]
    assert len(run.main) == said["Main comparison", "seeds"]
    assert len(run.few) == said["Annotator-count sweep", "seeds"]
    assert methods(recipe)["Deterministic"].delivery.seed_offset == said["Deterministic", "seed_offset"]


def test_the_laptop_scale_runs_what_was_asked_for_first():
    run = at("laptop")
    assert all(len(run.seeds(method)) == 5 for method in MAIN)
    assert {len(run.seeds(method)) for method in methods(run.base) if method not in MAIN} == {2}
    assert run.votes[0] == 5
    assert len(run.held) == len(run.geometry) == 3


def test_recipes_share_their_runs(ledger):
    apart = sum(len(planned(name).specs) for name in OURS)
    assert len(ledger.ids()) < 0.6 * apart


def test_seeds_can_be_chosen():
    experiment = RECIPES["003/table2"]("smoke", (3, 5, 8))
    manifest = plan(experiment, lambda *_, **__: type("Data", (), {"digest": ""})(), "").manifest
    assert {tuple(row.runs) for table in manifest.tables for row in table.rows} == {(3, 5, 8)}
