"""What a task of a job array runs for `SlurmExecutor`: `python -m dissensus.engine.slurm_task PLAN`.

The plan is a file of JSON that the driver wrote into the ledger's folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.engine.plugins import load_plugins
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec


def main(plan: str) -> int:
    """Compute what is left of the plan and nobody else computes; the exit code is that of `dissensus run`."""
    load_plugins()
    document = json.loads(Path(plan).read_text(encoding="utf-8"))
    specs = [Spec.from_json(spec, where=plan) for spec in document["specs"]]
    executor = LocalExecutor(document["workers"], Execution(**document["execution"]), leave=True)
    try:
        result = executor.run(specs, Ledger(document["ledger"]), lambda event: print(event.kind, event.run, flush=True))
    except KeyboardInterrupt:
        return 130
    return 1 if result.failed or result.blocked or result.disk_full else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
