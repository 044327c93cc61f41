"""hf:NAME, any image model of the Hugging Face hub by name, for example facebook/dinov2-small.

The image is resized to the model's own size (or that of the name, `@224`) as a whole, nothing is cropped, and normalised
by the mean and std that the model's `preprocessor_config.json` names. Features are the model's pooled output, or else its
first token (transformers) or the mean over the last map (convolutions).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dissensus.datasets.data import Moments
from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Name, Reads, Vectors, package
from dissensus.models.encoders.pixels import IMAGENET, described, prepare

INSTALL = "pip install transformers"
PREPROCESSOR = "preprocessor_config.json"


class HuggingFaceImages:
    """The encoder; the library downloads a model that is not here, and refuses what it does not know."""

    reads: Reads = "images"
    batch = 32

    def __init__(self, name: Name) -> None:
        if not name.model:
            raise InputError("hf needs a model", where="encoder", hint="Write it as hf:facebook/dinov2-small", state="")
        library = package("transformers", INSTALL)
        try:
            self._model = library.AutoModel.from_pretrained(name.model).eval()
            config = json.loads(Path(library.utils.cached_file(name.model, PREPROCESSOR)).read_text())
        except (OSError, ValueError) as error:
            raise InputError(f"this model cannot be loaded ({error})", where=f"hf:{name.model}") from error
        self._size = name.size or _size(config)
        self._moments: Moments = (
            tuple(config.get("image_mean", IMAGENET[0])),
            tuple(config.get("image_std", IMAGENET[1])),
        )
        self.provenance: dict[str, Any] = {
            "encoder": str(Name("hf", name.model)),
            "model": name.model,
            "version": f"transformers {library.__version__}",
            "input": described(self._size, self._moments),
            "pooling": "pooled output, first token or mean over the last map",
        }

    def __call__(self, items: Tensor) -> Vectors:
        """float32 [B, D]."""
        with torch.inference_mode():
            vectors: Vectors = (
                _pooled(self._model(pixel_values=prepare(items, self._size, self._moments))).float().numpy()
            )
        return vectors


def _size(config: dict[str, Any]) -> int:
    """The edge in pixels that the network was trained on: that of the crop where there is one.

    >>> _size({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}})
    224
    """
    size = config.get("crop_size", config.get("size", 224))
    if isinstance(size, dict):
        size = size.get("height", size.get("shortest_edge", 224))
    return int(size)


def _pooled(output: Any) -> Tensor:
    pooled: Tensor | None = getattr(output, "pooler_output", None)
    if pooled is not None:
        return pooled.flatten(1)  # convolutional models leave [B, D, 1, 1]
    last: Tensor = output.last_hidden_state
    return last.mean((2, 3)) if last.ndim == 4 else last[:, 0]
