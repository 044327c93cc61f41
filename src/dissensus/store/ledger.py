"""The ledger: one folder per finished run, named by the hash of its spec, written whole or not at all.

    runs/3f…/run.json               spec, scores, curve, facts, provenance
    runs/3f…/predictions.npz        of the last epoch; predictions_best.npz of the best one
    runs/3f…/gallery.npz            pictures of the most disputed items
    runs/3f…/last.safetensors       weights; best.safetensors of the best epoch
    runs/3f…/checksums              SHA-256 of each of these, as `sha256sum --check` reads it
    runs/.work/3f…/                 of a run under way: lock, checkpoint, progress.json; of a failed one: error.txt
    runs/.index.json                what `summaries` read before; it can be removed at any time
    runs/.ledger                    says that this folder is a ledger

No other module knows these names. Several processes and machines may use one folder at once.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from dissensus.errors import InputError
from dissensus.store.atomic_files import StorageError, digest, explain_unwritable, read_whole, write_whole
from dissensus.store.json_types import misfit, parse_json
from dissensus.store.run_source import Arrays, Summary
from dissensus.store.spec import FORMAT, Json, Run, UnknownFormatError

__all__ = ["Ledger"]

RECORD = "run.json"
CHECKSUMS = "checksums"
GALLERY = "gallery"
MARKER = ".ledger"


def predictions_name(checkpoint: str) -> str:
    """The name under which a run publishes the predictions of a checkpoint."""
    return "predictions" if checkpoint == "last" else f"predictions_{checkpoint}"


class Ledger:
    """Finished runs under `folder`. A run that is here is never computed again."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._index = self.folder / ".index.json"

    @property
    def exists(self) -> bool:
        """Whether the folder is a ledger: it has the marker, or, from an earlier version, a run or the work on one."""
        names = _names_in(self.folder)
        return MARKER in names or ".work" in names or any(map(_is_run_id, names))

    def create(self) -> None:
        """Make the folder a ledger, if it is none yet; an error says that nothing can be written there."""
        with explain_unwritable(self.folder):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (self.folder / MARKER).exists():
                    (self.folder / MARKER).write_bytes(b"A ledger of dissensus: one folder per finished run.\n")
                (self.folder / ".work").mkdir(exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                hint = "Name a folder"
                raise InputError("there is a file in the place of a folder", where=str(self.folder), hint=hint) from None

    def __contains__(self, run_id: str) -> bool:
        return os.path.isfile(f"{self.folder}/{run_id}/{RECORD}")  # noqa: PTH113 - asked for thousands of runs at once

    def __iter__(self) -> Iterator[Run]:
        """All finished runs, in the order of their ids."""
        return map(self.read, self.ids())

    def ids(self) -> list[str]:
        """The ids of all finished runs, sorted."""
        return sorted(name for name in _names_in(self.folder) if not name.startswith(".") and name in self)

    def begun(self) -> set[str]:
        """The ids of runs that were begun and are not finished: under way, interrupted or failed."""
        return {name for name in _names_in(self.folder / ".work") if "-" not in name}  # those with a hyphen are drafts

    def without_record(self) -> list[str]:
        """The ids of runs whose folder lost its record, sorted. They count as not finished, and are computed again."""
        return sorted(name for name in _names_in(self.folder) if _is_run_id(name) and name not in self)

    def read(self, run_id: str) -> Run:
        """The record of a finished run."""
        content = self._content(run_id, RECORD)
        if content is None:
            raise InputError(f"there is no run {run_id}", where=str(self.folder), state="")
        try:
            document = parse_json(content)
        except ValueError as problem:
            raise self._damaged(run_id, RECORD, f"is damaged ({problem})") from None
        run = Run.from_json(document, where=str(self.folder / run_id / RECORD))
        if run.id != run_id:
            raise self._damaged(run_id, RECORD, f"belongs to another run: the spec inside is that of {run.id}")
        return run

    def predictions(self, run_id: str, checkpoint: str) -> Arrays | None:
        """What a run predicted at a checkpoint, `last` or `best`; None where it was not kept."""
        return self._arrays(run_id, predictions_name(checkpoint))

    def gallery(self, run_id: str) -> Arrays | None:
        """The pictures of the items on which people disagree most; None where they were not kept."""
        return self._arrays(run_id, GALLERY)

    def _arrays(self, run_id: str, name: str) -> Arrays | None:
        content = self._content(run_id, f"{name}.npz")
        if content is None:
            return None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):  # NumPy passes on what is no array
                raise ValueError("a part is no array")
            return arrays
        except Exception as problem:  # NumPy has no one error for bytes that are no arrays
            raise self._damaged(run_id, f"{name}.npz", f"is damaged ({problem or type(problem).__name__})") from None

    def weights(self, run_id: str, checkpoint: str) -> dict[str, Tensor]:
        """The weights of a run's checkpoint, `last` or `best`."""
        content = self._content(run_id, f"{checkpoint}.safetensors")
        if content is None:
            raise InputError(
                f"run {run_id} has no weights {checkpoint!r}",
                where=str(self.folder),
                hint=self._recompute(run_id),
                state="",
            )
        try:
            return dict(sorted(safetensors.torch.load(content).items()))
        except Exception as problem:  # the package has no one error for bytes that are no weights
            how = f"is damaged ({problem or type(problem).__name__})"
            raise self._damaged(run_id, f"{checkpoint}.safetensors", how) from None

    def _content(self, run_id: str, name: str) -> bytes | None:
        """A file of a finished run, or None where there is none. One that does not fit its checksum is refused."""
        for _ in range(2):  # between the two readings somebody may write the record again
            try:
                content = read_whole(self.folder / run_id / name)
            except FileNotFoundError:
                return None
            expected = self._checksums(run_id).get(name)
            if expected is None or hashlib.sha256(content).hexdigest() in expected:
                return content
        raise self._damaged(run_id, name, "is not what was written")

    def _checksums(self, run_id: str) -> dict[str, list[str]]:
        """By file name; empty where they were not kept. A record that is being written again has two."""
        try:
            lines = read_whole(self.folder / run_id / CHECKSUMS).decode("utf-8", "replace").splitlines()
        except FileNotFoundError:
            return {}
        checksums: dict[str, list[str]] = {}
        for checksum, _, name in (line.partition("  ") for line in lines):
            checksums.setdefault(name, []).append(checksum)
        return checksums

    def _damaged(self, run_id: str, name: str, how: str) -> InputError:
        return InputError(
            f"{name} {how}",
            where=str(self.folder / run_id / name),
            hint=self._recompute(run_id),
            state="",
        )

    def _recompute(self, run_id: str) -> str:
        return (
            f"Remove the run with `dissensus runs rm {self.folder} {run_id}`; the next `dissensus run` computes it again"
        )

    def work(self, run_id: str) -> Path:
        """The folder of a run that is not finished."""
        return self.folder / ".work" / run_id

    def lock_file(self, run_id: str) -> Path:
        """Held by whoever computes the run."""
        return self.work(run_id) / "lock"

    def checkpoint_file(self, run_id: str) -> Path:
        """From which an interrupted run goes on."""
        return self.work(run_id) / "checkpoint"

    def progress_file(self, run_id: str) -> Path:
        """How far a run under way is, for `dissensus watch`."""
        return self.work(run_id) / "progress.json"

    def error_file(self, run_id: str) -> Path:
        """Why a run failed."""
        return self.work(run_id) / "error.txt"

    def publish(self, run: Run, arrays: Mapping[str, Arrays], weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a run. It appears complete, by one rename; where the ledger has it already, ours is dropped."""
        with self._draft(run.id) as draft:
            for name, parts in arrays.items():
                np.savez_compressed(draft / f"{name}.npz", allow_pickle=False, **parts)
            for name, state in weights.items():
                stored = {key: value.detach().cpu().contiguous() for key, value in state.items()}
                # By our own hands: its `save_file` calls a full disk by another name, and lets only the owner read.
                (draft / f"{name}.safetensors").write_bytes(safetensors.torch.save(stored))
            (draft / RECORD).write_text(_record(run), encoding="utf-8")
        shutil.rmtree(self.work(run.id), ignore_errors=True)

    def rewrite(self, run: Run) -> None:
        """Write the record of a finished run again. Readers find the old one or the new one, whole, at every moment."""
        content = _record(run).encode()
        folder, checksums = self.folder / run.id, self._checksums(run.id)
        former, now = checksums.get(RECORD, []), hashlib.sha256(content).hexdigest()
        if checksums:
            write_whole(folder / CHECKSUMS, _checksum_lines({**checksums, RECORD: [*former, now]}))
        write_whole(folder / RECORD, content)
        if checksums:
            write_whole(folder / CHECKSUMS, _checksum_lines({**checksums, RECORD: [now]}))
        self._index.unlink(missing_ok=True)

    def files(self, run_id: str) -> dict[str, bytes]:
        """The content of a finished run's files, to be adopted by another ledger."""
        files = sorted((self.folder / run_id).iterdir())
        return {file.name: read_whole(file) for file in files if not file.name.startswith(".")}

    def adopt(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Publish a run that was computed where this folder cannot be seen, from the content of its files."""
        with self._draft(run_id) as draft:
            for name, content in files.items():
                (draft / name).write_bytes(content)
        shutil.rmtree(self.work(run_id), ignore_errors=True)

    @contextmanager
    def _draft(self, run_id: str) -> Iterator[Path]:
        """A folder to fill. Afterwards it is published; after an error it is removed."""
        with explain_unwritable(self.folder):
            self.create()
            draft = self.folder / ".work" / f"{run_id}-{uuid.uuid4().hex[:8]}"
            draft.mkdir()
            try:
                yield draft
                self._publish_draft(draft, run_id)
            finally:
                shutil.rmtree(draft, ignore_errors=True)

    def _publish_draft(self, draft: Path, run_id: str) -> None:
        """Flush a complete draft to the disk and give it its name. A folder of that name with a record stays."""
        files = sorted(file for file in draft.iterdir() if file.name != CHECKSUMS)
        (draft / CHECKSUMS).write_bytes(_checksum_lines({file.name: [digest(file)] for file in files}))
        for file in (*files, draft / CHECKSUMS):
            _flush(file)
        if (self.folder / run_id).is_dir() and run_id not in self:  # a run that lost its record
            remains = self.folder / ".work" / f"{run_id}-{uuid.uuid4().hex[:8]}"
            with suppress(FileNotFoundError):  # somebody was faster
                (self.folder / run_id).rename(remains)
            shutil.rmtree(remains, ignore_errors=True)
        try:
            os.rename(draft, self.folder / run_id)  # noqa: PTH104 - one call, which fails where the name has content
        except OSError:
            if run_id not in self:
                raise

    def remove(self, run_id: str) -> None:
        """Remove a run, finished or not; it is computed again when a plan needs it."""
        drafts = (self.folder / ".work").glob(f"{run_id}-*")  # of a process that was killed while it published
        with explain_unwritable(self.folder):
            for folder in (self.folder / run_id, self.work(run_id), *drafts):
                with suppress(FileNotFoundError):
                    shutil.rmtree(folder)
            self._index.unlink(missing_ok=True)

    def verify(self, run_id: str) -> list[str]:
        """What is wrong with a finished run, in sentences: a file edited, cut short or lost, or under a wrong name."""
        if run_id not in self:
            return [f"{RECORD} is missing"]
        try:
            checksums = self._checksums(run_id)
        except InputError as problem:
            return [f"{CHECKSUMS}: {problem.what}"]
        if not checksums:
            return [f"{CHECKSUMS} is missing: nothing can be verified"]
        sums = [checksum for several in checksums.values() for checksum in several]
        sound = all(map(_is_file_name, checksums)) and all(re.fullmatch("[0-9a-f]{64}", checksum) for checksum in sums)
        problems = [] if sound else [f"{CHECKSUMS} has a damaged line"]
        present = {name for name in _names_in(self.folder / run_id) if not name.startswith(".")} - {CHECKSUMS}
        problems += [f"{name} has no checksum" for name in sorted(present - checksums.keys())]
        for name in filter(_is_file_name, checksums):
            try:
                if self._content(run_id, name) is None:
                    problems.append(f"{name} is missing")
            except InputError as problem:
                problems.append(problem.what if name in problem.what else f"{name} {problem.what}")
        if problems:
            return problems
        try:
            self.read(run_id)
        except UnknownFormatError:  # its files are what was written, by another version
            return []
        except InputError as problem:
            return [problem.what]
        return []

    def summaries(self) -> list[Summary]:
        """All finished runs in short. What was read once is kept in `.index.json`."""
        try:
            stored = parse_json(read_whole(self._index))
        except (FileNotFoundError, ValueError):  # an InputError too: it only saves time
            stored = {}
        known = stored.items() if isinstance(stored, dict) else ()
        index = {run_id: summary for run_id, summary in known if _is_summary(summary)}
        ids = self.ids()
        unread = [run_id for run_id in ids if run_id not in index]
        if unread or len(index) > len(ids):
            fresh = {run_id: index.get(run_id) or self._summary(run_id) for run_id in ids}
            with suppress(OSError, StorageError):  # it only saves time
                write_whole(self._index, json.dumps(fresh, ensure_ascii=False).encode(), durable=False)
            index = fresh
        return [Summary(id=run_id, **index[run_id]) for run_id in ids]

    def _summary(self, run_id: str) -> Json:
        """From the head of the record; where there is none, or one that is damaged or unknown, from the whole."""
        try:
            with open(f"{self.folder}/{run_id}/{RECORD}", "rb") as record:  # noqa: PTH123 - thousands at once
                head, has_head, _ = record.read().partition(_AFTER_HEAD)
            document = parse_json(head + b"}") if has_head else None
        except (OSError, ValueError):
            document = None
        if isinstance(document, dict) and document.get("format", 1) == FORMAT and _is_summary(document.get("summary")):
            summary: Json = document["summary"]
            return summary
        return _summary(self.read(run_id))


_AFTER_HEAD = b',\n "spec": {'
"""What follows the head of a record. No string in JSON holds a line break, so it occurs nowhere else."""


def _record(run: Run) -> str:
    """The text of run.json. It begins with the summary: a list of many runs reads no more of each."""
    whole = run.to_json()
    headed = {"format": whole.pop("format"), "id": whole.pop("id"), "summary": _summary(run), **whole}
    return json.dumps(headed, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _summary(run: Run) -> Json:
    return {name: value for name, value in vars(Summary.of(run)).items() if name != "id"}


def _is_summary(document: object) -> bool:
    """Asked of thousands at once, so it looks at the types of the fields alone."""
    if not isinstance(document, dict) or document.keys() != _SUMMARY_FIELDS:
        return False
    numbers = all(isinstance(document[name], (int, float, type(None))) for name in ("seconds", "flops", "threads"))
    return (
        numbers
        and isinstance(document["kind"], str)
        and not misfit([document["settings"], document["raw"]], tuple[dict[str, Any], dict[str, float | None]])
    )


_SUMMARY_FIELDS = {field.name for field in fields(Summary)} - {"id"}


def _is_run_id(name: str) -> bool:
    return re.fullmatch("[0-9a-f]{16}", name) is not None


def _is_file_name(name: str) -> bool:
    return bool(name) and not {"/", "\0"} & set(name) and name not in (".", "..")


def _checksum_lines(checksums: Mapping[str, list[str]]) -> bytes:
    lines = [f"{checksum}  {name}\n" for name, several in checksums.items() for checksum in several]
    return "".join(lines).encode()


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - only the names, of maybe 100,000 folders
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise InputError(f"the folder cannot be read ({reason})", where=str(folder), state="") from None


def _flush(file: Path) -> None:
    handle = os.open(file, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
