"""A model on disk is read whole, or refused with what is wrong with it."""

import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

from crowds import crowd
from dissensus.errors import InputError
from dissensus.estimator import VoteClassifier
from dissensus.store.atomic_files import digest

DATA = crowd(items=60, classes=3, votes=5)
X = DATA.x.numpy()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    VoteClassifier(hidden=4, epochs=2, dropout=0.2, weight_decay=0.1, seeds=1).fit(X, DATA.votes).save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    return tmp_path / "model"


def change(folder, **values):
    about = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**about, **values}))


def reweigh(folder, alter):
    """Change the weights, and the digest with them: damage that a checksum does not show."""
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(alter(weights), folder / "model.safetensors")
    change(folder, weights=digest(folder / "model.safetensors"))


MLP = {"name": "mlp", "hidden": [4], "dropout": 0.2, "standardise": True}
DOCUMENTS = {
    "another format": {"format": 99},
    "an older format": {"format": 1},
    "a format in words": {"format": "2"},
    "temperature 0": {"temperature": 0},
    "a negative temperature": {"temperature": -1.0},
    "temperature NaN": {"temperature": float("nan")},
    "an infinite temperature": {"temperature": float("inf")},
    "temperature true": {"temperature": True},
    "no temperature": {"temperature": None},
    "a class twice": {"classes": ["a", "a", "b"]},
    "too few classes": {"classes": ["a", "b"]},
    "no classes": {"classes": []},
    "classes that are numbers": {"classes": [1, 2, 3]},
    "no features": {"features": 0},
    "other features": {"features": 6},
    "countless features": {"features": 10**12},
    "half a feature": {"features": 5.5},
    "no members": {"members": []},
    "a member too few": {"members": [MLP]},
    "a member of no kind": {"members": [{"name": "tree"}]},
    "a member without a name": {"members": [{}]},
    "members that are a number": {"members": 3},
    "a hidden layer of a trillion": {"members": [{**MLP, "hidden": [10**12]}]},
    "a hidden layer in words": {"members": [{**MLP, "hidden": ["4"]}]},
    "an unknown setting of a member": {"members": [{**MLP, "colour": 1}]},
    "dropout 1": {"members": [{**MLP, "dropout": 1.0}]},
    "settings that are a list": {"settings": []},
    "a learning rate in words": {"settings": {"lr": "fast"}},
    "an unknown target": {"settings": {"target": {"name": "softest"}}},
    "a target that is a number": {"settings": {"target": 3}},
    "a candidate without a weight": {"chosen": [{"name": "a"}]},
    "candidates that are text": {"chosen": ["a"]},
    "another digest": {"weights": "0" * 64},
    "no digest": {"weights": None},
}


@pytest.mark.parametrize("values", DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_damaged_description_is_refused(folder, values):
    change(folder, **values)
    with pytest.raises(InputError, match=r"model\.(json|safetensors)"):
        VoteClassifier.load(folder)


@pytest.mark.parametrize(
    "key", ["format", "classes", "features", "temperature", "members", "settings", "chosen", "weights"]
)
def test_a_description_without_a_key_is_refused(folder, key):
    about = json.loads((folder / "model.json").read_text())
    del about[key]
    (folder / "model.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=f"there is no '{key}' in it"):
        VoteClassifier.load(folder)


def first(weights, change_value):
    name = next(name for name in weights if name.endswith("head.weight"))
    return {**weights, name: change_value(weights[name])}


WEIGHTS = {
    "NaN": lambda weights: first(weights, lambda value: torch.full_like(value, torch.nan)),
    "infinity": lambda weights: first(weights, lambda value: value / 0),
    "another shape": lambda weights: first(weights, lambda value: value.T.contiguous()),
    "another type": lambda weights: first(weights, lambda value: value.double()),
    "a tensor too few": lambda weights: dict(list(weights.items())[1:]),
    "a tensor too many": lambda weights: {**weights, "more": torch.zeros(1)},
    "shares that sum to 2": lambda weights: {**weights, "weights": weights["weights"] * 2},
    "a negative share": lambda weights: {**weights, "weights": 1 - 2 * torch.eye(len(weights["weights"])).double()[0]},
    "a standard deviation of 0": lambda weights: {
        name: value * 0 if name.endswith("normalise.std") else value for name, value in weights.items()
    },
}


@pytest.mark.parametrize("alter", WEIGHTS.values(), ids=WEIGHTS)
def test_damaged_weights_are_refused_even_where_the_digest_is_right(folder, alter):
    reweigh(folder, alter)
    with pytest.raises(InputError, match=r"model\.safetensors: the model is damaged"):
        VoteClassifier.load(folder)


FILES = {
    "empty": b"",
    "not JSON": b"{",
    "not text": b"\xff\xfe",
    "nested beyond reason": b"[" * 100_000,
    "a number": b"3",
    "null": b"null",
    "a list": b"[]",
}


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_of_something_else_is_refused(folder, name, content):
    (folder / name).write_bytes(content)
    if name == "model.safetensors":
        change(folder, weights=digest(folder / name))
    with pytest.raises(InputError, match=name):
        VoteClassifier.load(folder)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_file_that_is_missing_or_a_folder_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match="no readable model"):
        VoteClassifier.load(folder)
    (folder / name).mkdir()
    with pytest.raises(InputError, match="no readable model"):
        VoteClassifier.load(folder)


def test_random_damage_is_refused_or_changes_nothing_that_matters(folder):
    """A flipped byte is either seen, or leaves a model with finite probabilities (a class may have another name)."""
    rng, seen = np.random.default_rng(0), 0
    for name in ("model.json", "model.safetensors"):
        content = (folder / name).read_bytes()
        for _ in range(150):
            damaged = bytearray(content)
            damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
            (folder / name).write_bytes(
                damaged[: rng.integers(1, len(content))] if rng.random() < 0.2 else bytes(damaged)
            )
            try:
                assert np.isfinite(VoteClassifier.load(folder).predict_proba(X)).all()
            except InputError:
                seen += 1
        (folder / name).write_bytes(content)
    assert seen > 200, "every byte of the weights counts"


def test_a_save_that_is_interrupted_between_the_files_is_noticed(folder, monkeypatch):
    from dissensus.estimator import model_folder

    whole, written = model_folder.write_whole, []

    def interrupted(file, content):
        if written:
            raise KeyboardInterrupt
        written.append(file)
        whole(file, content)

    model = VoteClassifier(head="linear", weight_decay=1.0).fit(X, DATA.votes)
    monkeypatch.setattr(model_folder, "write_whole", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(folder)
    with pytest.raises(InputError, match="interrupted save"):
        VoteClassifier.load(folder)
