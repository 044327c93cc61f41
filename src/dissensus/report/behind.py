"""The training runs behind what a report shows: an analysis says how it looked, they say what it looked at."""

from __future__ import annotations

from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run


def trained(run: Run, ledger: RunSource) -> tuple[Run, ...]:
    """Those that a run was made from, or the run itself if it was trained; each once, and those that are there."""
    found, waiting = dict[str, Run](), [run]
    while waiting:
        one = waiting.pop(0)
        if one.spec.kind == "train":
            found.setdefault(one.id, one)
        else:
            waiting += [ledger.read(need) for need in one.spec.needs if need in ledger]
    return tuple(found.values())
