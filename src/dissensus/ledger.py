"""The ledger: one folder a finished run, named by the hash of its spec, written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.runs import Run

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays: one .npz file."""


class Ledger:
    """Finished runs under `folder`. A run that is here is never computed again."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def __contains__(self, run_id: str) -> bool:
        return (self.folder / run_id / "run.json").is_file()

    def __iter__(self) -> Iterator[Run]:
        """All finished runs, in the order of their ids."""
        for record in sorted(self.folder.glob("*/run.json")):
            if not record.parent.name.startswith("."):
                yield self.read(record.parent.name)

    def read(self, run_id: str) -> Run:
        """A finished run's record."""
        record = self.folder / run_id / "run.json"
        try:
            return Run.from_json(json.loads(record.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"there is no run {run_id}", where=str(self.folder), state="") from None
        except (ValueError, KeyError) as problem:
            raise InputError(
                f"the record is damaged ({problem})",
                where=str(record),
                mend="Remove this run's folder, and the next run computes it again",
                state="",
            ) from None

    def arrays(self, run_id: str, name: str) -> dict[str, NDArray[Any]] | None:
        """A run's named arrays, or None where they were not kept (committed records have none)."""
        file = self.folder / run_id / f"{name}.npz"
        if not file.is_file():
            return None
        with np.load(file, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}

    def weights(self, run_id: str, checkpoint: str) -> dict[str, Tensor]:
        """The weights of a run's checkpoint, `last` or `best`."""
        file = self.folder / run_id / f"{checkpoint}.safetensors"
        if not file.is_file():
            raise InputError(
                f"run {run_id} has no weights {checkpoint!r}",
                where=str(self.folder),
                mend="Remove this run's folder and run the recipe again to have them",
                state="",
            )
        return safetensors.torch.load_file(file)

    def publish(self, run: Run, arrays: Mapping[str, Arrays], weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a run. It appears under its name complete, by one rename; where it is there already, ours is dropped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{run.id}-", dir=self.folder))
        try:
            for name, parts in arrays.items():
                np.savez_compressed(draft / f"{name}.npz", allow_pickle=False, **parts)
            for name, state in weights.items():
                stored = {key: value.detach().cpu().contiguous() for key, value in state.items()}
                safetensors.torch.save_file(stored, draft / f"{name}.safetensors")
            text = json.dumps(run.to_json(), indent=1, allow_nan=False, ensure_ascii=False)
            (draft / "run.json").write_text(text + "\n", encoding="utf-8")
            draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read
            try:
                os.rename(draft, self.folder / run.id)  # noqa: PTH104 - Path.rename says the same, and hides that it is one call
            except OSError:
                if run.id not in self:
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
