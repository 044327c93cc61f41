"""Every recipe of 003, at smoke scale, on tiny files in the official formats."""

import csv
import math
import re

import pytest
from dissensus.report.exhibits import value_of

from dissensus import datasets, report
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.experiments.description import plan
from dissensus.recipes import RECIPES
from dissensus.recipes import printed as numbers
from dissensus.recipes.paper003 import PAPER003 as OURS
from dissensus.recipes.paper003.settings import HELD, MAIN, at, methods
from dissensus.store.ledger import Ledger
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
        ended = LocalExecutor(2, Execution(threads=1)).run(list(specs.values()), found)
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
    for number, exhibit in enumerate(manifest.exhibits, start=1):
        for points in exhibit.cells.values():
            for run in (run for runs in points.values() for run in runs):
                assert all(is_told(ledger.read(run), path) for path in exhibit.values if path), (exhibit.title, run)
        assert exhibit.show == "table" or list(tmp_path.glob(f"figures/x{number}-*.svg")), exhibit.title


def is_told(run, path):
    """Whether a record has a finite number there, or a list of which some are."""
    found = value_of(run, path)
    return any(one is not None and math.isfinite(one) for one in (found if isinstance(found, list) else [found]))


DIFFERING = {
    "Soft": set(),
    "SLS": {"delivery"},
    "Multipass": {"delivery"},
    "Majority": {"target"},
    "Deterministic": {"delivery"},
    "Shuffled SLS": {"target", "delivery"},
    "Label smoothing": {"target"},
    "Mixup": {"target", "mixing"},
}


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_rows_differ_in_what_they_name_and_in_nothing_else(scale):
    run, data = at(scale), type("Data", (), {"digest": "0"})()

    def differing(recipe, base):
        own, other = (one.spec(data, 0).settings for one in (recipe, base))
        return {name for name in own if own[name] != other[name]}

    assert {label: differing(recipe, run.base) for label, recipe in run.own.items()} == DIFFERING
    assert run.own["Majority"].target == run.own["Mixup"].target
    assert run.own["SLS"].delivery == run.own["Shuffled SLS"].delivery
    for votes in run.votes:
        soft = run.sparse("Soft", votes)
        assert differing(soft, run.base) == {"votes"}
        for method in run.sweep:
            assert differing(run.sparse(method, votes), soft) == DIFFERING.get(method, {"target"}), method
    for epochs in HELD:
        assert differing(run.holding(epochs), run.own["SLS"]) == {"delivery"}
        assert run.holding(epochs).delivery.every == epochs


def test_tests_are_those_of_the_paper():
    """One-sided where it says or must have, against its baseline, over its families."""
    found = {name: RECIPES[f"003/{name}"]("paper", None).exhibits for name in ("table1", "table2", "table3", "table8")}
    hard = [one for one in found["table1"] if one.title.startswith("Hard deliveries")]
    assert {(one.baseline, one.alternative) for one in hard} == {("Soft", "less")}
    assert [sum(len(of) for method, of in one.cells.items() if method != "Soft") for one in hard] == [12, 12]
    assert {(one.baseline, one.alternative) for one in found["table2"]} == {("Soft", "two-sided")}
    assert {(one.baseline, one.alternative) for one in found["table3"]} == {("SLS", "two-sided")}
    assert (found["table8"][0].baseline, found["table8"][0].alternative) == ("Soft", "greater")
    assert list(found["table8"][0].cells) == ["SLS", "Soft"]


def test_every_printed_number_is_shown_or_listed():
    for name in OURS:
        if name != "003/quality":  # which shows one row of Table 2
            experiment = RECIPES[name]("laptop", None)
            assert len(experiment.printed) == len(numbers.printed("003", name.removeprefix("003/"))), name


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
