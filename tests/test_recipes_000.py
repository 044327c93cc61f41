"""Every recipe of 000, at smoke scale, on tiny files in the official formats."""

import csv
import math
import re

import pytest

from dissensus import datasets, report
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution, execute
from dissensus.errors import InputError
from dissensus.experiments.plan import make_plan
from dissensus.models import ResNet20
from dissensus.recipes import RECIPES
from dissensus.recipes import printed as numbers
from dissensus.recipes.paper000 import PAPER000 as OURS
from dissensus.recipes.paper000.blocks import BASIC, DUQ, HARD, NO_AUG, ROWS, SOFT, at
from dissensus.store.encoding import encode
from dissensus.store.ledger import Ledger
from finished import write_cifar10h, write_svhn

BLOCKS = tuple(at("paper").rows)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The runs of all recipes, computed once each."""
    root = tmp_path_factory.mktemp("data")
    write_cifar10h(root, 400)
    write_svhn(root)
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
    assert all(math.isfinite(float(line["value"])) for line in lines)
    text = (tmp_path / "results.md").read_text()
    assert "exhibit not finished" not in text
    assert "| – |" not in text
    assert not re.search(r"\bnan\b|\binf\b", text)
    for exhibit in experiment.exhibits:
        assert bool(list(tmp_path.glob(f"figures/{exhibit.key}-*.svg"))) == (exhibit.picture != "none"), exhibit.title


def whole_cifar10h() -> bool:
    try:
        return len(datasets.load("cifar10h")) == 10_000
    except InputError:
        return False


@pytest.mark.skipif(not whole_cifar10h(), reason="DISSENSUS_DATA names no folder with all of cifar10h")
def test_at_smoke_scale_duq_does_not_diverge_on_the_real_images(tmp_path):
    ours, settings = Ledger(tmp_path), at("smoke")
    specs = [
        spec
        for spec in make_plan(RECIPES["000/table1"]("smoke", None), datasets.digest_of, "000/table1").specs
        if spec.kind == "train" and spec.settings["model"] == encode(settings.models[DUQ])
    ]
    assert len(specs) == len(ROWS) * len(settings.seeds)
    for spec in specs:
        execute(spec, ours)


def test_the_results_table_has_thirty_rows_of_four_columns_with_the_documents_number_beside_each_cell():
    experiment = RECIPES["000/table1"]("paper", None)
    tables = {table.title.removesuffix(" models"): table for table in experiment.exhibits if table.key != "differences"}
    assert tuple(tables) == BLOCKS
    assert all(list(table.cells) == list(ROWS) for table in tables.values())
    stored = numbers.printed_numbers("000", "table1")
    beside = [printed.number for table in tables.values() for printed in table.printed]
    assert len(stored) == 5 * 6 * 4
    assert sorted(map(repr, beside)) == sorted(map(repr, stored))


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_rows_of_a_block_differ_in_target_and_mixing_and_blocks_in_the_network_and_its_augmentation(scale):
    run, data = at(scale), type("Data", (), {"digest": "0"})()

    def differing(block, row, other_block, other_row):
        own, other = (run.recipe(*cell).spec(data, 0).settings for cell in ((block, row), (other_block, other_row)))
        return {name for name in own if own[name] != other[name]}

    for block in BLOCKS:
        assert differing(block, SOFT, block, HARD) == {"target"}
        assert differing(block, SOFT, block, "soft + Mixup") == {"mixing"}
        assert differing(block, "soft + CutMix", block, "hard + CutMix") == {"target"}
        expected = {"model"} if block != NO_AUG else {"model", "augment"}
        assert differing(block, SOFT, BASIC, SOFT) == (set() if block == BASIC else expected)


def test_the_paper_scale_is_what_the_document_says():
    recipe = at("paper").base
    assert recipe.model == ResNet20()
    assert (recipe.optimiser.lr, recipe.optimiser.momentum) == (0.05, 0.9)
    assert (recipe.epochs, recipe.batch, recipe.schedule.milestones) == (200, 128, (100, 150))
    assert recipe.schedule.warmup > 0
    laptop = at("laptop").base
    assert [at / laptop.epochs for at in laptop.schedule.milestones] == [0.5, 0.75]


def test_the_laptop_scale_trains_every_model_with_soft_and_hard_labels_before_anything_else():
    plan = make_plan(RECIPES["000/table1"]("laptop", None), lambda name, options: "0", "")
    trained = [spec.settings for spec in plan.specs if spec.kind == "train"]
    assert len(trained) == 3 * (5 * 2 + 4)
    assert all(settings["mixing"]["name"] == "unmixed" for settings in trained[:30])
    assert all(settings["mixing"]["name"] != "unmixed" for settings in trained[30:])


def test_the_four_findings_and_the_calibration_are_claims():
    sources = [claim.source for claim in RECIPES["000/table1"]("smoke", None).claims]
    assert {source.rpartition(", ")[2] for source in sources} == {*(f"Key Finding {n}" for n in (1, 2, 3, 4)), "Results"}
    assert len(sources) == 22


@pytest.mark.parametrize(
    ("words", "effect"),
    [
        ("In the plain network, soft labels give more accuracy than hard labels.", 0.8137 - 0.8292),
        ("Over all blocks, soft labels detect SVHN better", (0.711 + 0.588 + 0.548 + 0.667 + 0.779) / 5 - 0.7718),
        ("MC dropout loses less accuracy under FGSM than SNGP", (0.152 + 0.169) / 2 - (0.356 + 0.443) / 2),
        ("SNGP detects SVHN better than DUQ", (0.797 + 0.667) / 2 - (0.844 + 0.779) / 2),
        ("In the plain network, soft labels detect SVHN better than hard labels with CutMix", 0.527 - 0.775),
        ("In the plain network under Mixup and CutMix, too, soft labels lose less", (0.356 + 0.389 - 0.445 - 0.465) / 2),
        ("The plain network has a lower ECE", 0.046 - 0.090),
    ],
)
def test_a_claim_carries_the_documents_own_effect(words, effect):
    (claim,) = (claim for claim in RECIPES["000/table1"]("laptop", None).claims if claim.text.startswith(words))
    assert claim.printed == pytest.approx(effect, abs=1e-4)
    assert claim.printed < 0  # as the document has it, every claim holds
    first, second = claim.groups.values()
    assert list(first) == list(second)


def test_a_difference_is_shown_with_its_paired_interval_around_zero(ledger, tmp_path):
    experiment = planned("000/figure1").experiment
    report.write(experiment, ledger, tmp_path)
    (table,) = experiment.exhibits
    assert set(table.cells) == set(BLOCKS)
    text = (tmp_path / "results.md").read_text()
    assert text.count("95% interval") >= 5 * 4
    drawn = (tmp_path / "figures").glob("*.svg")
    assert all("no difference: 0.000" in file.read_text() for file in drawn)


def test_each_record_says_which_uncertainty_it_was_judged_by(ledger):
    said = {}
    for run_id in ledger.ids():
        run = ledger.read(run_id)
        if run.spec.settings.get("name") == "uncertainty":
            model = ledger.read(run.spec.inputs["of"][0]).spec.settings["model"]["name"]
            said.setdefault(model, set()).add(run.facts["uncertainty"])
    assert {model: len(words) for model, words in said.items()} == dict.fromkeys(said, 1)
    assert said["mc_dropout"] == said["speedy"] == {"predictive entropy"}
    assert "Dempster" in said["sngp"].pop()
    assert "nearest centroid" in said["duq"].pop()


def test_beside_the_uncertainty_that_judges_a_block_stands_the_other_one(ledger):
    tables = {table.title.removesuffix(" models"): table for table in planned("000/table1").experiment.exhibits}
    for block in BLOCKS:
        runs = tables[block].cells[SOFT][""].values()
        shown = {title: [value.read(ledger.read(run)) for run in runs] for title, value in tables[block].columns.items()}
        others = [values for title, values in shown.items() if title.startswith("OOD AUROC by")]
        assert len(others) == (block != BASIC), block
        assert all(values != shown["OOD AUROC (SVHN)"] for values in others), block


def test_the_parameter_counts_are_the_documents(ledger):
    (table,) = planned("000/parameters").experiment.exhibits
    counted = {row: ledger.read(runs[""][""]).scores["parameters"] for row, runs in table.cells.items()}
    assert counted == {"ResNet-20": 272_474, "+ SNGP": 348_624, "+ DUQ": 927_834, "+ dropout": 272_474}
    for printed in table.printed:
        assert round(counted[printed.row], -3) == printed.number.mean
