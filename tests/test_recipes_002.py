"""All recipes of 002 at smoke scale, on tiny files in the official formats that are written here."""

from __future__ import annotations

import csv
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from dissensus import datasets, report
from dissensus.cli.embed_command import digest_with_features
from dissensus.datasets import feature_files as features
from dissensus.engine import assignments
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.setup import TrainingSetup
from dissensus.engine.stacked_runs import execute_stacked, stack_key
from dissensus.errors import InputError
from dissensus.experiments.description import BarChart, CurvePlot, ValueTable
from dissensus.experiments.plan import make_plan, size
from dissensus.recipes import RECIPES, find
from dissensus.recipes.paper002.grid import METHODS, OFFLINE_ENCODERS, PAPER_ENCODERS, SETS, SIZES, tuned
from dissensus.store.ledger import Ledger
from finished import write_cifar10h
from test_chaosnli import line
from test_chaosnli import write as write_chaosnli
from test_popquorn import official
from test_popquorn import write as write_popquorn

NAMES = [name for name in RECIPES if name.startswith("002/")]
ENCODER_OF = {name: OFFLINE_ENCODERS[kind] for name, (_, kind) in SETS.items()}
ALONE = Execution(threads=1)
ITEMS = 90


def write_files(root, items=ITEMS):
    """Votes whose shares follow from a hidden place of each item, for three data sets; returns the generator."""
    drawn = np.random.default_rng(5)
    pairs = [tuple(int(c) for c in drawn.multinomial(100, drawn.dirichlet([1, 1, 1]))) for _ in range(items)]
    write_chaosnli(root, "chaosNLI_snli.jsonl", *(line(f"pair {place}", counts) for place, counts in enumerate(pairs)))
    ratings = [
        f"{place},{rater},text {place},{rating}.0"
        for place in range(items)
        for rater, rating in enumerate(1 + drawn.choice(5, 6, p=drawn.dirichlet(np.ones(5))))
    ]
    write_popquorn(root, official(*ratings))
    write_cifar10h(root, images=2 * items)
    return drawn


def write_features(root, monkeypatch):
    """Features that tell something of the votes."""
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    drawn = np.random.default_rng(6)
    for label, (name, _) in SETS.items():
        encoder, data = ENCODER_OF[label], datasets.load(name)
        hints = data.people.numpy() @ drawn.normal(size=(len(data.classes), 12))
        x = (hints + drawn.normal(size=hints.shape)).astype(np.float32)
        features.store(features.Features(data.ids, x, {"encoder": encoder}), name, encoder, root)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder of data, the plans of all recipes, and the ledger that they share, filled."""
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        write_files(root)
        write_features(root, patch)
        plans = {name: make_plan(find(name, "smoke"), datasets.digest_of, f"dissensus run {name}") for name in NAMES}
        ledger = Ledger(tmp_path_factory.mktemp("runs"))
        specs = {spec.id: spec for one in plans.values() for spec in one.specs}
        ended = LocalExecutor(1, ALONE).run(list(specs.values()), ledger)
        assert not ended.failed
        assert not ended.blocked
        yield root, plans, ledger


@pytest.fixture(scope="module")
def reports(world, tmp_path_factory):
    _, plans, ledger = world
    return {name: report.write(one.experiment, ledger, tmp_path_factory.mktemp("report")) for name, one in plans.items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_every_recipe_is_filled_with_a_finite_number(name, world, reports):
    _, plans, ledger = world
    experiment, folder = plans[name].experiment, reports[name].html.parent
    shown = {table.title: {table.primary, *table.columns} for table in experiment.score_tables}
    lines = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    for record in lines:
        if record["metric"] in shown.get(record["table"], {record["metric"]}):
            assert math.isfinite(float(record["value"])), record
    for exhibit in experiment.exhibits:
        assert all(run in ledger for run in exhibit.runs())
        assert any(record["table"] == exhibit.title for record in lines)
        if isinstance(exhibit, (BarChart, CurvePlot)):
            assert list(folder.glob(f"figures/{exhibit.key}-*.svg"))
    tests = {record["metric"] for record in lines if record["table"] == "Tests of Soft against Hard"}
    wanted = {value.name for one in experiment.exhibits if isinstance(one, ValueTable) for value in one.columns.values()}
    if name == "002/table3":
        assert wanted - tests - {"accuracy_untied"} <= {"p_t_kl", "p_t_accuracy"}, "two equal differences have no t test"


def test_every_number_that_002_prints_stands_beside_ours_but_for_an_upper_bound_and_one_unnamed_example(reports):
    lost = set()
    for written in reports.values():
        page = written.html.read_text(encoding="utf-8")
        listed = page.partition("Printed in the paper, without a cell here")[2].partition("</ul>")[0]
        lost |= {entry.split(":")[0].strip() for entry in listed.split("<li>")[1:]}
    assert lost == {"All, Soft, p t kl max", "Soft, KL to votes", "Hard, KL to votes"}


def test_paper_scale_is_the_grid_of_108_on_seed_0_and_its_winner_on_seeds_1_to_10():
    grid = tuned("ChaosNLI", "Soft", SIZES["paper"], ENCODER_OF["ChaosNLI"]).grid
    assert len(set(grid)) == 108
    assert all(one.keep == "curve" for one in grid)
    assert [one.epochs for one in grid] == sorted(one.epochs for one in grid), "ties go to the first: the fewest epochs"
    assert size(find("002/deliveries", "offline")) == len(SETS) * len(METHODS) * (108 + 1 + 10)
    seeds = [tuple(find("002/table3", "offline", chosen).exhibits[0].cells["Soft"][""]) for chosen in (None, (3, 4))]
    assert seeds == [tuple(map(str, range(1, 11))), ("3", "4")]


def test_rows_differ_in_how_the_votes_are_used_and_in_nothing_else():
    soft = tuned("POPQUORN", "Soft", SIZES["paper"], ENCODER_OF["POPQUORN"]).recipe
    for method in METHODS:
        other = tuned("POPQUORN", method, SIZES["paper"], ENCODER_OF["POPQUORN"]).recipe
        assert replace(other, target=soft.target, delivery=soft.delivery) == soft


def test_redrawn_judges_each_seed_on_items_of_its_own_with_the_settings_that_table3_uses():
    fixed, anew = (find(name, "offline").exhibits[0].cells["Soft"][""] for name in ("002/table3", "002/redrawn"))
    for seed, node in anew.items():
        assert node.recipe.grid == fixed[seed].recipe.grid
        assert replace(node.recipe.recipe, split=fixed[seed].recipe.recipe.split) == fixed[seed].recipe.recipe
    strata = torch.zeros(50, dtype=torch.int64)
    held_out = [node.recipe.recipe.split.split(strata, int(seed)).held_out.tolist() for seed, node in anew.items()]
    assert len(set(map(tuple, held_out))) == len(held_out)


def test_a_chosen_run_has_the_settings_of_the_winner_which_has_the_lowest_loss_in_the_fewest_epochs(world):
    _, plans, ledger = world
    specs = [spec for spec in plans["002/deliveries"].specs if spec.settings.get("chosen")]
    assert len(specs) == len(SETS) * len(METHODS) * len(SIZES["smoke"].seeds)
    for spec in specs:
        run = ledger.read(spec.id)
        choice = ledger.read(spec.settings["chosen"]["by"])
        reached = choice.facts["reached"]
        candidates = {one: ledger.read(one).spec.settings for one in reached}
        tied = [one for one in choice.spec.inputs["of"] if reached[one] <= min(reached.values()) * (1 + 1e-5)]
        winner = min(tied, key=lambda one: candidates[one]["epochs"])
        assert run.facts["chosen"] == {
            name: candidates[winner][name] for name in ("optimiser", "schedule", "epochs", "batch")
        }
        assert run.facts["epochs"] <= candidates[winner]["epochs"]
        assert {candidates[one]["seed"] for one in reached} == {0}
        assert min(ledger.read(winner).curve["validation_loss"]) == reached[winner]
        assert run.provenance["stacked"] >= len(SIZES["smoke"].seeds), "seeds of one choice are computed together"


def test_a_shorter_run_of_the_grid_has_the_bits_of_the_longer_ones_beginning(world):
    _, plans, ledger = world
    grid = [ledger.read(spec.id) for spec in plans["002/deliveries"].specs if spec.settings.get("keep") == "curve"]
    families = {}
    for run in grid:
        settings = json.dumps({**run.spec.settings, "epochs": 0}, sort_keys=True)
        families.setdefault(settings, []).append(run.curve["validation_loss"])
    assert {len(curves) for curves in families.values()} == {2}
    for short, long in families.values():
        assert short == long[: len(short)] or long == short[: len(long)]


def test_runs_that_differ_in_their_epochs_alone_are_never_parted_however_small_the_stacks(world, monkeypatch):
    _, plans, _ = world
    monkeypatch.setattr(assignments, "LARGEST_STACK", 5)  # families are of two
    specs = plans["002/deliveries"].specs
    stack_of = assignments.stacks(specs, stack_key)
    assert max(map(len, stack_of.values())) < 8
    for spec in specs:
        if spec.settings.get("keep") == "curve":
            family = [one.id for one in specs if {**one.settings, "epochs": 0} == {**spec.settings, "epochs": 0}]
            assert len(family) == 2
            assert set(family) <= {one.id for one in stack_of[spec.id]}


def assert_alike(one, other, within=1e-5):
    assert one.curve.keys() == other.curve.keys()
    for column, values in one.curve.items():
        assert values == pytest.approx(other.curve[column], abs=within), column
    assert one.facts["best_epoch"] == other.facts["best_epoch"]
    assert one.scores.keys() == other.scores.keys()
    for checkpoint, calibrations in one.scores.items():
        for calibration, scores in calibrations.items():
            # a temperature is where a minimum is: flat there, so that rounding moves it further than the scores
            near = within if calibration == "raw" else 1e-3
            assert scores == pytest.approx(other.scores[checkpoint][calibration], abs=near, nan_ok=True)


@pytest.mark.parametrize("dataset", SETS)
def test_a_stacked_run_is_what_its_spec_gives_alone(dataset, world, monkeypatch, tmp_path):
    root, _, _ = world
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    name, encoder = SETS[dataset][0], ENCODER_OF[dataset]
    data = datasets.load(name, features=encoder)
    recipes = [
        replace(tuned(dataset, method, SIZES["smoke"], ENCODER_OF[dataset]).grid[place], keep="all", monitored=True)
        for method in METHODS
        for place in (0, -1)
    ]
    specs = [recipe.spec(data, seed) for seed, recipe in enumerate(recipes)]
    assert len({stack_key(spec) for spec in specs} - {None}) == 1
    stacked = list(execute_stacked(specs, Ledger(tmp_path / "stacked"), threads=1))
    alone = [execute(spec, Ledger(tmp_path / "alone"), ALONE) for spec in specs]
    for one, other in zip(stacked, alone, strict=True):
        assert one.provenance["stacked"] == len(specs)
        assert_alike(one, other)


def test_chosen_runs_can_be_stacked_too(world, monkeypatch, tmp_path):
    root, plans, ledger = world
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    copy = Ledger(shutil.copytree(ledger.folder, tmp_path / "copy"))
    specs = [
        spec
        for spec in plans["002/deliveries"].specs
        if spec.settings.get("chosen") and spec.settings["data"]["name"] == "popquorn"
    ]
    for spec in specs:
        copy.remove(spec.id)
    for run in execute_stacked(specs, copy, threads=1):
        assert_alike(run, ledger.read(run.id))


def spoil(root, change):
    """Write the features of popquorn again, changed."""
    path = root / "features" / features.file_name("popquorn", "minilm")
    with np.load(path) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda a: a["x"].__setitem__((3, 1), np.nan), "the features of '3' are not all finite"),
        (lambda a: a.update(x=a["x"][:-1]), "there are 90 ids for 89 rows"),
        (lambda a: a.update(x=a["x"][:-1], ids=a["ids"][:-1]), "1 of 90 items have no features, '89' among them"),
        (lambda a: a.update(ids=np.array([f"t{i}" for i in range(ITEMS)])), "90 of 90 items have no features"),
    ],
    ids=["NaN", "rows", "an item without", "other ids"],
)
def test_features_that_do_not_fit_are_refused_before_anything_is_trained(change, what, tmp_path, monkeypatch):
    write_files(tmp_path)
    write_features(tmp_path, monkeypatch)
    spoil(tmp_path, change)
    with pytest.raises(InputError, match=what) as refused:
        make_plan(find("002/table3", "smoke"), datasets.digest_of, "")
    assert "popquorn-minilm.npz" in refused.value.where


def test_the_papers_encoders_are_one_scale_and_others_one_argument_away():
    def encoders(experiment):
        runs = [run.recipe.recipe for run in experiment.exhibits[0].runs()]
        return {dict(recipe.options)["features"] for recipe in runs}

    assert encoders(find("002/table3", "paper")) == {PAPER_ENCODERS["text"]}
    assert encoders(find("002/table3", "offline")) == {OFFLINE_ENCODERS["text"]}
    assert encoders(find("002/table3", "offline", None, {"text": "st:mpnet"})) == {"st:mpnet"}
    notes = {scale: " ".join(find("002/table3", scale).notes) for scale in ("paper", "offline")}
    assert "instead of openai" in notes["offline"]
    assert "Differs from the paper" not in notes["paper"]


@pytest.mark.parametrize(
    ("name", "encoders", "what"),
    [("002/table3", {"sound": "x"}, "sound is not encoded here"), ("003/table2", {"text": "x"}, "it encodes nothing")],
)
def test_an_encoder_of_something_else_is_refused(name, encoders, what):
    with pytest.raises(InputError, match=what):
        find(name, "smoke", None, encoders)


def test_features_that_are_not_there_are_made_by_the_run_and_damaged_ones_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # not that of who runs the tests
    write_files(tmp_path)
    write_features(tmp_path, monkeypatch)
    path = tmp_path / "features" / features.file_name("popquorn", "minilm")
    kept = features.read(path)
    path.unlink()
    asked = []

    def encode(ids, contents, encoder, **options):
        asked.append((len(ids), encoder))
        return kept

    monkeypatch.setattr("dissensus.models.encoders.encode", encode)
    options = (("features", "minilm"),)
    first = digest_with_features("popquorn", options)
    assert asked == [(ITEMS, "minilm")]
    assert digest_with_features("popquorn", options) == first == datasets.digest_of("popquorn", options)
    assert len(asked) == 1
    spoil(tmp_path, lambda arrays: arrays["x"].__setitem__((3, 1), np.nan))
    with pytest.raises(InputError, match="not all finite"):
        digest_with_features("popquorn", options)


def failures(root, monkeypatch, ledger):
    """What the executor says of the soft rows of table 3."""
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    planned = make_plan(find("002/table3", "smoke"), datasets.digest_of, "")
    ended = LocalExecutor(1, ALONE).run(planned.specs, Ledger(ledger))
    return planned, ended


def test_a_class_that_nobody_chose_in_the_training_items_is_named(tmp_path, monkeypatch):
    write_files(tmp_path)
    write_popquorn(tmp_path, official(*(f"{i},{r},text {i},{1 + (i + r) % 4}.0" for i in range(ITEMS) for r in range(5))))
    write_features(tmp_path, monkeypatch)
    planned, ended = failures(tmp_path, monkeypatch, tmp_path / "runs")
    told = set(ended.failed.values())
    assert len(told) == 1
    assert "nobody chose '5' for any of the 56 training items of seed 0" in told.pop()
    popquorn = [spec.id for spec in planned.specs if spec.settings.get("data", {}).get("name") == "popquorn"]
    assert set(popquorn) <= {*ended.failed, *ended.blocked}


def test_fewer_items_than_a_batch_are_refused_with_the_two_numbers(tmp_path, monkeypatch):
    write_files(tmp_path)
    write_chaosnli(tmp_path, "chaosNLI_snli.jsonl", *(line(f"pair {i}", (40, 35, 25)) for i in range(9)))
    write_features(tmp_path, monkeypatch)
    planned, ended = failures(tmp_path, monkeypatch, tmp_path / "runs")
    assert {message.splitlines()[0] for message in ended.failed.values()} == {
        "chaosnli: 5 training items are fewer than a batch of 8."
    }
    grid = [spec for spec in planned.specs if spec.id in ended.failed]
    with pytest.raises(InputError, match="5 training items are fewer than a batch of 8"):
        TrainingSetup.of(grid[0], Ledger(tmp_path / "runs"))
