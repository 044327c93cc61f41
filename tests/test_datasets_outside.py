"""Images from elsewhere: SVHN, CIFAR-100 and samples, on small files written here and on the real ones where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from dissensus import datasets
from dissensus.datasets import cifar100
from dissensus.errors import InputError
from finished import write_sample, write_svhn

SAMPLES = ("cinic10_imagenet", "imagenet_far", "tinyimagenet_other")


def line(name: str, root: Path):
    return next(one for one in datasets.catalogue(root) if one.name == name)


# ---- svhn


def test_svhn_is_turned_to_items_first_and_its_ten_is_zero(tmp_path):
    x, y = write_svhn(tmp_path)
    data = datasets.load("svhn", root=tmp_path)
    assert (data.x.dtype, data.x.shape) == (torch.uint8, (30, 3, 32, 32))
    for item, channel, row, column in [(0, 0, 0, 0), (7, 1, 3, 31), (29, 2, 31, 7)]:
        assert int(data.x[item, channel, row, column]) == x[row, column, channel, item]
    assert data.gold.tolist() == [digit % 10 for digit in y.ravel().tolist()]
    assert "30 of 26,032 test images" in data.notes[0]
    assert line("svhn", tmp_path).sizes == {"test images": (30, 26_032)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "not a MATLAB file with X and y"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [[1], [2], [3]]}, "3 labels"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": [[1], [2]]}, "float64"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [[0], [2]]}, r"outside 1…10"),
    ],
)
def test_another_mat_file_is_refused(tmp_path, content, message):
    (tmp_path / "svhn").mkdir()
    scipy.io.savemat(tmp_path / "svhn" / "test_32x32.mat", content)
    with pytest.raises(InputError, match=message) as caught:
        datasets.load("svhn", root=tmp_path)
    assert "dissensus data get svhn" in str(caught.value)


def test_a_broken_svhn_file_is_refused_and_counts_as_nothing(tmp_path):
    write_svhn(tmp_path)
    path = tmp_path / "svhn" / "test_32x32.mat"
    for content in (path.read_bytes()[:2000], b"<html>404</html>", b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a MATLAB file"):
            datasets.load("svhn", root=tmp_path)
    assert line("svhn", tmp_path).sizes == {"test images": (0, 26_032)}


# ---- cifar100


def write_cifar100(root: Path, images: int = 4) -> np.ndarray:
    records = np.random.default_rng(3).integers(0, 100, (images, 3074), dtype=np.uint8)
    (root / "cifar-100-binary").mkdir(parents=True)
    records.tofile(root / "cifar-100-binary" / "test.bin")
    return records


def test_a_record_of_cifar100_is_a_coarse_and_a_fine_label_and_three_planes(tmp_path):
    records = write_cifar100(tmp_path)
    data = datasets.load("cifar100", root=tmp_path)
    assert data.gold.tolist() == records[:, 1].tolist()
    assert torch.equal(data.x.flatten(1), torch.from_numpy(records[:, 2:]))
    assert data.ids == ("test/0", "test/1", "test/2", "test/3")
    assert "4 of 10,000 test images of CIFAR-100" in data.notes[0]


def test_the_official_file_goes_before_the_sample_which_says_that_it_is_one(tmp_path):
    x, y = write_sample(tmp_path, "cifar100", classes=100)
    data = datasets.load("cifar100", root=tmp_path)
    assert data.ids[0] == "sample/0"
    assert "sample of 20 images" in data.notes[0]
    assert int(data.x[3, 2, 5, 6]) == x[3, 5, 6, 2]
    assert data.gold.tolist() == y.tolist()
    assert line("cifar100", tmp_path).sizes == {"test images (a sample of both parts)": (20, 10_000)}
    write_cifar100(tmp_path)
    assert datasets.load("cifar100", root=tmp_path).ids[0] == "test/0"
    assert line("cifar100", tmp_path).sizes == {"test images": (4, 10_000)}


def test_a_broken_cifar100_file_is_refused(tmp_path):
    records = write_cifar100(tmp_path)
    path = tmp_path / "cifar-100-binary" / "test.bin"
    records[2, 1] = 200
    records.tofile(path)
    with pytest.raises(InputError, match="fine label 200 is not a class"):
        datasets.load("cifar100", root=tmp_path)
    for content in (path.read_bytes()[:-1], b""):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a whole number of records"):
            datasets.load("cifar100", root=tmp_path)


def test_there_are_a_hundred_classes_in_the_order_of_the_alphabet():
    assert len(set(cifar100.CLASSES)) == 100
    assert list(cifar100.CLASSES) == sorted(cifar100.CLASSES)


# ---- samples


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_and_counted(tmp_path, name):
    x, y = write_sample(tmp_path, name.replace("_", "-"))
    data = datasets.load(name, root=tmp_path)
    assert (data.name, len(data)) == (name, 20)
    assert int(data.x[3, 2, 5, 6]) == x[3, 5, 6, 2]
    assert data.gold.tolist() == y.tolist()
    assert "a sample of 20 images" in data.notes[0]
    assert line(name, tmp_path).sentence.startswith("20")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_that_is_not_here_says_where_to_put_it_and_cannot_be_fetched(tmp_path, name):
    with pytest.raises(InputError, match=r"not here: there is no such (file|folder)"):
        datasets.load(name, root=tmp_path)
    sentence = line(name, tmp_path).sentence
    assert sentence.startswith("not here. ")
    assert f"at images/{name.replace('_', '-')}-sample.npz" in sentence
    with pytest.raises(InputError, match="no official file to fetch"):
        list(datasets.get(name, tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"x": np.zeros((2, 32, 32, 3), np.uint8)}, "not a sample of images"),
        ({"x": np.zeros((2, 3, 32, 32), np.uint8), "y": [0, 1]}, r"x is uint8 \[2, 3, 32, 32\]"),
        ({"x": np.zeros((2, 32, 32, 3)), "y": [0, 1]}, "x is float64"),
        ({"x": np.zeros((2, 32, 32, 3), np.uint8), "y": [0]}, r"y is int64 \[1\]"),
        ({"x": np.zeros((2, 32, 32, 3), np.uint8), "y": [0, 10]}, r"labels 0…10 are outside 0…9"),
    ],
)
def test_another_npz_is_refused(tmp_path, content, message):
    (tmp_path / "images").mkdir()
    np.savez(tmp_path / "images" / "imagenet-far-sample.npz", **content)
    with pytest.raises(InputError, match=message):
        datasets.load("imagenet_far", root=tmp_path)


def test_a_file_that_is_no_npz_is_refused_and_counts_as_nothing(tmp_path):
    (tmp_path / "images").mkdir()
    for content in (b"", b"<html>404</html>"):
        (tmp_path / "images" / "imagenet-far-sample.npz").write_bytes(content)
        with pytest.raises(InputError, match="not a sample of images"):
            datasets.load("imagenet_far", root=tmp_path)
    assert line("imagenet_far", tmp_path).sizes == {"images": (0, 1)}


# ---- the real files


@pytest.mark.parametrize(("name", "at_least"), [("svhn", 5_000), ("cifar100", 4_000), *((one, 2_000) for one in SAMPLES)])
def test_the_real_files_are_images_of_the_classes_they_name(name, at_least):
    if "DISSENSUS_DATA" not in os.environ or not any(
        present for present, _ in line(name, datasets.data_root()).sizes.values()
    ):
        pytest.skip(f"DISSENSUS_DATA names no folder with {name}")
    data = datasets.load(name)
    assert len(data) >= at_least
    assert data.x.shape[1:] == (3, 32, 32)
    assert 0.2 < float(data.x.float().mean()) / 255 < 0.7
