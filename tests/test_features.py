"""Features: the file beside a data set, and what is encoded from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets import feature_files as features
from dissensus.datasets.data import Data
from dissensus.datasets.feature_files import Features, content_keys
from dissensus.datasets.own_files import read_features
from dissensus.errors import InputError
from dissensus.models import encoders
from dissensus.models.encoders import Name
from dissensus.models.encoders.sources import read_contents
from toys import IDS, TEXTS, Toy


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """No test sees the caches or the data of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DISSENSUS_DATA", raising=False)


@pytest.fixture
def toy(monkeypatch):
    """The toy under the name `toy`; what is returned is what `encode` will use."""
    made = Toy(Name("toy"))
    monkeypatch.setattr(encoders, "ENCODERS", {**encoders.ENCODERS, "toy": lambda name: made})
    return made


def write_popquorn(root: Path, *texts: str) -> None:
    (root / "popquorn").mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{number},r,{text},3\n" for number, text in enumerate(texts))
    (root / "popquorn" / "politeness_ratings.csv").write_text("instance_id,user_id,text,politeness\n" + rows)


def stored(root: Path, *texts: str, name: str = "toy") -> Path:
    ids = [str(number) for number in range(len(texts))]
    return features.store(encoders.encode(ids, texts, name), "popquorn", name, root)


def test_features_are_found_by_name_matched_by_id_and_said(toy, tmp_path):
    write_popquorn(tmp_path, "banana", "fig")
    made = encoders.encode(["1", "5", "0"], ["fig", "kiwi", "banana"], "toy")  # another order, and one more
    assert features.store(made, "popquorn", "toy", tmp_path) == tmp_path / "features" / "popquorn-toy.npz"
    data = datasets.load("popquorn", features="toy", root=tmp_path)
    assert data.x.tolist() == [[6, 3], [3, 0]]
    assert data.x.dtype == torch.float32
    assert data.texts == ("banana", "fig")
    assert "2 frozen features per item: toy." in data.notes[-1]
    assert data.digest != datasets.load("popquorn", root=tmp_path).digest


def test_absent_features_bring_the_command_that_makes_them(tmp_path):
    write_popquorn(tmp_path, "banana")
    with pytest.raises(InputError, match="popquorn has no features by 'minilm'") as caught:
        datasets.load("popquorn", features="minilm", root=tmp_path)
    assert "dissensus embed popquorn minilm" in caught.value.hint


def test_items_without_features_are_counted(toy, tmp_path):
    stored(tmp_path, "banana", "fig")
    write_popquorn(tmp_path, "banana", "fig", "kiwi", "date")
    with pytest.raises(InputError, match="2 of 4 items have no features, '2' among them"):
        datasets.load("popquorn", features="toy", root=tmp_path)


def test_features_of_another_text_under_the_same_id_are_refused(toy, tmp_path):
    stored(tmp_path, "banana", "fig")
    write_popquorn(tmp_path, "banana", "figs")
    with pytest.raises(InputError, match="the features of '1' were made from other content") as caught:
        datasets.load("popquorn", features="toy", root=tmp_path)
    assert "dissensus embed popquorn toy" in caught.value.hint


def test_what_does_not_fit_in_a_read_only_folder_is_found_anew_in_the_cache(toy, tmp_path):
    stored(tmp_path / "data", "banana")
    write_popquorn(tmp_path / "data", "bananas")
    features.write(encoders.encode(["0"], ["bananas"], "toy"), features.user_cache() / "features" / "popquorn-toy.npz")
    assert datasets.load("popquorn", features="toy", root=tmp_path / "data").x.tolist() == [[7, 3]]


def test_features_from_elsewhere_need_only_ids_and_numbers(tmp_path):
    write_popquorn(tmp_path, "banana", "fig")
    (tmp_path / "features").mkdir()
    np.savez(tmp_path / "features" / "popquorn-mine.npz", ids=["1", "0"], x=[[1.0], [2.0]])
    assert datasets.load("popquorn", features="mine", root=tmp_path).x.tolist() == [[2.0], [1.0]]


@pytest.mark.parametrize(
    ("arrays", "what"),
    [
        ({"x": [[1.0], [2.0]]}, "there are no `ids`"),
        ({"ids": ["0", "1"], "x": [1.0, 2.0]}, "no matrix of numbers"),
        ({"ids": ["0", "1"], "x": [["a"], ["b"]]}, "no matrix of numbers"),
        ({"ids": ["0"], "x": [[1.0], [2.0]]}, "1 ids for 2 rows"),
        ({"ids": ["0", "0"], "x": [[1.0], [2.0]]}, "an id occurs twice"),
        ({"ids": ["0", "1"], "x": [[1.0], [np.nan]]}, "the features of '1' are not all finite"),
    ],
)
def test_a_file_of_no_features_is_refused(tmp_path, arrays, what):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=what):
        features.read(tmp_path / "bad.npz")


def test_features_come_back_as_they_were_written(toy, tmp_path):
    made = encoders.encode(IDS, TEXTS, "toy")
    features.write(made, tmp_path / "f.npz")
    back = features.read(tmp_path / "f.npz")
    assert (back.ids, back.keys, back.provenance) == (made.ids, made.keys, made.provenance)
    np.testing.assert_array_equal(back.x, made.x)
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["f.npz"]


def test_a_second_part_of_a_data_set_is_kept_beside_the_first(toy, tmp_path):
    features.store(encoders.encode(["a", "b"], ["x", "xx"], "toy"), "d", "toy", tmp_path)
    path = features.store(encoders.encode(["b", "c"], ["xxx", "aa"], "toy"), "d", "toy", tmp_path)
    back = features.read(path)
    assert dict(zip(back.ids, back.x.tolist(), strict=True)) == {"a": [1, 0], "b": [3, 0], "c": [2, 2]}


def test_another_version_takes_the_place_of_the_first(toy, tmp_path):
    features.store(encoders.encode(["a"], ["x"], "toy"), "d", "toy", tmp_path)
    toy.provenance["version"] = "2"
    path = features.store(encoders.encode(["b"], ["xx"], "toy"), "d", "toy", tmp_path)
    assert features.read(path).ids == ("b",)


def test_a_read_only_data_folder_is_looked_into_and_the_users_cache_is_written_to(toy, tmp_path):
    root = tmp_path / "data"
    stored(root, "banana")
    write_popquorn(root, "banana")
    root.chmod(0o555)
    (root / "features").chmod(0o555)
    try:
        assert datasets.load("popquorn", features="toy", root=root).x.tolist() == [[6, 3]]
        path = stored(root, "banana", name="toy:b")
        assert path == tmp_path / "cache" / "dissensus" / "features" / "popquorn-toy_b.npz"
        assert datasets.load("popquorn", features="toy:b", root=root).x.tolist() == [[6, 3]]
    finally:
        root.chmod(0o755)
        (root / "features").chmod(0o755)


def test_a_key_is_of_the_content_alone():
    images = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2)
    assert content_keys(images)[1] == content_keys(images[1:])[0] != content_keys(images)[0]
    assert content_keys(images)[0] != content_keys(images.reshape(2, 3, 4, 1))[0]
    assert content_keys([("a", "b")]) != content_keys([("b", "a")])


def test_data_without_texts_or_images_have_nothing_to_encode():
    images = Data(name="d", classes=("a",), ids=("0",), x=torch.zeros(1, 3, 2, 2, dtype=torch.uint8))
    assert features.contents_of(images) is images.x
    with pytest.raises(InputError, match="texts has 2 rows but there are 1 ids"):
        replace(images, texts=("one", "two"))
    with pytest.raises(InputError, match="neither texts nor images"):
        features.contents_of(replace(images, x=torch.zeros(1, 3)))


def test_features_are_said_in_a_sentence():
    made = Features(
        ("a",), np.zeros((1, 1536), np.float32), {"encoder": "minilm", "pairs": "pairs as one", "version": "1"}
    )
    assert made.sentence == "The inputs are 1,536 frozen features per item: minilm; pairs as one."


# ---- files to encode


def test_a_table_gives_one_text_an_item_however_often_it_stands_there(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("item,annotator,label,comment\nx,1,cat,one\ny,1,dog,two\nx,2,dog,one\n")
    assert read_contents(path, text="comment") == (("x", "y"), ("one", "two"))


def test_ids_are_named_as_in_votes(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"id": 0, "text": "one"}\n{"id": 12, "text": "two"}\n')
    assert read_contents(path)[0] == ("0", "12")


def test_two_columns_make_pairs_and_rows_without_ids_are_numbered(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"text": "p", "other": "q"}\n{"text": "r", "other": "s"}\n')
    assert read_contents(path, second="other") == (("0", "1"), (("p", "q"), ("r", "s")))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("item,comment\nx,one\n", "there is no column 'text' .*item, comment"),
        ("item,text\nx,one\nx,two\n", "item 'x' has another text above"),
        ("item,text\nx,one\n,two\n", "the item is empty"),
    ],
)
def test_a_table_without_one_text_an_item_is_refused(tmp_path, content, what):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=what):
        read_contents(tmp_path / "t.csv")


@pytest.mark.parametrize("shape", [(2, 5, 4, 3), (2, 3, 5, 4), (2, 5, 4), (2, 5, 4, 1)])
def test_images_come_channels_first_or_last_or_grey(tmp_path, shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "x.npz", x=images, ids=["a", "b"])
    ids, x = read_contents(tmp_path / "x.npz")
    assert ids == ("a", "b")
    assert x.shape == (2, 3 if 3 in shape else 1, 5, 4)
    assert sorted(x.flatten().tolist()) == sorted(images.flatten().tolist())


@pytest.mark.parametrize("images", [np.zeros((2, 3, 4, 4)), np.zeros((2, 4, 4, 7), np.uint8), np.zeros((2, 4), np.uint8)])
def test_an_array_of_no_images_is_refused(tmp_path, images):
    np.save(tmp_path / "x.npy", images)
    with pytest.raises(InputError, match=r"no images uint8|neither 1 nor 3 channels"):
        read_contents(tmp_path / "x.npy")


def test_features_in_a_file_that_float32_cannot_tell_apart_train_no_model(tmp_path):
    table = tmp_path / "features.csv"
    table.write_text("id,time\n" + "".join(f"i{row},{1_700_000_000 + row}\n" for row in range(20)))
    with pytest.raises(InputError, match=r"feature 'time' varies by .* float32 cannot tell apart"):
        read_features(table, to_train=True)
    assert read_features(table)[0].shape == (20, 1)  # to predict, few rows may well be alike
