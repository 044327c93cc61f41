import csv
import errno
import json
import os
import sys

import numpy as np
import pyarrow.parquet
import pytest
import torch

from crowds import crowd
from dissensus import multipass, sampled, soft
from dissensus.cli import main
from dissensus.datasets.own_files import read_probabilities
from dissensus.errors import InputError
from dissensus.training.item_split import split_items, strata
from dissensus.training.splits import Holdout
from dissensus.votes import Votes, read_votes, write_votes
from dissensus.votes.anonymise import anonymise


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Call the command line in a folder with votes.csv: (exit code, what it printed, what it complained of)."""
    monkeypatch.chdir(tmp_path)
    write_votes(crowd_votes(), "votes.csv")

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


def crowd_votes(items=120):
    """Everybody votes at most once on an item."""
    votes = crowd(items, votes=9, annotators=18).votes
    first = np.unique(votes.item * 18 + votes.annotator, return_index=True)[1]
    return Votes(
        votes.item[first], votes.label[first], votes.items, votes.classes, votes.annotator[first], votes.annotators
    )


@pytest.mark.parametrize("by", ["majority", "disagreement"])
@pytest.mark.parametrize("grouped", [False, True])
def test_every_item_is_in_one_part_and_all_parts_are_alike(by, grouped):
    votes = crowd_votes(600)
    groups = np.random.default_rng(0).integers(0, 150, 600) if grouped else None
    parts = split_items(votes, by=by, test=0.25, validation=0.15, seed=3, groups=groups)
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(600))
    for rows, share in zip(parts, (0.6, 0.15, 0.25), strict=True):
        assert len(rows) / 600 == pytest.approx(share, abs=0.04 if grouped else 0.01)
        if not grouped:
            kinds = strata(votes, by)
            whole = kinds.bincount() / 600
            assert torch.allclose(kinds[rows].bincount(minlength=len(whole)) / len(rows), whole, atol=0.02)
    if grouped:
        owned = [set(groups[rows.numpy()].tolist()) for rows in parts]
        assert not (owned[0] & owned[1] or owned[0] & owned[2] or owned[1] & owned[2])


def test_the_test_part_is_the_one_that_training_holds_out():
    data = crowd(100)
    votes = data.votes
    labels = torch.from_numpy(votes.counts.argmax(1))
    parts = split_items(votes, seed=5)
    outer = Holdout(0.2).split(labels, 5)
    inner = Holdout(0.1 / 0.8).split(labels[outer.train], 5, "validation")
    assert torch.equal(parts.test, outer.held_out)
    assert torch.equal(parts.validation, outer.train[inner.held_out])
    assert not torch.equal(split_items(votes, seed=6).test, parts.test)


def test_by_disagreement_unanimous_items_are_a_stratum_and_equal_entropies_stay_together():
    votes = Votes.from_counts([[4, 0], [0, 4], [3, 1], [1, 3], [2, 2], [2, 2]])
    kinds = strata(votes, "disagreement").tolist()
    assert kinds[0] == kinds[1] == 0
    assert kinds[2] == kinds[3] > 0
    assert kinds[4] == kinds[5] > kinds[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": 1.0}, "is no share"),
        ({"test": 0.6, "validation": 0.4}, "nothing is left"),
        ({"groups": np.zeros(120, dtype=np.int64)}, "1 groups are too few"),
    ],
)
def test_a_split_that_leaves_nothing_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        split_items(crowd_votes(), **options)


def ids_in(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [row["item"] for row in csv.DictReader(file)]


def test_split_writes_the_ids_and_says_the_balance(run, tmp_path):
    code, out, _ = run("split", "votes.csv", "--out", "parts", "--seed", 2)
    assert code == 0
    assert "majority class0" in out
    votes = crowd_votes()
    parts = split_items(votes, seed=2)
    for name, rows in parts._asdict().items():
        assert ids_in(tmp_path / "parts" / f"{name}.csv") == [votes.items[row] for row in rows]
    about = json.loads((tmp_path / "parts" / "split.json").read_text())
    assert about["parts"]["test"]["items"] == len(parts.test)
    assert sum(sum(part["majority"].values()) for part in about["parts"].values()) == 120


def test_groups_are_read_from_a_column_of_the_votes(run, tmp_path):
    lines = [f"t{item},{who},{'ab'[(item + who) % 2]},writer{item % 20}" for item in range(100) for who in range(3)]
    (tmp_path / "g.csv").write_text("\n".join(["item,annotator,label,author", *lines]) + "\n")
    code, out, _ = run("split", "g.csv", "--out", "parts", "--group", "author")
    assert code == 0
    assert "groups" in out
    owned = [{int(name[1:]) % 20 for name in ids_in(tmp_path / "parts" / f"{part}.csv")} for part in ("train", "test")]
    assert not owned[0] & owned[1]
    assert "no column 'writer'" in run("split", "g.csv", "--out", "parts", "--group", "writer")[2]
    (tmp_path / "g.csv").write_text("\n".join(["item,annotator,label,author", *lines, "t0,9,a,another"]) + "\n")
    assert "'t0' is in two groups" in run("split", "g.csv", "--out", "parts", "--group", "author")[2]


@pytest.mark.parametrize("name", ["soft.csv", "soft.tsv", "soft.jsonl", "soft.parquet"])
def test_soft_labels_can_be_read_back_as_probabilities(run, tmp_path, name):
    assert run("export", "votes.csv", name)[0] == 0
    votes = read_votes(tmp_path / "votes.csv")
    matrix = read_probabilities(tmp_path / name)
    assert (tuple(matrix.ids), tuple(matrix.classes)) == (votes.items, votes.classes)
    assert np.allclose(matrix.values, votes.soft, atol=1e-12)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--as", "majority"], lambda votes: torch.from_numpy(votes.counts.argmax(1))),
        (["--as", "delivered", "--epoch", 4], lambda votes: multipass(votes, seed=0)(4)),
        (
            ["--as", "delivered", "--delivery", "sampled", "--every", 2, "--epoch", 3, "--seed", 7],
            lambda votes: sampled(votes, seed=7, every=2)(3),
        ),
    ],
    ids=["majority", "multipass", "sampled"],
)
def test_hard_labels_are_those_of_a_training_loop(run, tmp_path, name, options, expected):
    code, out, _ = run("export", "votes.csv", name, *options)
    assert code == 0
    assert "120 items" in out
    votes, exported = read_votes(tmp_path / "votes.csv"), read_votes(tmp_path / name, items="item", labels="label")
    assert exported.items == votes.items
    assert [exported.classes[y] for y in exported.label] == [votes.classes[y] for y in expected(votes)]


def test_soft_delivery_and_other_targets_are_exported_as_distributions(run, tmp_path):
    run("export", "votes.csv", "a.csv", "--as", "delivered", "--delivery", "soft", "--target", "dawid_skene")
    votes = read_votes(tmp_path / "votes.csv")
    assert np.allclose(read_probabilities(tmp_path / "a.csv").values, soft(votes, target="dawid_skene")(0), atol=1e-6)


def test_gold_labels_are_matched_by_id(run, tmp_path):
    votes = read_votes(tmp_path / "votes.csv")
    gold = np.arange(120) % 4
    lines = [f"{votes.items[row]},{votes.classes[gold[row]]}" for row in range(119, -1, -1)]
    (tmp_path / "gold.csv").write_text("\n".join(["item,gold", *lines]) + "\n")
    assert run("export", "votes.csv", "hard.csv", "--target", "gold", "--gold", "gold.csv")[0] == 0
    assert (read_probabilities(tmp_path / "hard.csv").values.argmax(1) == gold).all()


def test_exported_votes_are_the_same_votes_by_other_names(run, tmp_path):
    code, out, _ = run("export", "votes.csv", "public.csv", "--as", "votes", "--salt", "secret", "--mapping", "who.json")
    assert code == 0
    assert "18 annotators were renamed" in out
    assert "secret" not in out.replace("secret:", "")
    votes, public = read_votes(tmp_path / "votes.csv"), read_votes(tmp_path / "public.csv")
    mapping = json.loads((tmp_path / "who.json").read_text())
    assert rows(public) == sorted((item, mapping[who], label) for item, who, label in rows(votes))
    assert not set(votes.annotators) & set(public.annotators)


def rows(votes):
    named = zip(votes.item, votes.annotator, votes.label, strict=True)
    return sorted((votes.items[i], votes.annotators[a], votes.classes[y]) for i, a, y in named)


def test_the_mapping_is_written_only_if_asked_for_and_a_random_salt_is_told(run, tmp_path):
    before = set(tmp_path.iterdir())
    first, second = (
        run("export", "votes.csv", "a.csv", "--as", "votes"),
        run("export", "votes.csv", "b.csv", "--as", "votes"),
    )
    assert "The salt is " in first[1]
    assert {path.name for path in set(tmp_path.iterdir()) - before} == {"a.csv", "b.csv"}
    assert (tmp_path / "a.csv").read_text() != (tmp_path / "b.csv").read_text()
    assert second[0] == 0


def test_the_same_salt_gives_the_same_names_and_the_order_of_annotators_is_not_kept():
    votes = crowd_votes()
    part = votes.subset(np.arange(40))
    whole, mapping = anonymise(votes, "s")
    assert anonymise(part, "s")[1].items() <= mapping.items()
    assert not set(anonymise(votes, "t")[1].values()) & set(mapping.values())
    assert list(whole.annotators) == sorted(whole.annotators)
    assert list(mapping.values()) != sorted(mapping.values())


def test_names_are_kept_if_the_user_says_so(run, tmp_path):
    assert run("export", "votes.csv", "same.csv", "--as", "votes", "--keep-names")[0] == 0
    assert rows(read_votes(tmp_path / "same.csv")) == rows(read_votes(tmp_path / "votes.csv"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["out.csv", "--as", "majority", "--salt", "s"], "--salt means nothing with --as majority"),
        (["out.csv", "--epoch", "1"], "--epoch means nothing with --as soft"),
        (["out.npy"], "do not fit in NumPy files"),
        (["out.csv", "--target", "telepathy"], "'telepathy' is not one of"),
        (["out.csv", "--as", "delivered", "--every", "2"], "only `sampled` holds"),
        (["out.csv", "--as", "votes", "--keep-names", "--salt", "s"], "both kept and changed"),
        (["full"], "not empty"),
    ],
)
def test_flags_that_contradict_each_other_are_refused_and_nothing_is_written(run, tmp_path, arguments, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").touch()
    code, _, complaint = run("export", "votes.csv", *arguments)
    assert code == 2
    assert message in complaint
    assert not (tmp_path / arguments[0]).is_file()


FOLDERS = {"soft": [], "majority": ["--as", "majority"], "votes": ["--as", "votes", "--salt", "s"]}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_holds_a_parquet_file_with_the_names_of_the_classes(run, tmp_path, kind):
    assert run("export", "votes.csv", "folder", *FOLDERS[kind])[0] == 0
    table = pyarrow.parquet.read_table(tmp_path / "folder" / "data" / "train-00000-of-00001.parquet")
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    votes = read_votes(tmp_path / "votes.csv")
    assert features["label"]["names"] == list(votes.classes)
    assert table.num_rows == (votes.n_votes if kind == "votes" else len(votes))
    if kind == "soft":
        assert np.allclose(np.stack(table["soft_label"].to_pylist()), votes.soft)
    if kind == "votes":
        assert table.column_names == ["item", "annotator", "label"]
        assert table["label"].to_pylist() == votes.label.tolist()
    assert "class0" in (tmp_path / "folder" / "README.md").read_text()


def test_a_folder_may_have_a_name_that_is_no_unicode(run, tmp_path):
    folder = os.fsdecode(bytes(tmp_path) + b"/\xff")
    assert run("export", "votes.csv", folder)[0] == 0
    assert len(os.listdir(folder)) == 2  # noqa: PTH208 - the folder's name is the point


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_loaded_by_the_datasets_package(run, tmp_path, kind, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    run("export", "votes.csv", "folder", *FOLDERS[kind])
    loaded = datasets.load_dataset(str(tmp_path / "folder"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features["label"].names == list(crowd_votes().classes)
    assert loaded[0]["item"] == "item0"


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "votes.csv", "votes.csv"],
        ["export", "votes.csv", "link.csv"],
        ["export", "votes.csv", "public.csv", "--as", "votes", "--mapping", "votes.csv"],
        ["inspect", "votes.csv", "--html", "votes.csv"],
        ["convert", "votes.csv", "votes.csv", "--force"],
        ["embed", "votes.npz", "minilm", "--out", "votes.npz"],
        ["plan", "next_votes.csv", "--features", "x.npy", "--out", "."],
        ["split", "train.csv", "--out", "."],
        ["predict", "model", "votes.csv", "--out", "votes.csv"],
    ],
    ids=" ".join,
)
def test_no_command_writes_over_what_it_reads(run, tmp_path, arguments):
    votes = (tmp_path / "votes.csv").read_bytes()
    (tmp_path / "link.csv").symlink_to("votes.csv")
    for name in ("next_votes.csv", "train.csv"):
        (tmp_path / name).write_bytes(votes)
    np.savez(tmp_path / "votes.npz", x=np.zeros((2, 8, 8, 3), np.uint8))
    before = (tmp_path / "votes.npz").read_bytes()
    code, _, complaint = run(*arguments)
    assert code == 2
    assert "this file is read by the command" in complaint
    assert all((tmp_path / name).read_bytes() == votes for name in ("votes.csv", "next_votes.csv", "train.csv"))
    assert (tmp_path / "votes.npz").read_bytes() == before


def test_names_are_not_lost_to_one_file_for_votes_and_mapping_nor_to_an_empty_salt(run, tmp_path):
    code, _, complaint = run("export", "votes.csv", "public.csv", "--as", "votes", "--mapping", "./public.csv")
    assert code == 2
    assert "the votes and the mapping would be one file" in complaint
    code, _, complaint = run("export", "votes.csv", "public.csv", "--as", "votes", "--salt", "")
    assert code == 2
    assert "an empty salt is no secret" in complaint
    assert not (tmp_path / "public.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["inspect", "votes.csv", "--html", "page.html"], "page.html"),
        (["split", "votes.csv", "--out", "parts"], "parts/train.csv"),
        (["export", "votes.csv", "public.csv", "--as", "votes", "--mapping", "who.json"], "who.json"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_a_full_disk_leaves_the_file_that_was_there(run, tmp_path, monkeypatch, arguments, file):
    (tmp_path / "parts").mkdir()
    (tmp_path / file).write_text("as it was")

    def full(self, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.replace", full)
    code, _, complaint = run(*arguments)
    assert code == 2
    assert file in complaint
    assert "No space left on device" in complaint
    assert (tmp_path / file).read_text() == "as it was"
