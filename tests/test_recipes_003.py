"""Every recipe of 003, at smoke scale, on tiny files in the official formats."""

import csv
import math
import re
from dataclasses import replace

import pytest

from dissensus import datasets, report
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.experiments.description import CurvePlot, GapTable, ScoreTable, ValueTable
from dissensus.experiments.plan import make_plan
from dissensus.models import ResNet18
from dissensus.recipes import RECIPES, find
from dissensus.recipes import printed as numbers
from dissensus.recipes.paper003 import PAPER003 as OURS
from dissensus.recipes.paper003.regularisation import regimes
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
    return make_plan(RECIPES[name]("smoke", None), datasets.digest_of, name)


@pytest.mark.parametrize("name", OURS)
def test_every_cell_of_a_recipe_is_finite(name, ledger, tmp_path):
    experiment = planned(name).experiment
    report.write(experiment, ledger, tmp_path)
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert lines
    assert not [line for line in lines if line["statistic"] == "not_finished"]
    shown = {table.title: {table.primary, *table.columns} for table in experiment.score_tables}
    for line in lines:
        if line["metric"] not in shown.get(line["table"], {line["metric"]}):
            continue  # other scores that every run has: an infinite or undefined one is said where it is shown
        assert math.isfinite(float(line["value"])), line
    text = (tmp_path / "results.md").read_text()
    assert "exhibit not finished" not in text
    assert "| – |" not in text
    assert not re.search(r"\bnan\b|\binf\b", text)
    for exhibit in experiment.exhibits:
        for run in exhibit.runs():
            assert all(has_numbers(ledger.read(run), value) for value in values_of(exhibit)), (exhibit.title, run)
        pictured = isinstance(exhibit, CurvePlot | GapTable) or (
            isinstance(exhibit, ValueTable) and exhibit.picture != "none"
        )
        assert bool(list(tmp_path.glob(f"figures/{exhibit.key}-*.svg"))) == pictured, exhibit.title


def values_of(exhibit):
    if isinstance(exhibit, ValueTable):
        return list(exhibit.columns.values())
    return [curve.y for curve in exhibit.curves.values()] if isinstance(exhibit, CurvePlot) else []


def has_numbers(run, value):
    """Whether a record has a finite number there, or a list with some."""
    content = value.read(run)
    return any(one is not None and math.isfinite(one) for one in (content if isinstance(content, list) else [content]))


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


@pytest.mark.parametrize("scale", ["smoke", "laptop", "miniature", "paper"])
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
    tables = {name: [one for one in of if isinstance(one, ValueTable)] for name, of in found.items()}
    hard = [one for one in tables["table1"] if one.key.startswith("tested")]
    assert {(one.baseline, one.alternative) for one in hard} == {("Soft", "less")}
    assert [sum(len(of) for method, of in one.cells.items() if method != "Soft") for one in hard] == [12, 12]
    assert {(one.baseline, one.alternative) for one in tables["table2"]} == {("Soft", "two-sided")}
    assert {(one.baseline, one.alternative) for one in tables["table3"]} == {("SLS", "two-sided")}
    assert (tables["table8"][0].baseline, tables["table8"][0].alternative) == ("Soft", "greater")
    assert list(tables["table8"][0].cells) == ["SLS", "Soft"]


NOT_IN_THE_PAPER = ("003/precision", "003/quality", "003/regularisation")
NO_CELL = {
    "003/table1": {"p_wilcoxon_min", "cells_better", "cells_all_seeds_agree", "cells_significant_after_holm"},
    "003/table3": {"p_wilcoxon_other_metrics_min", "p_wilcoxon_min"},
    "003/table7": {"detectors_better", "detectors_highest"},
    "003/figure1": {"cells_better"},
    "003/figure2": {"improvement_spearman_js_min", "improvement_spearman_js_max"},
    "003/figure4": {"seeds_worse_than_sls"},
}
"""Columns of printed numbers that are no cell of ours, by recipe: reports list them."""


@pytest.mark.parametrize("name", [name for name in OURS if name not in NOT_IN_THE_PAPER])
def test_at_paper_scale_every_printed_number_stands_beside_a_cell_but_for_these(name):
    experiment = RECIPES[name]("paper", None)
    beside = [printed.number for exhibit in experiment.exhibits for printed in exhibit.printed]
    stored = numbers.printed_numbers("003", name.removeprefix("003/"))
    assert sorted(map(repr, (*beside, *experiment.apart))) == sorted(map(repr, stored))
    assert {number.column for number in experiment.apart} == NO_CELL.get(name, set())


def test_the_paper_scale_is_what_the_paper_says():
    said = {(one.row, one.column): one.mean for one in numbers.printed_numbers("003", "text")}
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
    tables = [exhibit for exhibit in experiment.exhibits if isinstance(exhibit, ScoreTable)]
    assert {tuple(row[""]) for table in tables for row in table.cells.values()} == {("3", "5", "8")}


def test_the_miniature_is_the_papers_training_on_a_narrower_network():
    small, paper = at("miniature").base, at("paper").base
    assert replace(small, model=paper.model, precision=paper.precision) == paper
    assert small.model.width * 8 == paper.model.width


def test_networks_are_called_by_their_width():
    """A quarter of the width of ResNet-18 is 16 channels in the first stage, and the wider one costs more."""
    compared = regimes("miniature", None)
    wide, narrow = (compared[f"ResNet-18 / {part}, crop and flip"].base for part in (4, 8))
    assert (wide.model.width * 4, narrow.model.width * 8) == (ResNet18().width,) * 2
    assert replace(wide, model=narrow.model) == narrow


def test_pairs_of_precision_differ_in_nothing_else():
    for experiment in (find("003/precision", scale) for scale in ("smoke", "miniature")):
        for pair in experiment.exhibits[0].cells.values():
            for seed, node in pair["float32"].items():
                other = pair["bfloat16"][seed]
                assert (node.seed, node.recipe.precision) == (other.seed, "float32")
                assert replace(other.recipe, precision="float32") == node.recipe != other.recipe
