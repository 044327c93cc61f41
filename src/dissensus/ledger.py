"""The ledger: one folder a finished run, named by the hash of its spec, written whole or not at all.

    runs/3f…/run.json            spec, scores, curve, facts, provenance
    runs/3f…/predictions.npz     and other arrays
    runs/3f…/last.safetensors    weights
    runs/3f…/checksums           SHA-256 of each of these, as `sha256sum --check` reads it
    runs/.work/3f…/              of a run under way: claim, checkpoint, progress; of a failed one: error.txt
    runs/.index.json             what `summaries` read before; it can be removed at any time

Several processes and machines may use one folder at once.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.runs import Json, Run
from dissensus.storage import digest, explained, write_whole

CHECKSUMS = "checksums"
Arrays = Mapping[str, NDArray[Any]]
"""Named arrays: one .npz file."""


@dataclass(frozen=True)
class Summary:
    """What a list of many runs shows of one."""

    id: str
    kind: str
    settings: Json
    raw: Json
    seconds: float | None
    flops: float | None
    threads: int | None


class Ledger:
    """Finished runs under `folder`. A run that is here is never computed again."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def __contains__(self, run_id: str) -> bool:
        return (self.folder / run_id / "run.json").is_file()

    def __iter__(self) -> Iterator[Run]:
        """All finished runs, in the order of their ids."""
        return map(self.read, self.ids())

    def ids(self) -> list[str]:
        """Of all finished runs, sorted."""
        if not self.folder.is_dir():
            return []
        with os.scandir(self.folder) as entries:
            return sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.name in self)

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
                mend=f"`dissensus runs rm {run_id}` removes it, and the next run computes it again",
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

    def work(self, run_id: str) -> Path:
        """The folder of a run that is not finished."""
        return self.folder / ".work" / run_id

    def publish(self, run: Run, arrays: Mapping[str, Arrays], weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a run. It appears under its name complete, by one rename; where it is there already, ours is dropped."""
        with self._drafted(run.id) as draft:
            for name, parts in arrays.items():
                np.savez_compressed(draft / f"{name}.npz", allow_pickle=False, **parts)
            for name, state in weights.items():
                stored = {key: value.detach().cpu().contiguous() for key, value in state.items()}
                safetensors.torch.save_file(stored, draft / f"{name}.safetensors")
            text = json.dumps(run.to_json(), allow_nan=False, ensure_ascii=False, indent=1)
            (draft / "run.json").write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(self.work(run.id), ignore_errors=True)

    def files(self, run_id: str) -> dict[str, bytes]:
        """The content of a finished run's files, to be adopted by another ledger."""
        return {file.name: file.read_bytes() for file in sorted((self.folder / run_id).iterdir())}

    def adopt(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Publish a run that was computed where this folder cannot be seen, from the content of its files."""
        with self._drafted(run_id) as draft:
            for name, content in files.items():
                (draft / name).write_bytes(content)
        shutil.rmtree(self.work(run_id), ignore_errors=True)

    @contextmanager
    def _drafted(self, run_id: str) -> Iterator[Path]:
        """A folder to fill; afterwards it is published, or gone."""
        with explained(self.folder):
            (self.folder / ".work").mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=f"{run_id}-", dir=self.folder / ".work"))
            try:
                yield draft
                self._place(draft, run_id)
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def _place(self, draft: Path, run_id: str) -> None:
        """Give a complete draft its name, flushed to the disk first; a folder of that name is never replaced."""
        files = sorted(file for file in draft.iterdir() if file.name != CHECKSUMS)
        lines = [f"{digest(file)}  {file.name}\n" for file in files]
        (draft / CHECKSUMS).write_text("".join(lines), encoding="utf-8")
        for file in (*files, draft / CHECKSUMS):
            _flush(file)
        draft.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        try:
            os.rename(draft, self.folder / run_id)  # noqa: PTH104 - one call, which fails where the name has content
        except OSError:
            if run_id not in self:
                raise

    def remove(self, run_id: str) -> None:
        """Forget a run, finished or not; it will be computed again when a plan needs it."""
        shutil.rmtree(self.folder / run_id, ignore_errors=True)
        shutil.rmtree(self.work(run_id), ignore_errors=True)

    def verify(self, run_id: str) -> list[str]:
        """What is wrong with a finished run, in sentences: a file edited, cut short or lost, or under a wrong name."""
        folder = self.folder / run_id
        checksums = folder / CHECKSUMS
        if not checksums.is_file():
            return [f"{CHECKSUMS} is missing: nothing can be verified"]
        problems = []
        for line in checksums.read_text(encoding="utf-8").splitlines():
            expected, name = line.split("  ", 1)
            file = folder / name
            if not file.is_file():
                problems.append(f"{name} is missing")
            elif digest(file) != expected:
                problems.append(f"{name} is not what was written")
        try:
            found = self.read(run_id).id
        except InputError as problem:
            return [*problems, problem.what]
        return problems if found == run_id else [*problems, f"the spec inside is that of {found}"]

    def summaries(self) -> list[Summary]:
        """All finished runs in short. What was read once is kept in `.index.json`: finished runs do not change."""
        index_file = self.folder / ".index.json"
        try:
            index: dict[str, Json] = json.loads(index_file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            index = {}
        ids = self.ids()
        unread = [run_id for run_id in ids if run_id not in index]
        if unread or len(index) > len(ids):
            fresh = {run_id: index.get(run_id) or _summary(self.read(run_id)) for run_id in ids}
            write_whole(index_file, json.dumps(fresh, ensure_ascii=False).encode())
            index = fresh
        return [Summary(id=run_id, **index[run_id]) for run_id in ids]


def _summary(run: Run) -> Json:
    kept = ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman")
    raw = run.scores.get("last", {}).get("raw", {})
    return {
        "kind": run.spec.kind,
        "settings": run.spec.settings,
        "raw": {name: raw[name] for name in kept if name in raw},
        "seconds": run.provenance.get("seconds"),
        "flops": run.facts.get("training_flops"),
        "threads": run.provenance.get("threads"),
    }


def _flush(file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
