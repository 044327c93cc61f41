import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from dissensus.cli import cli, main
from dissensus.cli.experiment_commands import parse_seeds
from dissensus.cli.progress import Display
from dissensus.engine.setup import TrainingSetup
from dissensus.errors import InputError
from dissensus.recipes import RECIPES
from dissensus.store import locks
from dissensus.store.ledger import Ledger


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the command line as a shell would: (exit code, what it printed, what it complained of)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["dissensus", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The files that `dissensus example` writes."""
    folder = tmp_path_factory.mktemp("example")
    cli(["example", str(folder)], standalone_mode=False)
    return folder


def test_the_example_does_not_replace_votes_of_the_user(tmp_path):
    (tmp_path / "votes.csv").write_text("item,label\na,cat\n")
    with pytest.raises(InputError, match=r"there is another votes\.csv here"):
        cli(["example", str(tmp_path)], standalone_mode=False)
    assert [file.name for file in tmp_path.iterdir()] == ["votes.csv"]
    (tmp_path / "votes.csv").unlink()
    for _ in range(2):
        cli(["example", str(tmp_path)], standalone_mode=False)


def test_help_imports_nothing_heavy():
    program = """
import sys
from dissensus.cli import main
sys.argv = ["dissensus", "--help"]
try:
    main()
except SystemExit:
    pass
print([name for name in ("torch", "numpy", "scipy", "sklearn", "pyarrow", "rich", "jinja2") if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip().endswith("[]")
    assert "dissensus demo" in ended.stdout


def commands(group=cli, path=()):
    for name, command in group.commands.items():
        yield (*path, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_every_command_has_help_and_those_with_arguments_an_example(run, command):
    code, out, _ = run(*command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: dissensus {' '.join(command)}")
    if command != ("recipes",):
        assert "Example" in out + run(command[0], "--help")[1]


def test_a_readme_that_is_no_model_card_is_kept(run, example, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# My project")
    fit = ["fit", example / "votes.csv", "--features", example / "features.npy", "--head", "linear"]
    code, _, err = run(*fit, "--out", tmp_path)
    assert code == 2
    assert "there is a README.md in it" in err
    assert [file.name for file in tmp_path.iterdir() if file != example] == ["README.md"]
    assert readme.read_text() == "# My project"


def test_the_example_can_be_inspected_fitted_predicted_and_scored(run, example, tmp_path):
    code, out, _ = run("inspect", example / "votes.csv")
    assert code == 0
    assert "600" in out
    assert "Krippendorff's alpha" in out
    assert "█" in out

    code, out, _ = run(
        "fit", example / "votes.csv", "--features", example / "features.npy", "--out", tmp_path / "m", "--head", "linear"
    )
    assert code == 0, out
    assert "held-out" in out
    for row in ("this model", "logistic, votes", "logistic, majority", "class prior", "perfect model"):
        assert row in out
    scores = json.loads((tmp_path / "m" / "scores.json").read_text())
    assert scores["items"] == {"train": 480, "held_out": 120}
    card = (tmp_path / "m" / "README.md").read_text()
    assert "600 items, 6,000 votes" in card
    assert f"| this model | {scores['raw']['soft_nll']:.4f} |" in card

    code, out, _ = run("predict", tmp_path / "m", example / "features.npy", "--out", tmp_path / "p.csv")
    assert code == 0
    code, out, _ = run("score", tmp_path / "p.csv", example / "votes.csv", "--gold", example / "gold.csv")
    assert code == 0
    assert "soft_nll_expected" in out
    code, out, _ = run("score", tmp_path / "p.csv", example / "votes.csv", "--json")
    judged = json.loads(out)
    assert judged["gold"] == "majority"
    assert judged["soft_nll"] > judged["soft_nll_floor"]
    assert judged["tempered_votes"]["accuracy"] == judged["accuracy"]


@pytest.mark.parametrize("names", ["x{}", "{}"], ids=["names", "numbers"])
def test_features_of_new_items_are_matched_to_those_of_training_by_name(names, run, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 12))
    yes = rng.binomial(5, 1 / (1 + np.exp(-2 * x[:, 0])))
    items = [f"t{n}" for n in range(60)]
    features = pd.DataFrame(x, columns=[names.format(n) for n in range(12)], index=pd.Index(items, name="item"))
    pd.DataFrame({"no": 5 - yes, "yes": yes}, index=features.index).to_csv(tmp_path / "votes.csv")
    features.to_csv(tmp_path / "x.csv")
    features[sorted(features.columns, key=str, reverse=True)].to_csv(tmp_path / "another_order.csv")
    features.rename(columns={features.columns[3]: "new"}).to_csv(tmp_path / "another_name.csv")
    np.save(tmp_path / "x.npy", x)
    fit = ["fit", tmp_path / "votes.csv", "--features", tmp_path / "x.csv", "--head", "linear", "--out", tmp_path / "m"]
    assert run(*fit)[0] == 0
    told = [run("predict", tmp_path / "m", tmp_path / file)[1] for file in ("x.csv", "another_order.csv")]
    assert told[0] == told[1]
    assert told[0].count("\n") == 61
    in_order = run("predict", tmp_path / "m", tmp_path / "x.npy")[1]  # without names: as they come
    assert [line.split(",")[-1] for line in in_order.splitlines()] == [
        line.split(",")[-1] for line in told[0].splitlines()
    ]
    code, _, err = run("predict", tmp_path / "m", tmp_path / "another_name.csv")
    assert code == 2
    assert f"there is no feature '{features.columns[3]}'" in err


def test_score_has_every_key_that_is_promised(run, tmp_path):
    counts = np.random.default_rng(0).multinomial(20, [0.5, 0.3, 0.2], 50)
    np.save(tmp_path / "votes.npy", counts)
    np.save(tmp_path / "probs.npy", np.full((50, 3), 1 / 3))
    code, out, _ = run("score", tmp_path / "probs.npy", tmp_path / "votes.npy", "--json")
    promised = (
        "soft_nll kl js soft_brier nll_gold accuracy second_best_accuracy ece_width_10 ece_width_15 ece_mass_15 "
        "smooth_ece entropy_pearson entropy_spearman confidence_right confidence_wrong soft_nll_floor"
    )
    assert code == 0
    assert set(promised.split()) <= set(json.loads(out))
    assert np.isclose(json.loads(out)["soft_nll"], np.log(3))


def test_a_prediction_of_zero_where_people_voted_is_infinite_and_said_so(run, tmp_path):
    np.save(tmp_path / "votes.npy", np.array([[3, 1], [0, 4], [4, 0]]))
    np.save(tmp_path / "probs.npy", np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]))
    code, out, err = run("score", tmp_path / "probs.npy", tmp_path / "votes.npy", "--json")
    assert code == 0, err
    judged = json.loads(out)
    assert judged["soft_nll"] is None
    assert judged["soft_nll_infinite_items"] == 1
    assert np.isclose(judged["soft_nll_finite_mean"], np.log(2))


def test_logits_and_probabilities_of_the_same_model_score_the_same(run, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "votes.npy", rng.multinomial(20, [0.5, 0.3, 0.2], 50))
    logits = rng.normal(size=(50, 3))
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "probs.npy", np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    _, by_logits, _ = run("score", tmp_path / "logits.npy", tmp_path / "votes.npy", "--logits", "--json")
    _, by_probs, _ = run("score", tmp_path / "probs.npy", tmp_path / "votes.npy", "--json")
    one, two = json.loads(by_logits), json.loads(by_probs)
    assert all(np.isclose(one[key], two[key]) for key in ("soft_nll", "smooth_ece", "entropy_spearman"))


def test_columns_are_matched_by_class_name_and_rows_by_id(run, tmp_path):
    (tmp_path / "votes.csv").write_text("item,annotator,label\na,1,cat\na,2,cat\nb,1,dog\nb,2,cat\n")
    (tmp_path / "right.csv").write_text("item,dog,cat\nb,0.75,0.25\na,0.1,0.9\n")
    code, out, err = run("score", tmp_path / "right.csv", tmp_path / "votes.csv", "--json")
    assert code == 0, err
    expected = -(np.log(0.9) + (np.log(0.25) + np.log(0.75)) / 2) / 2
    assert np.isclose(json.loads(out)["soft_nll"], expected)


def test_shares_can_stand_in_for_votes(run, example, tmp_path):
    shares = np.random.default_rng(0).dirichlet(np.ones(4), 60)
    np.save(tmp_path / "shares.npy", shares)
    np.save(tmp_path / "x.npy", np.random.default_rng(1).normal(size=(60, 3)))
    fit = [
        "fit",
        tmp_path / "shares.npy",
        "--probs",
        "--features",
        tmp_path / "x.npy",
        "--out",
        tmp_path / "m",
        "--head",
        "linear",
    ]
    assert run(*fit)[0] == 0
    code, _, err = run(*fit, "--delivery", "multipass", "--head", "mlp", "--epochs", 1)
    assert code == 2
    assert "`sampled`" in err


def test_shares_with_named_columns_make_a_model_with_named_classes(run, tmp_path):
    rows = [f"item{row},{share:.2f},{1 - share:.2f}" for row, share in enumerate(np.linspace(0.1, 0.9, 40))]
    (tmp_path / "shares.csv").write_text("\n".join(["item,no,yes", *rows]) + "\n")
    np.save(tmp_path / "x.npy", np.linspace(0, 1, 40)[:, None])
    fit = ["fit", tmp_path / "shares.csv", "--probs", "--features", tmp_path / "x.npy", "--out", tmp_path / "m"]
    code, _, err = run(*fit, "--head", "linear")
    assert code == 0, err
    assert json.loads((tmp_path / "m" / "model.json").read_text())["classes"] == ["no", "yes"]


@pytest.mark.parametrize("items", [2, 4, 6])
def test_a_handful_of_items_can_be_fitted(run, tmp_path, items):
    np.save(tmp_path / "votes.npy", np.tile([[3, 1]], (items, 1)))
    np.save(tmp_path / "x.npy", np.arange(items, dtype=float)[:, None])
    code, _, err = run("fit", tmp_path / "votes.npy", "--features", tmp_path / "x.npy", "--out", tmp_path / "m")
    assert code == 0, err
    assert json.loads((tmp_path / "m" / "model.json").read_text())["temperature"] == 1


@pytest.fixture
def forty(tmp_path):
    """Forty items whose feature says what people voted; the arguments of fit."""
    share = np.linspace(0, 10, 40).round().astype(int)
    np.savez(tmp_path / "x.npz", x=np.linspace(0, 1, 40)[:, None], ids=np.array([f"item{row}" for row in range(40)]))
    rows = [f"item{row},{yes},{10 - yes}" for row, yes in enumerate(share)]
    (tmp_path / "votes.csv").write_text("\n".join(["item,yes,no", *rows]) + "\n")
    return ["fit", tmp_path / "votes.csv", "--features", tmp_path / "x.npz", "--out", tmp_path / "m", "--head", "linear"]


def test_the_items_to_hold_out_can_be_named(run, forty, tmp_path):
    for text in ("item3\nitem1\nitem14\n", "item,text\nitem3,a\nitem1,b\nitem14,c\n"):
        (tmp_path / "ids.csv").write_text(text)
        code, out, err = run(*forty, "--test-ids", tmp_path / "ids.csv", "--json")
        assert code == 0, err
        assert json.loads(out)["items"] == {"train": 37, "held_out": 3}
    (tmp_path / "ids.csv").write_text("item3\nitem99\n")
    code, _, err = run(*forty, "--test-ids", tmp_path / "ids.csv")
    assert code == 2
    assert "'item99' among them" in err


def test_a_model_that_is_no_better_than_the_prior_is_said_loudly(run, forty, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones((40, 1)), ids=np.array([f"item{row}" for row in range(40)]))
    code, _, err = run(*forty)
    assert code == 0
    assert "WARNING: The model is no better than the class prior" in err
    assert "Look at this first" in (tmp_path / "m" / "README.md").read_text()


def test_a_learning_rate_that_diverges_ends_with_an_error_that_says_so(run, forty, tmp_path):
    code, _, err = run(*forty[:-2], "--head", "mlp", "--lr", 1e3)
    assert code == 2
    assert "training diverged" in err
    assert not (tmp_path / "m" / "model.json").exists()


BAD = {
    "unknown label": (
        ["inspect", "long.csv", "--classes", "cat,dog"],
        "long.csv:3: label 'catt' is not one of the classes",
    ),
    "empty file": (["inspect", "empty.csv"], "empty"),
    "negative counts": (["inspect", "negative.npy"], "negative"),
    "fractional counts": (["inspect", "fractional.npy"], "not a count"),
    "an item without votes": (["inspect", "silent.npy"], "no vote"),
    "probabilities that do not sum to 1": (["score", "off.npy", "counts.npy"], "sum to 0.9, not 1"),
    "NaN": (["score", "nan.npy", "counts.npy"], "nan in column 0"),
    "logits as probabilities": (["score", "logits.npy", "counts.npy"], "--logits"),
    "wrong number of columns": (["score", "wide.npy", "counts.npy"], "4 columns for 3 classes"),
    "wrong number of rows": (["score", "short.npy", "counts.npy"], "2 rows for 3 items"),
    "ids that do not match": (["score", "ids.csv", "votes.csv"], "missing"),
    "duplicate rows": (["inspect", "twice.csv"], "--duplicates"),
    "a binary file": (["inspect", "binary.csv"], "binary.csv"),
    "a missing file": (["inspect", "nowhere.csv"], "nowhere.csv"),
    "features that do not match": (["fit", "counts.npy", "--features", "x2.npy", "--out", "m"], "2 rows for 3 items"),
    "features with NaN": (["fit", "counts.npy", "--features", "xnan.npy", "--out", "m"], "feature 0 is nan"),
    "no model": (["predict", ".", "x2.npy"], "dissensus fit"),
    "an unwritable folder": (
        ["fit", "counts.npy", "--features", "x2.npy", "--out", "long.csv/model"],
        "cannot be written",
    ),
    "an unwritable report": (["demo", "--out", "long.csv/report"], "cannot be written"),
    "no such recipe": (["run", "tea", "--out", "o"], "demo"),
    "no such seeds": (["run", "demo", "--seeds", "x", "--out", "o"], "0-4"),
    "no such row": (["run", "demo", "--scale", "smoke", "--baseline", "Best", "--out", "o"], "Majority"),
    "no experiment": (["report", "."], "dissensus run"),
    "no such data": (["data", "get", "cifar1000"], "cifar10h"),
}


@pytest.fixture
def bad_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = np.array([[3, 1, 0], [0, 4, 0], [1, 1, 2]])
    thirds = np.full((3, 3), 1 / 3)
    np.save("counts.npy", counts)
    np.save("negative.npy", counts - 1)
    np.save("fractional.npy", counts + 0.5)
    np.save("silent.npy", counts * np.array([[1], [0], [1]]))
    np.save("off.npy", np.array([[0.3, 0.3, 0.3], [1, 0, 0], [1, 0, 0]]))
    np.save("nan.npy", np.where(np.eye(3) == 1, np.nan, thirds))
    np.save("logits.npy", np.eye(3) * 8 - 4)
    np.save("wide.npy", np.full((3, 4), 0.25))
    np.save("short.npy", thirds[:2])
    np.save("x2.npy", np.zeros((2, 5)))
    np.save("xnan.npy", np.full((3, 5), np.nan))
    Path("long.csv").write_text("item,label\na,cat\nb,catt\n")
    Path("votes.csv").write_text("item,label\na,cat\nb,dog\n")
    Path("ids.csv").write_text("item,cat,dog\na,0.5,0.5\nz,0.5,0.5\n")
    Path("twice.csv").write_text("item,annotator,label\na,1,cat\na,1,dog\n")
    Path("empty.csv").write_text("")
    Path("binary.csv").write_bytes(bytes(range(256)) * 4)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_with_code_2_and_says_what_to_do(run, bad_files, name):
    arguments, message = BAD[name]
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_folder_without_permission_is_refused_before_any_work(run, bad_files, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    (tmp_path / "closed").mkdir(mode=0o500)
    code, _, err = run("demo", "--out", tmp_path / "closed")
    assert code == 2
    assert "permission" in err


@pytest.mark.parametrize(("text", "seeds"), [("3", (0, 1, 2)), ("0-2,7", (0, 1, 2, 7)), ("4-4", (4,))])
def test_seeds_are_a_number_or_a_list(text, seeds):
    assert parse_seeds(text) == seeds


def _commands(group=cli, names=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, (*names, name))
        else:
            yield (*names, name), command


NUMBERS = [
    pytest.param(names, option, id=f"{' '.join(names)} {option.opts[0]}")
    for names, command in _commands()
    for option in command.params
    if isinstance(option.type, (click.IntRange, click.FloatRange)) or option.type.name in ("integer", "number", "float")
]


@pytest.mark.parametrize(("names", "option"), NUMBERS)
def test_no_option_takes_for_a_number_what_is_none(names, option):
    for value in ("nan", "inf", "-inf", "", " ", "1e999", "é", "0x1", "1,5"):
        ended = CliRunner().invoke(cli, [*names, option.opts[0], value])
        assert ended.exit_code == 2, (value, ended.output, ended.exception)
        assert option.opts[0] in ended.output


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_records_are_packed_into_a_file_with_a_name(name, tmp_path):
    Ledger(tmp_path / "runs").create()
    with pytest.raises(InputError, match="this is no name of a file"):
        CliRunner().invoke(cli, ["runs", "pack", str(tmp_path / "runs"), name], catch_exceptions=False)


@pytest.mark.parametrize("command", ["compare", "plan"])
def test_a_plan_of_endless_repeats_is_refused(command):
    ended = CliRunner().invoke(cli, [command, "votes.csv", "--out", "o", "--repeats", "999999999999"])
    assert ended.exit_code == 2
    assert "1<=x<=1000" in ended.output


@pytest.mark.parametrize("text", ["", "0", "a-b", "3-1", "1,1", "-3", "1-2-3", "1-", "0-10000000000", "9" * 5000])
def test_bad_seeds_are_refused(text):
    with pytest.raises(InputError, match="seeds"):
        parse_seeds(text)


@pytest.mark.parametrize(
    "options",
    [
        ("run", "demo", "--device", "foo"),
        ("run", "demo", "--device", "meta"),
        ("run", "demo", "--device", "xpu:7", "--scale", "smoke"),
        ("run", "demo", "--gpus", "nan"),
        ("run", "demo", "--gpus", "-1"),
        ("fit", "votes.csv", "--features", "x.npy", "--lr", "nan"),
        ("fit", "votes.csv", "--features", "x.npy", "--lr", "inf"),
    ],
)
def test_numbers_and_devices_that_are_none_are_refused_before_any_work(run, tmp_path, options):
    code, _, err = run(*options, "--out", tmp_path / "o")
    assert code == 2
    assert "Traceback" not in err
    assert options[-1] in err or options[3] in err
    assert not (tmp_path / "o").exists()


def test_a_smoke_run_writes_a_report_and_a_second_one_computes_nothing(run, tmp_path):
    arguments = [
        "run",
        "demo",
        "--scale",
        "smoke",
        "--seeds",
        "2",
        "--out",
        tmp_path / "o",
        "--workers",
        1,
        "--threads",
        1,
    ]
    code, _, err = run(*arguments)
    assert code == 0, err
    page = (tmp_path / "o" / "report.html").read_text()
    assert "not evidence" in page
    first = (tmp_path / "o" / "results.csv").read_bytes()
    code, _, err = run(*arguments)
    assert code == 0
    assert "30 of them already finished" in err
    assert (tmp_path / "o" / "results.csv").read_bytes() == first
    code, _, _ = run("report", tmp_path / "o", "--baseline", "Majority")
    assert code == 0
    assert (tmp_path / "o" / "results.csv").read_bytes() != first


def test_the_list_of_recipes_has_a_space_after_every_name(run):
    _, out, _ = run("recipes")
    assert {line.split()[0] for line in out.splitlines() if line} >= set(RECIPES)


def test_recipes_and_data_are_listed(run):
    code, out, _ = run("recipes")
    assert code == 0
    assert "demo" in out
    code, out, _ = run("data", "list")
    assert code == 0
    assert all(name in out for name in ("digits", "cifar10", "cifar10h", "licence"))


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(run, tmp_path, monkeypatch, workers):
    def interrupted(self, event):
        if event.kind == "done":
            raise KeyboardInterrupt

    arguments = ["run", "demo", "--scale", "smoke", "--out", tmp_path / "o", "--workers", workers]
    with monkeypatch.context() as patched:
        patched.setattr(Display, "__call__", interrupted)
        code, _, err = run(*arguments)
    assert code == 130
    assert "resumes from there" in err
    finished = len(list((tmp_path / "o" / "runs").glob("[0-9a-f]*/run.json")))
    assert finished >= 1
    _, _, err = run(*arguments)
    assert f"{finished} of them already finished" in err


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A finished smoke run of one seed."""
    folder = tmp_path_factory.mktemp("smoke") / "o"
    options = ["--scale", "smoke", "--seeds", "1", "--workers", "1", "--threads", "1", "--log", "tensorboard"]
    cli(["run", "demo", *options, "--out", str(folder)], standalone_mode=False)
    return folder


def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(run, tmp_path, smoke):
    code, out, _ = run("run", "demo", "--scale", "smoke", "--out", tmp_path / "o", "--dry-run")
    assert code == 0
    assert "0 runs are done, 30 remain" in out
    assert "FLOPs" in out
    assert not (tmp_path / "o").exists()
    code, out, _ = run("run", "demo", "--scale", "smoke", "--out", smoke, "--dry-run")
    assert "15 runs are done, 15 remain" in out
    assert "about" in out


def test_finished_runs_are_listed_shown_verified_and_removed(run, smoke, tmp_path):
    shutil.copytree(smoke, tmp_path / "o")
    code, out, _ = run("runs", "ls", tmp_path / "o")
    assert code == 0
    assert len(out.splitlines()) == 15
    assert "digits: majority × soft × mixup" in out
    run_id = out.split()[0]
    _, out, _ = run("runs", "ls", tmp_path / "o", "--json")
    assert len(json.loads(out)) == 15
    _, out, _ = run("runs", "show", tmp_path / "o", run_id[:6])
    assert json.loads(out)["id"] == run_id
    assert run("runs", "verify", tmp_path / "o")[0] == 0
    record = tmp_path / "o" / "runs" / run_id / "run.json"
    record.write_text(record.read_text().replace("0.", "1.", 1))
    code, out, _ = run("runs", "verify", tmp_path / "o")
    assert code == 1
    assert f"{run_id}: run.json is not what was written" in out
    for command in (["report", tmp_path / "o"], ["runs", "show", tmp_path / "o", run_id]):  # no wrong number is told
        code, out, err = run(*command)
        assert code == 2
        assert "run.json is not what was written" in err
        assert out == ""
    assert run("runs", "rm", tmp_path / "o", run_id)[0] == 0
    assert run("runs", "verify", tmp_path / "o")[0] == 0
    code, _, err = run("runs", "show", tmp_path / "o", run_id)
    assert code == 2
    assert "no run" in err
    assert run("runs", "ls", tmp_path / "nowhere")[0] == 2


def test_watching_tells_what_is_done_running_and_failed(run, smoke, tmp_path):
    shutil.copytree(smoke, tmp_path / "o")
    assert "15/15 runs are done, 0 running" in run("watch", tmp_path / "o", "--once")[1]
    ledger = Ledger(tmp_path / "o" / "runs")
    first, second = ledger.ids()[:2]
    for run_id in (first, second):
        ledger.remove(run_id)
        ledger.work(run_id).mkdir(parents=True)
    ledger.error_file(second).write_text("Traceback\nValueError: why")
    lock = locks.take(ledger.lock_file(first))
    ledger.progress_file(first).write_text('{"epoch": 1, "epochs": 2, "loss": 0.5}')
    _, out, _ = run("watch", tmp_path / "o", "--once")
    lock.release()
    assert "13/15 runs are done, 1 running, 1 failed" in out
    assert "ValueError: why" in out
    assert run("runs", "rm", tmp_path / "o", second)[0] == 0
    assert "failed" not in run("watch", tmp_path / "o", "--once")[1]


def test_curves_are_written_for_tensorboard(smoke):
    files = list((smoke / "tensorboard").rglob("events.out.tfevents.*"))
    assert len(files) == 15
    accumulator = EventAccumulator(str(files[0].parent)).Reload()
    assert {"train_loss", "soft_nll", "accuracy"} <= set(accumulator.Tags()["scalars"])
    assert [event.step for event in accumulator.Scalars("soft_nll")] == [1, 2]


def test_a_failing_run_gives_exit_code_1_and_a_report_of_the_rest(run, tmp_path, monkeypatch):
    real = TrainingSetup.of

    def of(spec, ledger):
        return 1 / 0 if spec.settings["target"]["name"] == "smoothed" else real(spec, ledger)

    monkeypatch.setattr(TrainingSetup, "of", of)
    options = ["--scale", "smoke", "--seeds", "1", "--workers", "1", "--threads", "1"]
    code, _, err = run("run", "demo", *options, "--out", tmp_path / "o")
    assert code == 1
    assert "2 runs failed" in err
    assert "ZeroDivisionError" in err
    assert "not finished" in (tmp_path / "o" / "report.html").read_text()
