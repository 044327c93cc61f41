"""The training runs behind what a report shows: a measure says how it looked, they say what it looked at."""

from __future__ import annotations

from dissensus.store.run_source import RunSource
from dissensus.store.spec import Run


def training_runs(run: Run, runs: RunSource) -> tuple[Run, ...]:
    """Those that a run was made from, or the run itself if it was trained; each once, as far as they are there."""
    behind, waiting = dict[str, Run](), [run]
    while waiting:
        following = waiting.pop(0)
        if following.spec.kind == "train":
            behind.setdefault(following.id, following)
        else:
            waiting += [runs.read(need) for need in following.spec.needs if need in runs]
    return tuple(behind.values())
