"""Records: what finished runs say, without weights and arrays, in one small file that can be committed.

A line of JSON a run, in the order of ids, compressed: reports and result pages are made from it as from a ledger.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from dissensus.errors import InputError
from dissensus.store.atomic_files import write_whole
from dissensus.store.ledger import Arrays, Ledger
from dissensus.store.spec import Run


def pack(ledger: Ledger, run_ids: Iterable[str], file: Path | str) -> int:
    """Write the records of these runs, those of them that are finished, and of those they were made from; how many.

    Equal runs give equal bytes.
    """
    wanted, waiting = dict[str, Run](), list(run_ids)
    while waiting:
        run_id = waiting.pop()
        if run_id not in wanted and run_id in ledger:
            wanted[run_id] = ledger.read(run_id)
            waiting += wanted[run_id].spec.needs
    lines = [json.dumps(wanted[run_id].to_json(), sort_keys=True, ensure_ascii=False) for run_id in sorted(wanted)]
    content = "".join(f"{line}\n" for line in lines).encode()
    write_whole(Path(file), gzip.compress(content, compresslevel=9, mtime=0))
    return len(wanted)


class Records(Ledger):
    """A packed file, read as a ledger whose runs kept no arrays and no weights."""

    def __init__(self, file: Path | str) -> None:
        super().__init__(file)
        try:
            with gzip.open(file, "rt", encoding="utf-8") as stream:
                lines = stream.read().splitlines()
            if not lines:
                raise ValueError("it is empty")
            runs = [Run.from_json(json.loads(line)) for line in lines]
        except (OSError, EOFError, ValueError, KeyError) as problem:
            raise InputError(
                f"no records can be read there ({problem})",
                where=str(file),
                hint="Write them with `dissensus runs pack`",
                state="",
            ) from None
        self._runs = {run.id: run for run in runs}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def ids(self) -> list[str]:
        """Of all runs, sorted."""
        return sorted(self._runs)

    def read(self, run_id: str) -> Run:
        """A run's record."""
        if run_id not in self._runs:
            raise InputError(f"there is no run {run_id}", where=str(self.folder), state="")
        return self._runs[run_id]

    def _arrays(self, run_id: str, name: str) -> Arrays | None:  # noqa: ARG002
        """None: records have none."""
        return None
