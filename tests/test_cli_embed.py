"""`dissensus embed`, as a shell calls it, with a toy in the place of an encoder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dissensus import datasets
from dissensus.cli.embed_command import embed
from dissensus.datasets.own_files import read_features
from dissensus.errors import InputError
from dissensus.models import encoders


class Toy:
    """Texts to (length, number of a's), images to their mean."""

    batch = 2

    def __init__(self, reads: str) -> None:
        self.reads = reads
        self.provenance = {"encoder": reads, "version": "1"}

    def __call__(self, items):
        rows = items.float().mean((2, 3)).numpy() if self.reads == "images" else [[len(t), t.count("a")] for t in items]
        return np.asarray(rows, dtype=np.float32)


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """An empty data folder and cache; toys under the names `words` and `pixels`."""
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    toys = {"words": lambda name: Toy("texts"), "pixels": lambda name: Toy("images")}
    monkeypatch.setattr(encoders, "ENCODERS", {**encoders.ENCODERS, **toys})


def call(*arguments: str) -> None:
    embed(list(arguments), standalone_mode=False)


def write_popquorn() -> None:
    Path("data/popquorn").mkdir(parents=True)
    Path("data/popquorn/politeness_ratings.csv").write_text(
        "instance_id,user_id,text,politeness\n7,1,banana,3\n9,1,fig,2\n7,2,banana,5\n"
    )


def test_features_of_a_data_set_are_found_by_the_name_of_the_encoder(capsys, tmp_path):
    write_popquorn()
    call("popquorn", "words")
    printed = capsys.readouterr().out
    assert "2 items. The inputs are 2 frozen features per item: texts." in printed
    assert str(tmp_path / "data" / "features" / "popquorn-words.npz") in printed
    assert datasets.load("popquorn", features="words").x.tolist() == [[6, 3], [3, 0]]


def test_the_command_that_absent_features_name_makes_them():
    write_popquorn()
    with pytest.raises(InputError) as caught:
        datasets.load("popquorn", features="words")
    command = caught.value.hint.split("`")[1].split()
    assert command[:2] == ["dissensus", "embed"]
    call(*command[2:])
    datasets.load("popquorn", features="words")


def test_options_go_to_the_data_set(capsys):
    call("digits", "pixels", "--option", "votes=3")
    assert "1,797 items" in capsys.readouterr().out
    with pytest.raises(InputError, match="digits has no option 'seed'"):
        call("digits", "pixels", "--option", "seed=1")
    with pytest.raises(InputError, match="'votes' is not an option"):
        call("digits", "pixels", "--option", "votes")


def test_a_table_of_votes_with_texts_becomes_features_that_fit_reads():
    Path("votes.csv").write_text("item,annotator,label,comment\nx,1,cat,banana\ny,1,dog,fig\nx,2,dog,banana\n")
    call("votes.csv", "words", "--text", "comment", "--out", "out/features.npz")
    x, ids = read_features("out/features.npz")
    assert ids == ("x", "y")
    assert x.tolist() == [[6, 3], [3, 0]]


def test_pairs_and_arrays_of_images_are_encoded_too():
    Path("pairs.csv").write_text("id,premise,hypothesis\nx,aa,fig\n")
    call("pairs.csv", "words", "--text", "premise", "--pair", "hypothesis", "--out", "pairs.npz")
    assert read_features("pairs.npz")[0].tolist() == [[2, 2, 3, 0, 1, 2, 6, 0]]
    np.save("images.npy", np.full((2, 4, 4, 3), 7, np.uint8))
    call("images.npy", "pixels", "--out", "images.npz")
    assert read_features("images.npz")[0].tolist() == [[7, 7, 7]] * 2


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("votes.csv", "words"), "a file needs --out"),
        (("votes.csv", "words", "--out", "f.npz"), "there is no such file"),
        (("chaosnli", "words"), "dissensus data get chaosnli"),
        (("digits", "words"), "words reads texts, and these are images"),
        (("digits", "nothing"), "'nothing' is not one of minilm"),
        (("digits", "pixels", "--out", "f.npy"), "are written as .npz"),
    ],
)
def test_bad_input_is_said_and_nothing_is_written(arguments, what, tmp_path):
    with pytest.raises(InputError, match=what):
        call(*arguments)
    assert not list(tmp_path.rglob("*.np*"))


def test_the_command_imports_no_torch_before_it_is_used():
    program = "import sys; import dissensus.cli.embed_command; print('torch' in sys.modules, 'numpy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "False"]
