"""What a task of a job array runs for `SlurmExecutor`: `python -m dissensus.engine.slurm_task PLAN`.

The plan is a file of JSON that the driver wrote into the ledger's folder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution
from dissensus.engine.plugins import load_plugins
from dissensus.errors import InputError
from dissensus.store.atomic_files import read_whole
from dissensus.store.json_types import field_types, misfit, parse_json
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec


@dataclass(frozen=True)
class JobPlan:
    """What a task computes, where, and with what."""

    specs: tuple[Spec, ...]
    ledger: Ledger
    executor: LocalExecutor


class _PlanJson(TypedDict):
    ledger: str
    workers: int
    execution: dict[str, Any]
    specs: list[dict[str, Any]]


def read_plan(file: Path) -> JobPlan:
    """The plan in a file, checked."""
    hint = "Submit the job again"
    try:
        document = parse_json(read_whole(file))
    except FileNotFoundError:
        raise InputError("there is no plan", where=str(file), hint=hint, state="") from None
    except ValueError as problem:
        raise InputError(f"the plan is not JSON ({problem})", where=str(file), hint=hint, state="") from None
    wrong = misfit(document, _PlanJson) or _wrong_execution(document["execution"])
    if wrong or document["workers"] < 1 or not document["ledger"]:
        what = f"the plan is damaged ({wrong or 'no ledger, or no worker'})"
        raise InputError(what, where=str(file), hint=hint, state="")
    specs = tuple(Spec.from_json(spec, where=str(file)) for spec in document["specs"])
    executor = LocalExecutor(document["workers"], Execution(**document["execution"]), leave=True)
    return JobPlan(specs, Ledger(document["ledger"]), executor)


def _wrong_execution(document: dict[str, Any]) -> str:
    types = field_types(Execution)
    unknown = [f"there is no setting {name!r}" for name in document if name not in types]
    misfits = [misfit(value, types[name], name) for name, value in document.items() if name in types]
    return next(filter(None, [*unknown, *misfits]), "")


def main(file: str) -> int:
    """Compute what is left of the plan and nobody else computes; the exit code is that of `dissensus run`."""
    load_plugins()
    try:
        plan = read_plan(Path(file))
        result = plan.executor.run(plan.specs, plan.ledger, lambda event: print(event.kind, event.run, flush=True))
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 1 if result.failed or result.blocked or result.disk_full else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
