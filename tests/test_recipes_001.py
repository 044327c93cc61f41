"""Every recipe of 001, at smoke scale with all eight families, on tiny files in the official formats."""

import csv
import math
import re
from dataclasses import replace
from functools import cache

import pytest

from dissensus import datasets, report
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.errors import InputError
from dissensus.experiments.description import BarChart, ValueTable
from dissensus.experiments.plan import make_plan
from dissensus.models import DenseNet, PreactResNet, PyramidNet, ResNet, ResNeXt, ShakeShake, Vgg, WideResNet
from dissensus.recipes import RECIPES, find
from dissensus.recipes import printed as numbers
from dissensus.recipes.paper001 import PAPER001 as OURS
from dissensus.recipes.paper001.study import (
    CATEGORY,
    CONDITIONS,
    DISTILLED,
    ENSEMBLE,
    HARD,
    MIXUP,
    SAMPLED,
    SOFT,
    TRAINED,
    V4,
    V6,
    at,
)
from dissensus.store.ledger import Ledger
from dissensus.training.recipe import Recipe
from dissensus.training.schedules import Constant, Cosine, Multistep
from finished import write_cifar10_training, write_cifar10h, write_sample

FAMILIES = {
    "VGG": Vgg,
    "DenseNet": DenseNet,
    "PyramidNet": PyramidNet,
    "ResNet": ResNet,
    "ResNeXt": ResNeXt,
    "Wide ResNet": WideResNet,
    "ResNet preact": PreactResNet,
    "Shake-Shake": ShakeShake,
}

AS_PRINTED = ("001/table2", "001/figure2")
"""Run by the authors' protocol, too: tuned on one holdout, and from scratch on folds. The others share their runs."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The runs of all recipes, computed once each."""
    root = tmp_path_factory.mktemp("data")
    write_cifar10h(root, 200)
    write_cifar10_training(root, 200)
    for name in ("cinic10-imagenet", "imagenet-far"):
        write_sample(root, name, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISSENSUS_DATA", str(root))
        found = Ledger(tmp_path_factory.mktemp("ledger"))
        plans = [*map(planned, OURS), *(planned(name, as_printed=True) for name in AS_PRINTED)]
        specs = {spec.id: spec for plan in plans for spec in plan.specs}
        ended = LocalExecutor(2, Execution(threads=1)).run(list(specs.values()), found)
        assert not ended.failed
        assert not ended.blocked
        yield found


def planned(name, **options):
    return make_plan(find(name, "smoke", **options), datasets.digest_of, name)


@cache
def specs_of(name, scale, **options):
    """What would be trained, whatever the data."""
    plan = make_plan(find(name, scale, **options), lambda dataset, chosen: "0", "")
    return tuple(spec for spec in plan.specs if spec.kind == "train")


@pytest.mark.parametrize(
    ("name", "as_printed"), [*((name, False) for name in OURS), *((name, True) for name in AS_PRINTED)]
)
def test_every_cell_of_a_recipe_is_finite(name, as_printed, ledger, tmp_path):
    experiment = planned(name, as_printed=as_printed).experiment
    report.write(experiment, ledger, tmp_path)
    lines = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert lines
    assert not [line for line in lines if line["statistic"] == "not_finished"]
    assert all(math.isfinite(float(line["value"])) for line in lines)
    text = (tmp_path / "results.md").read_text()
    assert "exhibit not finished" not in text
    assert "| – |" not in text
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_the_smoke_scale_has_all_eight_families_and_the_paper_scale_their_published_sizes():
    for scale in ("smoke", "paper"):
        assert {name: type(recipe.model) for name, recipe in at(scale).networks.items()} == FAMILIES
    assert all(recipe.model == FAMILIES[name]() for name, recipe in at("paper").networks.items())


def test_folds_are_the_same_items_for_every_condition_and_network(ledger):
    (table,) = [exhibit for exhibit in planned("001/table1").experiment.exhibits if exhibit.key == "c10H"]
    rows = {}
    for points in table.cells.values():
        for replicates in points.values():
            for fold, run in replicates.items():
                rows.setdefault(fold, set()).add(tuple(ledger.predictions(run, "best")["rows"].tolist()))
    assert {fold: len(different) for fold, different in rows.items()} == {"0": 1, "1": 1}
    (first,), (second,) = rows.values()
    assert not set(first) & set(second)


def test_what_is_chosen_is_chosen_on_a_part_of_the_training_folds():
    for spec in specs_of("001/table1", "paper") + specs_of("001/figure2", "paper"):
        if spec.settings["data"]["name"] == "cifar10h":
            assert spec.settings["validation"] is not None
            assert spec.settings["best"]["on"] == "validation"
            assert spec.settings["split"]["name"] == "folds"


def test_as_printed_one_holdout_chooses_learning_rate_seed_and_epoch_and_is_judged():
    tuned = [spec.settings for spec in specs_of("001/table1", "paper", as_printed=True) if "init" in spec.settings]
    assert {settings["split"]["name"] for settings in tuned} == {"holdout"}
    assert {settings["split"]["fixed"] for settings in tuned} == {0}
    assert {settings["split"]["fraction"] for settings in tuned} == {0.1}
    assert {settings["best"]["on"] for settings in tuned} == {"evaluation"}
    assert {settings["seed"] for settings in tuned} == {0, 1, 2}
    assert {settings["optimiser"]["name"] for settings in tuned} == {"sgd"}
    clean = [spec.settings for spec in specs_of("001/table1", "paper") if "init" in spec.settings]
    assert {settings["optimiser"]["name"] for settings in clean} == {"sgd", "adam"}
    scratch = [spec.settings for spec in specs_of("001/figure2", "paper", as_printed=True)]
    assert {settings["split"]["name"] for settings in scratch} == {"folds"}
    assert {settings["best"]["on"] for settings in scratch} == {"evaluation"}


def test_as_printed_the_winner_is_the_lowest_on_the_images_that_judge_it(ledger):
    cells = planned("001/table2", as_printed=True).experiment.exhibits[0].cells
    (attack,) = cells[SOFT]["VGG"].values()
    (chosen,) = ledger.read(attack).spec.inputs["of"]
    grid = [ledger.read(run) for run in ledger.read(chosen).spec.inputs["of"]]
    lowest = min(grid, key=lambda run: run.scores["best"]["raw"]["soft_nll"])
    assert len(grid) > 1
    assert ledger.read(chosen).facts["winner"] == lowest.id
    assert ledger.read(attack).facts["items"]["evaluation"] == at("smoke").attacked


def test_as_printed_cifar10_is_a_sixth_of_the_fold_and_the_attack_is_on_augmented_images_of_all_items():
    def settings(name):
        plan = make_plan(find(name, "paper", as_printed=True), lambda dataset, options: "0", "")
        return [spec.settings for spec in plan.specs if spec.kind != "train"]

    weights = {tuple(one["weights"]) for one in settings("001/figure2") if one["name"] == "weighted_mean"}
    assert weights == {(1 / 6, 5 / 6)}
    (epsilon,) = {one["epsilon"] for one in settings("001/table2") if one["name"] == "augmented_attack"}
    assert epsilon == 8 / 255
    assert {one["items"] for one in settings("001/figure4") if one["name"] == "attack"} == {100}


@pytest.mark.parametrize("name", ["001/figure1", "001/concentration", "demo"])
def test_a_recipe_with_one_protocol_refuses_to_be_as_printed(name):
    with pytest.raises(InputError, match=f"recipe {name}: it has one protocol alone"):
        find(name, "smoke", as_printed=True)


def test_conditions_differ_in_what_their_names_say_and_in_nothing_else():
    study = at("laptop")
    plan = make_plan(find("001/table1", "laptop"), lambda dataset, options: "0", "")
    specs = {spec.id: spec for spec in plan.specs}
    (table,) = [exhibit for exhibit in plan.experiment.exhibits if exhibit.key == "c10H"]
    winners = {condition: specs[table.cells[condition]["VGG"]["0"]] for condition in CONDITIONS}
    grids = {condition: [specs[run] for run in winner.inputs["of"]] for condition, winner in winners.items()}
    for condition, grid in grids.items():
        assert len(grid) == len(study.rates) * (len(study.alphas) if condition == MIXUP else 1)
        own, hard = grid[0].settings, grids[HARD][0].settings
        different = {name for name in own if own[name] != hard[name]}
        assert (
            different
            == {
                HARD: set(),
                MIXUP: {"mixing"},
                CATEGORY: {"target"},
                SOFT: {"target"},
                SAMPLED: {"target", "delivery"},
                DISTILLED: {"target"},
            }[condition]
        )
    pretrained = {run for grid in grids.values() for spec in grid for run in spec.inputs["init"]}
    assert len(pretrained) == 1
    assert set(grids[DISTILLED][0].inputs["teacher"]) > pretrained
    assert len(grids[DISTILLED][0].inputs["teacher"]) == len(study.networks)


def test_a_search_at_paper_scale_has_the_papers_values():
    study = at("paper")
    assert study.rates == (0.1, 0.01, 0.001)
    assert study.scratch_rates == (0.2, 0.1, 0.01, 0.001)
    assert study.alphas == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert study.folds == tuple(range(10))
    assert (study.epochs, study.scratch_epochs) == (150, 150)
    assert study.epsilons == (4, 5, 6, 7, 8)
    adam = [spec.settings for spec in specs_of("001/figure2", "paper") if spec.settings["optimiser"]["name"] == "adam"]
    assert adam
    assert all(Recipe.of(settings).schedule == Constant() for settings in adam)


def test_pretraining_is_on_all_50000_images_and_one_run_per_network():
    pretrained = [spec.settings for spec in specs_of("001/table1", "paper") if spec.settings["data"]["name"] == "cifar10"]
    assert len(pretrained) == len(FAMILIES)
    assert {settings["split"]["items"] for settings in pretrained} == {10_000}
    assert {settings["data"]["options"]["part"] for settings in pretrained} == {"all"}
    schedules = {name: recipe.schedule for name, recipe in at("paper").networks.items()}
    assert schedules["Wide ResNet"] == Multistep((60, 120, 160), gamma=0.2)
    assert schedules["Shake-Shake"] == Cosine()


def test_every_legible_number_of_table_1_stands_beside_its_cell():
    tables = [exhibit for exhibit in RECIPES["001/table1"]("paper", None).exhibits if isinstance(exhibit, ValueTable)]
    beside = [printed.number for table in tables for printed in table.printed]
    stored = [*numbers.printed_numbers("001", "table1"), *numbers.printed_numbers("001", "ensemble")]
    assert sorted(map(repr, beside)) == sorted(map(repr, stored))
    by_title = {table.title: table for table in tables}
    v6 = {(p.row, p.point): p.number.mean for p in by_title[f"Cross-entropy to the labels on {V6}"].printed}
    v4 = {(p.row, p.point): p.number.mean for p in by_title[f"Cross-entropy to the labels on {V4}"].printed}
    assert (v4[SOFT, "PyramidNet"], v6[SOFT, "PyramidNet"]) == (0.35, 0.34)
    assert (SOFT, "Wide ResNet") not in v4


def test_every_number_of_table_2_stands_beside_its_cell():
    table = RECIPES["001/table2"]("paper", None).exhibits[0]
    assert len(table.printed) == len(numbers.printed_numbers("001", "table2")) == 8 * 2 * 2


def test_the_ensemble_is_better_than_the_mean_of_its_members_on_every_fold(ledger):
    (table,) = [exhibit for exhibit in planned("001/table1").experiment.exhibits if exhibit.key == "summary"]
    together = {fold: _nll(ledger, run) for fold, run in table.cells[ENSEMBLE][""].items()}
    for fold, nll in together.items():
        members = [_nll(ledger, run) for name, run in table.cells[TRAINED][""].items() if name.endswith(f", {fold}")]
        assert len(members) == len(FAMILIES)
        assert nll < sum(members) / len(members)  # Jensen


def _nll(ledger, run_id):
    return ledger.read(run_id).scores["best"]["raw"]["soft_nll"]


def test_the_gallery_shows_pictures_of_images_with_the_same_first_choice(ledger, tmp_path):
    experiment = planned("001/figure1").experiment
    (chart,) = experiment.exhibits
    assert isinstance(chart, BarChart)
    (run_id,) = chart.cells["Shake-Shake"][""].values()
    shown = ledger.read(run_id).facts["examples"]
    assert shown
    for item in shown:
        people, network = item["shares"].values()
        assert people.index(max(people)) == network.index(max(network))
    report.write(experiment, ledger, tmp_path)
    drawings = [file.read_text() for file in tmp_path.glob("figures/gallery-*.svg")]
    assert len(drawings) == len(shown)
    assert all("data:image/png;base64," in drawing for drawing in drawings)


def test_claims_about_every_finding_are_written_down():
    texts = {name: " ".join(claim.text for claim in RECIPES[name]("laptop", None).claims) for name in OURS}
    assert "Human soft targets are closer to people than category soft targets" in texts["001/table1"]
    assert "Category soft targets are closer to people than hard labels" in texts["001/table1"]
    assert "No accuracy is lost" in texts["001/table1"]
    assert "about half" in texts["001/table2"]
    assert "grows with shift" in texts["001/figure2"]
    assert "less confident when wrong" in texts["001/figure3"]


def test_folds_can_be_chosen_and_others_are_refused():
    assert at("laptop", (4,)).folds == (4,)
    with pytest.raises(InputError, match="Folds are 0 to 9"):
        at("laptop", (10,))


def test_the_laptop_scale_has_three_families_and_speedy_in_fewer_bits_where_that_is_faster():
    study = at("laptop")
    assert len(study.folds) >= 3
    assert {type(recipe.model).__name__ for recipe in study.networks.values()} == {
        "Vgg",
        "ResNet",
        "WideResNet",
        "Speedy",
    }
    assert all(recipe.precision == "auto" for recipe in study.networks.values())
    assert replace(study, folds=(0,)).fine_tuned("VGG", HARD).keys() == {"0"}
