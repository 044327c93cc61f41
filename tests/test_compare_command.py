"""`dissensus compare` and `dissensus plan`, from files to a recommendation."""

import csv
import json
import shlex
import sys

import numpy as np
import pytest

from dissensus.cli import main
from dissensus.errors import InputError
from dissensus.experiments import vote_plan_study
from dissensus.models import encoders
from dissensus.models.encoders.image_folders import read_folder
from dissensus.random import numpy_generator
from toys import Toy


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Call the command line as a shell would, in one process: (exit code, what it printed, what it complained of)."""
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

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


@pytest.fixture
def files(tmp_path):
    """A crowd that follows its features, and one that agrees on everything."""
    draw = numpy_generator(0, "probe", "files")
    x = draw.standard_normal((120, 2))
    np.save(tmp_path / "features.npy", x.astype(np.float32))
    dog = 1 / (1 + np.exp(-2 * x[:, 0]))
    rows = [[f"i{item}", who, "dog" if draw.random() < dog[item] else "cat"] for item in range(120) for who in "abcde"]
    for name, votes in (("votes.csv", rows), ("agreed.csv", [[item, who, "cat"] for item, who, _ in rows])):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([["item", "annotator", "label"], *votes])
    return tmp_path


TINY = ("--methods", "soft,majority", "--repeats", "1", "--folds", "3", "--workers", "1", "--threads", "1")


def test_compare_ends_in_a_command_that_fit_understands_and_resumes(run, files):
    given = ("compare", files / "votes.csv", "--features", files / "features.npy", "--out", files / "out", *TINY)
    code, printed, said = run(*given, "--dry-run")
    assert code == 0
    assert "45 remain" in printed  # 3 splits × (2 methods and a control, 3 rates and their winner; 3 baselines)
    code, printed, said = run(*given)
    assert code == 0, said
    assert printed.startswith("Use Soft.")
    assert "Design: 1 × 3-fold cross-validation" in said
    assert "Pilot: two logistic regressions differ" in said
    assert (
        f"--features {files / 'features.npy'} --target empirical --delivery soft --out {files / 'out' / 'model'}"
        in printed
    )
    code, printed, said = run(*given, "--json")
    assert "0 computed" in said
    document = json.loads(printed)
    assert document["use"] == "Soft"
    assert set(document["compared_with"]) == {"Majority"}
    page = (files / "out" / "report.html").read_text(encoding="utf-8")
    assert page.index("Use Soft.") < page.index("The answer")
    for row in ("Logistic, votes", "Class prior", "Shuffled (control)"):
        assert row in page
    assert "target ;" not in (files / "out" / "results.md").read_text(encoding="utf-8")  # baselines have no settings


def test_texts_are_encoded_in_the_same_command(run, files, monkeypatch):
    monkeypatch.setitem(encoders.ENCODERS, "toy", Toy)
    with (files / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["item", "comment"], *([f"i{item}", "a" * (item % 7 + 1)] for item in range(120))])
    given = ("--texts", files / "texts.csv", "--encoder", "toy", "--out", files / "out", *TINY, "--dry-run")
    code, _, said = run("compare", files / "votes.csv", *given)
    assert code == 0, said
    assert "120 of 120 items" in said or "7 of 7 items" in said  # equal texts are encoded once
    assert (files / "out" / "features.npz").is_file()


def label_studio(item, labels):
    """A task as Label Studio exports it."""
    results = [
        {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": [name]}} for name in labels
    ]
    annotations = [
        {"id": 9 * item + who, "completed_by": {"id": who, "email": f"{who}@x.org"}, "result": [result]}
        for who, result in enumerate(results)
    ]
    return {"id": item, "data": {"text": "shown"}, "annotations": annotations, "predictions": [], "drafts": []}


def test_three_commands_lead_from_a_label_studio_export_and_texts_to_predictions(run, files, monkeypatch):
    """The second command is the one that the first recommends; the third is the one that the second names."""
    monkeypatch.setitem(encoders.ENCODERS, "toy", Toy)
    monkeypatch.chdir(files)
    draw = numpy_generator(0, "probe", "walk")
    texts = {item: "a" * (item % 7 + 1) + "b" * (item % 5) for item in range(120)}
    tasks = [
        label_studio(item, ["long" if draw.random() < len(text) / 10 else "short" for _ in range(5)])
        for item, text in texts.items()
    ]
    (files / "votes.json").write_text(json.dumps(tasks))
    for name, rows in (("texts.csv", list(texts.items())), ("NEW.csv", [("x", "aaaaaabbbb"), ("y", "b")])):
        with (files / name).open("w", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *rows])
    code, printed, said = run("compare", "votes.json", "--texts", "texts.csv", "--encoder", "toy", "--out", "c", *TINY)
    assert code == 0, said
    assert "read as: Label Studio JSON" in said
    assert "features by toy: " in said  # progress, without a terminal
    fit = next(line for line in printed.splitlines() if line.startswith("  dissensus fit "))
    code, printed, said = run(*shlex.split(fit)[1:], "--head", "linear")
    assert code == 0, said
    predict = next(line for line in printed.splitlines() if line.startswith("  dissensus predict "))
    code, printed, said = run(*shlex.split(predict)[1:])
    assert code == 0, said
    with (files / "predictions.csv").open() as file:
        rows = {row["item"]: float(row["long"]) for row in csv.DictReader(file)}
    assert rows["x"] > 0.5 > rows["y"]


def test_predict_encodes_texts_as_the_model_knows_them_or_refuses(run, files, monkeypatch):
    class Other(Toy):
        def __init__(self, name):
            super().__init__(name)
            self.provenance = {**self.provenance, "model": "another"}

    monkeypatch.setitem(encoders.ENCODERS, "toy", Toy)
    monkeypatch.setitem(encoders.ENCODERS, "other", Other)
    monkeypatch.chdir(files)
    texts = "item,text\n" + "".join(f"i{item},{'a' * (item % 7 + 1)}\n" for item in range(120))
    (files / "texts.csv").write_text(texts)
    assert run("embed", "texts.csv", "toy", "--out", "toy.npz")[0] == 0
    fit = ("fit", "votes.csv", "--head", "linear", "--out", "model", "--features")
    assert run(*fit, "toy.npz")[0] == 0
    from_texts = run("predict", "model", "--texts", "texts.csv")
    assert from_texts[0] == 0
    assert from_texts[1] == run("predict", "model", "toy.npz")[1]
    code, _, said = run("predict", "model", "--texts", "texts.csv", "--encoder", "other")
    assert code == 2
    assert "features with encoder 'toy', and these have 'other'" in said
    for arguments, words in (
        ((), "there are no items to predict"),
        (("toy.npz", "--texts", "texts.csv"), "several sources of items are given"),
        (("toy.npz", "--encoder", "toy"), "not encoded again"),
    ):
        code, _, said = run("predict", "model", *arguments)
        assert code == 2
        assert words in said
    assert run(*fit, "features.npy")[0] == 0  # the folder has another model now, of features from elsewhere
    code, _, said = run("predict", "model", "--texts", "texts.csv")
    assert code == 2
    assert "that no encoder of dissensus made" in said
    (files / "model" / "features.json").write_text('{"encoder": 3}')
    code, _, said = run("predict", "model", "--texts", "texts.csv")
    assert code == 2
    assert "does not say how features were made" in said


def test_a_text_is_its_own_id_where_the_votes_have_no_other_and_texts_alone_are_numbered(run, tmp_path, monkeypatch):
    monkeypatch.setitem(encoders.ENCODERS, "toy", Toy)
    monkeypatch.chdir(tmp_path)
    votes = "".join(f"{'a' * (item + 1)},{who},{'xy'[item % 2]}\n" for item in range(30) for who in ("ann", "bob"))
    (tmp_path / "votes.csv").write_text(f"text,worker,label\n{votes}")
    made = ("--head", "linear", "--encoder", "toy", "--out")
    code, _, said = run("fit", "votes.csv", "--texts", "text", *made, "model")
    assert code == 0, said
    (tmp_path / "new.csv").write_text("sentence\naa\naa\nb\n")
    code, printed, said = run("predict", "model", "--texts", "new.csv")
    assert code == 0, said
    assert [line.split(",")[0] for line in printed.splitlines()] == ["item", "0", "1", "2"]


def test_fit_encodes_texts_itself_and_predict_uses_the_same_encoder(run, files, monkeypatch):
    monkeypatch.setitem(encoders.ENCODERS, "toy", Toy)
    monkeypatch.chdir(files)
    texts = "item,text\n" + "".join(f"i{item},{'a' * (item % 7 + 1)}\n" for item in range(120))
    (files / "texts.csv").write_text(texts)
    fit = ("fit", "votes.csv", "--head", "linear", "--texts", "texts.csv", "--encoder", "toy", "--out")
    code, printed, said = run(*fit, "model")
    assert code == 0, said
    assert "dissensus predict model --texts NEW.csv" in printed
    assert "texts.csv by toy" in (files / "model" / "README.md").read_text()
    assert run("embed", "texts.csv", "toy", "--out", "toy.npz")[0] == 0
    assert run("fit", "votes.csv", "--head", "linear", "--features", "toy.npz", "--out", "other")[0] == 0
    assert run("predict", "model", "--texts", "texts.csv")[1] == run("predict", "other", "toy.npz")[1]
    code, _, said = run(*fit, "model", "--features", "toy.npz")
    assert code == 2
    assert "--features and --texts are given" in said
    code, _, said = run("fit", "votes.csv", "--out", "model")
    assert code == 2
    assert "there are no features" in said


def test_fit_and_predict_encode_folders_of_pictures(run, files, monkeypatch):
    image = pytest.importorskip("PIL.Image")

    class Colours(Toy):
        reads = "images"

        def __init__(self, name):
            self.provenance = {"encoder": "colours", "model": "colours"}

        def __call__(self, items):
            return (items.float().mean((2, 3)) / 255).numpy()

    monkeypatch.setitem(encoders.ENCODERS, "colours", Colours)
    monkeypatch.chdir(files)
    for folder, names in (("train", [f"i{item}" for item in range(120)]), ("new", ["b", "a"])):
        (files / folder).mkdir()
        for number, name in enumerate(names):
            image.new("RGB", (9, 7), (number, 7 * number % 256, 100)).save(files / folder / f"{name}.png")
    (files / "new" / "notes.txt").write_text("no picture")
    fit = ("fit", "votes.csv", "--head", "linear", "--images", "train", "--encoder", "colours", "--out", "model")
    code, printed, said = run(*fit)
    assert code == 0, said
    assert "dissensus predict model --images NEW" in printed
    code, printed, said = run("predict", "model", "--images", "new")
    assert code == 0, said
    assert [row["item"] for row in csv.DictReader(printed.splitlines())] == ["a", "b"]
    (files / "empty").mkdir()
    for arguments, words in (
        (("--images", "empty"), "there is no picture in this folder"),
        (("--images", "new", "--pair", "x"), "a second text needs a first"),
        (("--texts", "votes.csv"), "no column 'text'"),
    ):
        code, _, said = run("predict", "model", *arguments)
        assert code == 2
        assert words in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("agreed.csv", "--features", "features.npy"), "everybody agrees"),
        (("votes.csv",), "there are no features"),
        (("votes.csv", "--features", "features.npy", "--texts", "label"), "--features and --texts are given"),
        (("votes.csv", "--features", "features.npy", "--methods", "best"), "no method"),
        (("votes.csv", "--features", "features.npy", "--encoder", "minilm"), "not encoded again"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_computed(run, files, monkeypatch, arguments, words):
    monkeypatch.chdir(files)
    code, _, said = run("compare", *arguments, "--out", "out", "--workers", "1")
    assert code == 2
    assert words in said


def test_a_class_too_rare_for_some_split_is_refused_with_a_way_that_works(run, files, monkeypatch):
    monkeypatch.chdir(files)
    lines = (files / "votes.csv").read_text().splitlines()
    (files / "rare.csv").write_text("\n".join([*lines[:2], "i0,zoe,horse", *lines[2:], ""]))
    compare = ("compare", "rare.csv", "--features", "features.npy", "--out", "out", "--workers", "1", "--dry-run")
    code, _, said = run(*compare)
    assert code == 2
    assert "class 'horse' was chosen for so few items" in said
    assert "--missing 'horse' --drop-empty" in said
    code, _, said = run(*compare, "--missing", "horse", "--drop-empty")
    assert code == 0, said
    assert "2 classes: cat, dog" in said


def test_to_hold_out_every_item_is_refused(run, files, monkeypatch):
    monkeypatch.chdir(files)
    (files / "all.txt").write_text("".join(f"i{item}\n" for item in range(120)))
    code, _, said = run("compare", "votes.csv", "--features", "features.npy", "--out", "out", "--test-ids", "all.txt")
    assert code == 2
    assert "all.txt: all items are held out" in said


def test_features_of_items_without_votes_are_left_out_and_it_is_said(run, files, monkeypatch):
    monkeypatch.chdir(files)
    x, ids = np.load("features.npy"), [f"i{item}" for item in range(120)]
    order = numpy_generator(0, "probe", "pool").permutation(125)
    pool, names = np.concatenate([x, x[:5] + 9]), np.array([*ids, *"vwxyz"])
    np.savez("pool.npz", x=pool[order], ids=names[order])
    np.savez("same.npz", x=x, ids=np.array(ids))
    np.savez("fewer.npz", x=pool[1:], ids=names[1:])
    fit = ("fit", "votes.csv", "--head", "linear", "--features")
    code, _, said = run(*fit, "pool.npz", "--out", "of-pool")
    assert code == 0, said
    assert "pool.npz: 5 of its 125 rows are of items without votes (" in said
    run(*fit, "same.npz", "--out", "of-same")
    assert (files / "of-pool/model.safetensors").read_bytes() == (files / "of-same/model.safetensors").read_bytes()
    code, _, said = run(*fit, "fewer.npz", "--out", "of-fewer")
    assert code == 2
    assert "1 ids are missing (i0) and 5 are not in the votes" in said


def test_plan_advises_lists_items_and_refuses_to_look_too_far(run, files, monkeypatch):
    monkeypatch.setattr(vote_plan_study, "FRACTIONS", (4, 2, 1))
    monkeypatch.setattr(vote_plan_study, "VOTES", (2,))
    given = ("plan", files / "votes.csv", "--features", files / "features.npy", "--out", files / "plan", "--repeats", "1")
    code, _, said = run(*given, "--budget", "601", "--workers", "1")
    assert code == 2
    assert "Ask for at most 600" in said
    code, printed, said = run(*given, "--budget", "300", "--workers", "1", "--threads", "1", "--json")
    assert code == 0, said
    document = json.loads(printed)
    assert set(document["metrics"]) == {"soft_nll", "accuracy", "entropy_spearman"}
    with (files / "plan" / "next_votes.csv").open() as file:
        rows = list(csv.DictReader(file))
    worth = [float(row["variance_reduction"]) for row in rows]
    assert len(rows) == 120
    assert worth == sorted(worth, reverse=True)
    assert float(rows[0]["entropy"]) > float(rows[-1]["entropy"])
    page = (files / "plan" / "report.html").read_text(encoding="utf-8")
    assert document["headline"] in page
    assert "expected: more items" in page


def test_a_folder_of_pictures_is_read_by_item(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "deep").mkdir()
    image.new("RGB", (40, 20), (255, 0, 0)).save(tmp_path / "a.png")
    image.new("L", (10, 30), 7).save(tmp_path / "deep" / "b.bmp")
    pictures = read_folder(tmp_path, ["b", "a.png"], pixels=8)
    assert pictures.shape == (2, 3, 8, 8)
    assert pictures[:, :, 4, 4].tolist() == [[7, 7, 7], [255, 0, 0]]
    with pytest.raises(InputError, match="1 of 2 items have no picture, 'c' among them"):
        read_folder(tmp_path, ["a", "c"])


def test_an_item_with_several_pictures_is_refused(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ("cats/1.png", "dogs/1.png", "2.png", "2.bmp", "3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image.new("RGB", (8, 8)).save(tmp_path / name)
    for item, files in (("1", "cats/1.png and dogs/1.png"), ("2", "2.bmp and 2.png")):
        with pytest.raises(InputError, match=f"1 items have several pictures: '{item}' may be {files}"):
            read_folder(tmp_path, ["3", item])
    assert len(read_folder(tmp_path, ["2.png", "3"])) == 2
