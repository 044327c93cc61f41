"""Records: what finished runs found, without weights and arrays, in one small file that can be committed.

One line of JSON per run, in the order of ids, compressed: reports and result pages are made from it as from a ledger.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dissensus.errors import InputError
from dissensus.store.atomic_files import write_whole
from dissensus.store.json_types import parse_json
from dissensus.store.run_source import Arrays, RunSource, Summary
from dissensus.store.spec import Json, Run

__all__ = ["Records", "pack"]

UNPACKED_FREELY = 1 << 28  # bytes that a file of records may always unpack to
UNPACKED_TIMES = 200  # beyond that, so many times its size: ours unpack to six times theirs


def pack(source: RunSource, run_ids: Iterable[str], file: Path | str) -> int:
    """Write the records of these runs, where they are finished, and of all runs they were made from; returns how many.

    Equal runs give equal bytes.
    """
    packed, waiting = dict[str, Run](), list(run_ids)
    while waiting:
        run_id = waiting.pop()
        if run_id not in packed and run_id in source:
            packed[run_id] = source.read(run_id)
            waiting += packed[run_id].spec.needs
    lines = [json.dumps(packed[run_id].to_json(), sort_keys=True, ensure_ascii=False) for run_id in sorted(packed)]
    content = "".join(f"{line}\n" for line in lines).encode()
    write_whole(Path(file), gzip.compress(content, compresslevel=9, mtime=0))
    return len(packed)


class Records:
    """The runs of a packed file. None of them kept arrays."""

    def __init__(self, file: Path | str) -> None:
        self.file = Path(file)
        self._runs = {run.id: run for run in (Run.from_json(record, str(file)) for record in _documents(self.file))}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def ids(self) -> list[str]:
        """The ids of all runs, sorted."""
        return sorted(self._runs)

    def read(self, run_id: str) -> Run:
        """The record of a run."""
        if run_id not in self._runs:
            raise InputError(f"there is no run {run_id}", where=str(self.file), state="")
        return self._runs[run_id]

    def predictions(self, run_id: str, checkpoint: str) -> Arrays | None:  # noqa: ARG002
        """None: records have no arrays."""
        return None

    def gallery(self, run_id: str) -> Arrays | None:  # noqa: ARG002
        """None: records have no arrays."""
        return None

    def summaries(self) -> list[Summary]:
        """All runs in short."""
        return [Summary.of(self._runs[run_id]) for run_id in self.ids()]


def _documents(file: Path) -> Iterator[Json]:
    """Every line, parsed: one at a time, since all text at once is as large as all records."""
    total = 0
    try:
        most = max(UNPACKED_FREELY, UNPACKED_TIMES * file.stat().st_size)
        with gzip.open(file, "rb") as stream:
            while line := stream.readline(most - total + 1):
                total += len(line)
                if total > most:
                    raise ValueError(f"it unpacks to more than {most:,} bytes")
                yield parse_json(line)
        if not total:
            raise ValueError("it is empty")
    except (OSError, EOFError, ValueError, zlib.error) as problem:
        raise InputError(
            f"no records can be read there ({problem})",
            where=str(file),
            hint="Write them with `dissensus runs pack`",
            state="",
        ) from None
