"""st:NAME, any model of sentence-transformers by name, with the pooling its authors gave it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Name, Reads, Vectors, package

INSTALL = "pip install sentence-transformers"


class SentenceTransformer:
    """The encoder; the library downloads a model that is not here, and refuses what it does not know."""

    reads: Reads = "texts"
    batch = 32

    def __init__(self, name: Name) -> None:
        if not name.model:
            raise InputError(
                "st needs a model",
                where="encoder",
                hint="Write it as st:sentence-transformers/all-mpnet-base-v2",
                state="",
            )
        library = package("sentence_transformers", INSTALL)
        try:
            self._model = library.SentenceTransformer(name.model)
        except (OSError, ValueError) as error:
            raise InputError(f"this model cannot be loaded ({error})", where=f"st:{name.model}") from error
        self.provenance: dict[str, Any] = {
            "encoder": f"st:{name.model}",
            "model": name.model,
            "version": f"sentence-transformers {library.__version__}",
            "input": f"at most {self._model.max_seq_length} tokens",
            "pooling": "the model's own",
        }

    def __call__(self, items: Sequence[str]) -> Vectors:
        """float32 [B, D]."""
        vectors = self._model.encode(list(items), batch_size=len(items), show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32)
