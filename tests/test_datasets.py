"""Data sets in their official formats: on small files written here, and on the real ones where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from dissensus import datasets
from dissensus.datasets import cifar10, cifar10h
from dissensus.datasets.catalogue import data_root
from dissensus.errors import InputError


def records(n: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(0, 256, (n, 3073), dtype=np.uint8)
    drawn[:, 0] %= 10
    return drawn


def write_batch(root: Path, name: str, n: int, seed: int = 0) -> np.ndarray:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    content = records(n, seed)
    content.tofile(folder / name)
    return content


def write_counts(root: Path, counts: np.ndarray) -> None:
    (root / "cifar10h").mkdir(parents=True, exist_ok=True)
    np.save(root / "cifar10h" / "cifar10h-counts.npy", counts)


RAW_HEADER = (
    "annotator_id,trial_index,is_attn_check,true_category,chosen_category,true_label,chosen_label,correct_guess,"
    "cifar10_test_test_idx,image_filename,reaction_time,time_elapsed\n"
)


def write_raw(root: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """(annotator, is an attention check, chosen label, image) per row."""
    (root / "cifar10h").mkdir(parents=True, exist_ok=True)
    lines = [
        f'{who},{trial},{check},cat,dog,3,{label},0,{image},"a, b.png",512.5,1000\n'
        for trial, (who, check, label, image) in enumerate(rows)
    ]
    (root / "cifar10h" / "cifar10h-raw.csv").write_text(RAW_HEADER + "".join(lines))


# ---- cifar10


def test_a_record_is_a_label_and_three_planes_of_pixels(tmp_path):
    content = write_batch(tmp_path, "test_batch.bin", 4)
    data = datasets.load("cifar10", part="test", root=tmp_path)
    assert data.x.dtype == torch.uint8
    assert data.gold.tolist() == content[:, 0].tolist()
    for item, channel, row, column in [(0, 0, 0, 0), (2, 1, 3, 31), (3, 2, 31, 7)]:
        assert int(data.x[item, channel, row, column]) == content[item, 1 + channel * 1024 + row * 32 + column]


def test_ids_count_in_the_official_order_also_past_a_missing_file(tmp_path):
    write_batch(tmp_path, "data_batch_3.bin", 2, seed=3)
    write_batch(tmp_path, "data_batch_1.bin", 3, seed=1)
    data = datasets.load("cifar10", root=tmp_path)
    assert data.ids == ("train/0", "train/1", "train/2", "train/20000", "train/20001")
    assert torch.equal(data.x[3:].flatten(1), torch.from_numpy(records(2, 3)[:, 1:]))


def test_a_partial_set_says_so(tmp_path):
    write_batch(tmp_path, "data_batch_1.bin", 3)
    (note,) = datasets.load("cifar10", root=tmp_path).notes
    assert "3 of 50,000 training images" in note


def test_a_file_that_is_cut_short_is_refused(tmp_path):
    write_batch(tmp_path, "test_batch.bin", 2)
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"test_batch\.bin: 6,145 bytes are not a whole number of records") as caught:
        datasets.load("cifar10", part="test", root=tmp_path)
    assert "dissensus data get cifar10" in str(caught.value)


def test_a_label_that_is_no_class_is_refused(tmp_path):
    content = write_batch(tmp_path, "test_batch.bin", 3)
    content[1, 0] = 77
    content.tofile(tmp_path / "cifar-10-batches-bin" / "test_batch.bin")
    with pytest.raises(InputError, match="record 1 has label 77"):
        datasets.load("cifar10", part="test", root=tmp_path)


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(InputError, match="'validation' is not one of train, test"):
        datasets.load("cifar10", part="validation", root=tmp_path)


# ---- cifar10h


def test_counts_meet_the_test_images_by_row(tmp_path):
    content = write_batch(tmp_path, "test_batch.bin", 3)
    counts = np.arange(30).reshape(3, 10)
    write_counts(tmp_path, counts)
    data = datasets.load("cifar10h", root=tmp_path)
    assert data.ids == data.votes.items == ("test/0", "test/1", "test/2")
    assert data.classes == data.votes.classes == cifar10.CLASSES
    np.testing.assert_array_equal(data.votes.counts, counts)
    assert data.gold.tolist() == content[:, 0].tolist()
    assert "3 of 10,000 images of CIFAR-10H" in data.notes[0]


def test_counts_of_images_that_are_not_here_are_left_out(tmp_path):
    write_batch(tmp_path, "test_batch.bin", 2)
    write_counts(tmp_path, np.ones((5, 10), dtype=np.int64))
    assert datasets.load("cifar10h", root=tmp_path).votes.n_votes == 20


@pytest.mark.parametrize("shape", [(2, 9), (1, 10), (20,)])
def test_counts_that_do_not_fit_are_refused(tmp_path, shape):
    write_batch(tmp_path, "test_batch.bin", 2)
    write_counts(tmp_path, np.ones(shape, dtype=np.int64))
    with pytest.raises(InputError, match="do not fit 2 images and 10 classes"):
        datasets.load("cifar10h", root=tmp_path)


def test_a_counts_file_that_is_no_numpy_file_is_refused(tmp_path):
    write_batch(tmp_path, "test_batch.bin", 2)
    write_counts(tmp_path, np.ones((2, 10)))
    (tmp_path / "cifar10h" / "cifar10h-counts.npy").write_text("<html>404</html>")
    with pytest.raises(InputError, match="not a NumPy file"):
        datasets.load("cifar10h", root=tmp_path)


def test_raw_rows_say_who_cast_each_vote_and_attention_checks_are_left_out(tmp_path):
    write_batch(tmp_path, "test_batch.bin", 2)
    write_raw(tmp_path, [(7, 0, 3, 1), (7, 1, 5, -99999), (40, 0, 5, 0), (40, 0, 3, 1), (7, 0, 9, 0), (7, 0, 2, 5000)])
    votes = datasets.load("cifar10h", annotators=True, passing=0.0, root=tmp_path).votes
    assert votes.annotators == ("7", "40")
    said = {
        (votes.annotators[a], votes.items[i], votes.classes[label])
        for a, i, label in zip(votes.annotator, votes.item, votes.label, strict=True)
    }
    assert said == {("7", "test/1", "cat"), ("40", "test/0", "dog"), ("40", "test/1", "cat"), ("7", "test/0", "truck")}
    cleaned = datasets.load("cifar10h", annotators=True, root=tmp_path)
    assert cleaned.votes.annotators == ("40",), "7 failed the only attention check"
    assert any(note.startswith("3 votes of 1 of 2 annotators with less than 75%") for note in cleaned.notes)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "", RAW_HEADER + "x,0,0,cat,dog,3,5,0,0,f.png,1,1\n"])
def test_a_raw_file_of_another_kind_is_refused(tmp_path, text):
    write_batch(tmp_path, "test_batch.bin", 1)
    write_raw(tmp_path, [])
    (tmp_path / "cifar10h" / "cifar10h-raw.csv").write_text(text)
    with pytest.raises(InputError, match=r"not the raw file of CIFAR-10H|has a cell that is no number"):
        datasets.load("cifar10h", annotators=True, root=tmp_path)


# ---- the catalogue


@pytest.mark.parametrize("name", ["cifar10", "cifar10h"])
def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path, name):
    with pytest.raises(InputError, match=f"dissensus data get {name}"):
        datasets.load(name, root=tmp_path)
    (status,) = [line for line in datasets.catalogue(tmp_path) if line.name == name]
    assert status.sentence == f"not here: `dissensus data get {name}` fetches it"
    assert not status.complete


def test_the_catalogue_shows_how_much_of_each_set_is_here(tmp_path):
    write_batch(tmp_path, "data_batch_2.bin", 4)
    write_batch(tmp_path, "test_batch.bin", 3)
    write_counts(tmp_path, np.ones((10_000, 10), dtype=np.int64))
    lines = {line.name: line for line in datasets.catalogue(tmp_path)}
    assert list(lines) == list(datasets.DATASETS)
    assert lines["digits"].complete
    assert lines["digits"].sentence == "1,797 images"
    assert lines["cifar10"].sizes == {"train images": (4, 50_000), "test images": (3, 10_000)}
    assert lines["cifar10"].sentence.startswith("4 of 50,000 train images, 3 of 10,000 test images")
    assert lines["cifar10h"].sizes == {"rows of counts": (10_000, 10_000), "test images": (3, 10_000)}


def test_every_line_names_a_licence_and_a_source():
    for line in datasets.DATASETS.values():
        assert line.licence
        assert line.source.startswith(("https://", "http://"))


def test_an_embedded_set_needs_no_fetching(tmp_path):
    assert "nothing to fetch" in " ".join(datasets.get("digits", tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_missing_is_fetched(tmp_path, monkeypatch):
    fetched = []
    monkeypatch.setattr(datasets, "fetch", lambda remote, root, progress: fetched.append(remote.name) or "came")
    write_batch(tmp_path, "test_batch.bin", 10_000)
    write_counts(tmp_path, np.ones((10_000, 10), dtype=np.int64))
    said = list(datasets.get("cifar10h", tmp_path))
    assert fetched == ["cifar10h-raw.zip", "cifar-10-binary.tar.gz"]  # the training files are not here
    assert said == ["cifar10h-counts.npy: already here.", "came", "came"]


def test_a_file_of_the_wrong_size_is_not_taken_for_the_whole(tmp_path):
    write_counts(tmp_path, np.ones((10, 10), dtype=np.int64))
    assert not cifar10h.ENTRY.remotes[0].is_here(tmp_path)


def test_unknown_names_and_options_are_bad_input():
    with pytest.raises(InputError, match="'cifar11' is not one of digits, cifar10, cifar10h"):
        datasets.load("cifar11")
    with pytest.raises(InputError, match="digits has no option 'vots'"):
        datasets.load("digits", vots=3)


def test_the_data_folder_is_named_by_the_environment_or_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path / "named"))
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("DISSENSUS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "dissensus"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache" / "dissensus"


# ---- the real files


def real(name: str):
    here = "DISSENSUS_DATA" in os.environ and any(
        line.name == name and all(present for present, _ in line.sizes.values()) for line in datasets.catalogue()
    )
    return pytest.mark.skipif(not here, reason=f"DISSENSUS_DATA names no folder with {name}")


@real("cifar10h")
def test_cifar10h_is_as_published():
    data = datasets.load("cifar10h")
    counts = data.votes.counts
    assert data.x.shape == (10_000, 3, 32, 32)
    assert data.votes.n_votes == 511_000
    assert (counts.sum(1).min(), counts.sum(1).max()) == (47, 63)
    assert (counts.argmax(1) == data.gold.numpy()).mean() == pytest.approx(0.9921)
    assert int((counts.max(1) == counts.sum(1)).sum()) == 4_393  # unanimous


@real("cifar10")
def test_cifar10_is_as_published():
    test = datasets.load("cifar10", part="test")
    assert torch.bincount(test.gold).tolist() == [1000] * 10
    train = datasets.load("cifar10", part="train")
    seen = train.x.double() / 255
    tolerance = 0.0001 if len(train) == 50_000 else 0.005  # the constants are those of the whole set
    np.testing.assert_allclose(seen.mean((0, 2, 3)), cifar10.MOMENTS[0], atol=tolerance)
    np.testing.assert_allclose(seen.std((0, 2, 3)), cifar10.MOMENTS[1], atol=tolerance)
