"""`dissensus evaluate`: a checkpoint from elsewhere, or of our own run, judged in one go."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from dissensus import datasets, metrics
from dissensus.cli import cli
from dissensus.cli.model_option import read_model
from dissensus.engine.foreign_weights import load_foreign
from dissensus.errors import InputError
from dissensus.models import McDropout, Mlp, ResNet18, Smallcnn, Sngp, new_model
from dissensus.probes.attacks import fgsm
from dissensus.store.ledger import Ledger
from finished import SOFT, finished, write_cifar10h, write_sample, write_svhn

MOMENTS = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
TOLD = ["--mean", "0.5,0.4,0.3", "--std", "0.2,0.25,0.3"]
SMALL = "smallcnn(width=4, hidden=12)"


@pytest.fixture
def root(tmp_path, monkeypatch):
    write_cifar10h(tmp_path, 60)
    write_svhn(tmp_path)
    write_sample(tmp_path, "cinic10-imagenet")
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def network(root: Path):
    """A network that somebody else trained, and the file they saved, without our normalisation."""
    x = datasets.load("cifar10h").x
    model = new_model(Smallcnn(4, 12), x, 10, seed=1, moments=MOMENTS).eval()
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("normalise.")}
    safetensors.torch.save_file(weights, root / "net.safetensors")
    return model, weights


def evaluate(root: Path, *options: str):
    out = root / "judged"
    cli(["evaluate", "--weights", str(root / "net.safetensors"), "--out", str(out), *options], standalone_mode=False)
    return json.loads((out / "evaluation.json").read_text())


def test_the_whole_table_is_that_of_the_network_itself(root, capsys):
    model, _ = network(root)
    document = evaluate(
        root, "--model", SMALL, *TOLD, "--attacks", "fgsm,pgd", "--steps", "3", "--ood", "svhn", "--shift", "cinic10"
    )  # fmt: skip
    data = datasets.load("cifar10h")
    log_probs = model.predict(data.x / 255).log_probs.detach()
    raw = document["scores"]["raw"]
    assert raw["accuracy"] == metrics.accuracy(log_probs, data.gold)
    assert raw["soft_nll"] == pytest.approx(float(metrics.soft_nll(log_probs, data.people).mean()), rel=1e-5)
    assert raw["second_best_accuracy"] == metrics.second_best_accuracy(log_probs, data.people)
    assert set(document["scores"]) == {"raw", "tempered_votes", "tempered_gold"}
    step = document["attacks"]["fgsm"]
    attacked = fgsm(model, data.x, data.gold, epsilon=4 / 255)
    assert step["scores"]["attacked"]["accuracy"] == metrics.accuracy(attacked.logits.double().log_softmax(1), data.gold)
    assert step["attack_decrease"] == step["scores"]["clean"]["accuracy"] - step["scores"]["attacked"]["accuracy"]
    assert step["loss_per_step"] == pytest.approx(attacked.losses.mean(1).tolist(), rel=1e-5)
    assert len(document["attacks"]["pgd"]["loss_per_step"]) == 4
    assert document["attacks"]["pgd"]["step_size"] == pytest.approx(1 / 255)
    assert set(document["ood"]["svhn"]["scores"]) == {
        f"auroc_{name}" for name in ("energy", "msp", "odin", "predictive_entropy", "margin")
    }
    assert document["shifted"]["cinic10_imagenet"]["items"] == 20
    assert "soft_nll" not in document["shifted"]["cinic10_imagenet"]["scores"]
    said = capsys.readouterr()
    for words in ("cifar10h, tempered (votes)", "after fgsm", "noise sized as pgd", "cinic10_imagenet", "svhn"):
        assert words in said.out
    assert f"{raw['soft_nll']:.4f}" in said.out
    assert "…" not in said.out, "no number is cut short at 80 columns"
    assert "cinic10_imagenet is a sample of 20 images" in said.err
    assert "fair only if the network was trained on none of them" in said.err


def test_the_three_files_say_the_same(root):
    network(root)
    document = evaluate(root, "--model", SMALL, *TOLD, "--attacks", "fgsm", "--ood", "svhn", "--shift", "cinic10")
    rows = list(csv.DictReader((root / "judged" / "evaluation.csv").read_text().splitlines()))
    values = {(row["condition"], row["metric"]): row["value"] for row in rows}
    assert float(values["cifar10h", "soft_nll"]) == document["scores"]["raw"]["soft_nll"]
    assert float(values["outside: svhn", "auroc_energy"]) == document["ood"]["svhn"]["scores"]["auroc_energy"]
    assert len(values) == len(rows), "no condition and metric is there twice"
    page = (root / "judged" / "evaluation.md").read_text()
    assert f"| {document['scores']['raw']['soft_nll']:.4f} |" in page
    assert str(root) not in page + json.dumps(document), "no path of this machine"


def test_normalisation_is_that_told_or_that_of_the_file_or_that_of_the_data_and_it_is_said(root, capsys):
    model, _ = network(root)
    told = evaluate(root, "--model", SMALL, *TOLD)
    assert "Inputs are normalised as told: mean 0.5 0.4 0.3" in capsys.readouterr().err
    default = evaluate(root, "--model", SMALL)
    assert "by the data set's own, since the file has none: mean 0.4914" in capsys.readouterr().err
    safetensors.torch.save_file(model.state_dict(), root / "net.safetensors")
    stored = evaluate(root, "--model", SMALL)
    assert "normalised" not in capsys.readouterr().err
    assert stored["scores"] == told["scores"] != default["scores"]
    weights_for_grey = new_model(Smallcnn(4, 12), torch.rand(4, 1, 32, 32), 10, seed=0).state_dict()
    without = {name: value for name, value in weights_for_grey.items() if "normalise" not in name}
    with pytest.raises(InputError, match="does not say how inputs of 1 channels are normalised"):
        load_foreign(Smallcnn(4, 12), (1, 32, 32), 10, without, where="net")


def test_names_of_wrappers_are_dropped_others_are_changed_by_a_pattern_and_counters_may_be_missing(root):
    _, weights = network(root)
    expected = evaluate(root, "--model", SMALL, *TOLD)["scores"]
    kept = {name: value for name, value in weights.items() if not name.endswith("num_batches_tracked")}
    safetensors.torch.save_file({f"module.{name}": value for name, value in kept.items()}, root / "net.safetensors")
    document = evaluate(root, "--model", SMALL, *TOLD)
    assert document["scores"] == expected
    assert "The prefix 'module.' of names was dropped." in document["notes"]
    others = {name.replace("head.", "classifier.1."): value for name, value in kept.items()}
    safetensors.torch.save_file(others, root / "net.safetensors")
    with pytest.raises(InputError, match="2 unexpected: classifier"):
        evaluate(root, "--model", SMALL, *TOLD)
    renamed = evaluate(root, "--model", SMALL, *TOLD, "--rename", r"^classifier\.1\.=head.")
    assert renamed["scores"] == expected


@pytest.mark.parametrize("prefix", ["_orig_mod.module.", "model._orig_mod.", "model.module."])
def test_wrappers_may_be_nested_in_any_order_and_an_averaged_model_counts_beside_its_weights(root, prefix):
    model, weights = network(root)
    named = {f"{prefix}{name}": value for name, value in weights.items()} | {"n_averaged": torch.tensor(3)}
    loaded = load_foreign(Smallcnn(4, 12), (3, 32, 32), 10, named, where="net", moments=MOMENTS)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(loaded.model.state_dict()[name], value)


def test_what_lies_beside_the_network_is_named_and_left_out_only_where_the_user_says_so(root):
    _, weights = network(root)
    named = {"criterion.weight": torch.ones(10)} | {f"model.{name}": value for name, value in weights.items()}
    with pytest.raises(InputError, match=r"\(1 unexpected: criterion\.weight\)") as refusal:
        load_foreign(Smallcnn(4, 12), (3, 32, 32), 10, named, where="net", moments=MOMENTS)
    assert r"--rename '^criterion\.weight$='" in str(refusal.value)
    renames = [(r"^criterion\..*", "")]
    loaded = load_foreign(Smallcnn(4, 12), (3, 32, 32), 10, named, where="net", renames=renames, moments=MOMENTS)
    assert "As told, 1 weights were left out: criterion.weight." in loaded.notes


def test_half_precision_is_read_and_whole_numbers_of_a_quantised_network_are_refused(root):
    _, weights = network(root)
    half = {name: value.bfloat16() if value.is_floating_point() else value for name, value in weights.items()}
    loaded = load_foreign(Smallcnn(4, 12), (3, 32, 32), 10, half, where="net", moments=MOMENTS)
    assert loaded.model.state_dict()["head.weight"].dtype == torch.float32
    whole = weights | {"head.weight": (10 * weights["head.weight"]).to(torch.int8)}
    with pytest.raises(InputError, match=r"1 weights are whole numbers.*head\.weight"):
        load_foreign(Smallcnn(4, 12), (3, 32, 32), 10, whole, where="net", moments=MOMENTS)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("smallcnn(width=8, hidden=12)", r"of another shape: .* is \[4, 3, 3, 3\], not \[8, 3, 3, 3\]"),
        ("resnet20", r"missing: .*unexpected: "),
    ],
)
def test_weights_that_do_not_fit_say_which_and_how_to_mend_it(root, model, says):
    network(root)
    with pytest.raises(InputError, match=says) as refusal:
        evaluate(root, "--model", model, *TOLD)
    assert refusal.value.where.endswith("net.safetensors")
    assert "--model 'resnet18(width=8)'" in str(refusal.value)
    assert not (root / "judged" / "evaluation.json").exists()


def test_files_that_are_no_weights_are_refused_and_a_pickle_is_never_opened(root):
    network(root)
    (root / "net.safetensors").write_bytes(b"no weights")
    with pytest.raises(InputError, match="the file is damaged"):
        evaluate(root, "--model", SMALL)
    with pytest.raises(InputError, match=r"not a \.safetensors file"):
        cli(["evaluate", "--weights", str(root / "cifar10h" / "cifar10h-counts.npy"), "--out", str(root / "o"),
             "--model", SMALL], standalone_mode=False)  # fmt: skip
    with pytest.raises(InputError, match="no such file"):
        cli(["evaluate", "--weights", str(root / "none.safetensors"), "--out", str(root / "o"), "--model", SMALL],
            standalone_mode=False)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--mean", "0.5,0.4,0.3"], "one of them is missing"),
        (["--mean", "a,b,c", "--std", "1,1,1"], "not numbers"),
        (["--mean", "125,123,114", "--std", "63,62,67"], r"not that of images in \[0, 1\]"),
        (["--mean", "0,0,0", "--std", "1,0,1"], "std above 0"),
        (["--mean", "0,0", "--std", "1,1"], "does not say how inputs of 3 channels"),
        (["--attacks", "fgsm,cw"], "'cw' is not one of fgsm, pgd"),
        (["--shift", "svhn"], "its classes are 0, 1, 2"),
        (["--ood", "digits"], r"its images are \[1, 8, 8\]"),
        (["--ood", "nowhere"], "'nowhere' is not one of"),
        (["--data", "popquorn"], "no such file|no images"),
        (["--rename", "a"], "has no pattern before a ="),
        (["--rename", "(=b"], "is no regular expression"),
        (["--rename", ".*=b"], "gives two the same name"),
    ],
)
def test_bad_options_are_refused_in_words(root, options, says):
    network(root)
    with pytest.raises(InputError, match=says):
        evaluate(root, "--model", SMALL, *options)


def test_a_checkpoint_of_our_own_run_knows_its_model_and_is_judged_on_what_it_held_out(root):
    ledger = Ledger(root / "runs")
    run_id = finished(ledger, replace(SOFT, data="cifar10h", votes=None, best=None, batch=16))
    weights = root / "runs" / run_id / "last.safetensors"
    cli(["evaluate", "--weights", str(weights), "--out", str(root / "judged")], standalone_mode=False)
    document = json.loads((root / "judged" / "evaluation.json").read_text())
    run = ledger.read(run_id)
    assert document["data"]["items"] == run.facts["items"]["evaluation"] == 10
    for metric in ("accuracy", "soft_nll", "second_best_accuracy"):
        assert document["scores"]["raw"][metric] == pytest.approx(run.scores["last"]["raw"][metric], rel=1e-4)
    assert any("judged on the 10 items that it held out" in note for note in document["notes"])
    network(root)
    with pytest.raises(InputError, match="does not say which architecture"):
        evaluate(root)


def test_items_can_be_chosen_and_data_without_votes_have_scores_to_labels_alone(root):
    network(root)
    (root / "ids.txt").write_text("test/3\ntest/1\ntest/2\ntest/4\n")
    document = evaluate(root, "--model", SMALL, *TOLD, "--test-ids", str(root / "ids.txt"))
    assert document["data"]["items"] == 4
    document = evaluate(root, "--model", SMALL, *TOLD, "--data", "cinic10", "--attacks", "fgsm", "--attack-items", "7")
    assert "soft_nll" not in document["scores"]["raw"]
    assert document["scores"]["raw"]["accuracy"] >= 0
    assert document["attacks"]["fgsm"]["items"] == 7


def test_a_model_is_written_as_a_name_with_options():
    assert read_model("resnet18(width=8)") == ResNet18(width=8)
    assert read_model(" resnet18 ") == ResNet18()
    assert read_model("mlp(hidden=(3, 4))") == Mlp((3, 4))
    assert read_model("sngp(trunk=resnet18(width=8))") == Sngp(ResNet18(width=8))
    assert read_model("mc_dropout(trunk=smallcnn)") == McDropout(Smallcnn())
    for text in ("resnot", "resnet18(8)", "resnet18(width='8')", "resnet18(depth=8)", "resnet18(", "1 + 1", "",
                 "resnet18(width=open('x'))", "resnet18(**{})", "[" * 500):  # fmt: skip
        with pytest.raises(InputError, match="is no model") as refusal:
            read_model(text)
        assert "resnet20" in refusal.value.hint


def test_epsilon_is_a_fraction_and_not_a_number_of_255(root):
    import click

    network(root)
    with pytest.raises(click.BadParameter, match="write 4/255 for 4"):
        evaluate(root, "--model", SMALL, "--epsilon", "8")
    document = evaluate(root, "--model", SMALL, *TOLD, "--attacks", "fgsm", "--epsilon", "8/255")
    assert document["attacks"]["fgsm"]["epsilon"] == 8 / 255
    assert np.isfinite(document["attacks"]["fgsm"]["loss_per_step"]).all()
