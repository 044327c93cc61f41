"""The --out folder of an experiment: its description, where its ledger is, its report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.experiments.description import Experiment
    from dissensus.store.ledger import Ledger

EXPERIMENT = "experiment.json"
LEDGER = "ledger.json"


def write_out_folder(folder: Path, experiment: Experiment[str], ledger: Ledger) -> None:
    """Write what an experiment is, and where its finished runs are."""
    from dissensus.experiments.description import to_json
    from dissensus.store.atomic_files import write_whole

    document = json.dumps(to_json(experiment), indent=1, ensure_ascii=False)
    absolute = ledger.folder.resolve()
    places: _LedgerPlaces = {"relative": os.path.relpath(absolute, folder.resolve()), "absolute": str(absolute)}
    write_whole(folder / EXPERIMENT, f"{document}\n".encode("utf-8", "replace"))
    write_whole(folder / LEDGER, f"{json.dumps(places, indent=1)}\n".encode())


def read_experiment(folder: str) -> Experiment[str]:
    """Read the description of the experiment that `run` wrote into its --out folder."""
    from dissensus.experiments.description import from_json
    from dissensus.store.atomic_files import read_whole
    from dissensus.store.json_types import parse_json

    file = Path(folder) / EXPERIMENT
    try:
        document = parse_json(read_whole(file))
        if isinstance(document, dict) and "tables" in document:
            raise InputError(
                "this experiment was written by an earlier version",
                where=str(file),
                hint="Run the same recipe again: it uses the finished runs and only writes the report",
            )
        return from_json(document, where=str(file))
    except FileNotFoundError:
        raise InputError(
            "no experiment was run in this folder", where=str(file), hint="Start one with `dissensus run`"
        ) from None
    except ValueError as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"the file is damaged ({problem})", where=str(file), hint="Run the recipe again: finished runs are kept"
        ) from None


def ledger_of(folder: str, named: str | None = None) -> Ledger:
    """The ledger with the finished runs of an --out folder: the one that is named, else the one its `run` used.

    An --out folder that was moved together with its ledger finds it by the way between them, one that was moved alone by
    the place on this machine. A folder that is no ledger is refused.
    """
    from dissensus.store.ledger import Ledger

    recorded = [] if named is not None else _recorded_places(Path(folder))
    for place in [named] if named is not None else [*recorded, Path(folder) / "runs"]:
        if (ledger := Ledger(place)).exists:
            return ledger
    if recorded:
        raise InputError(
            f"the ledger of its runs, {recorded[-1]}, is not there, or no run was begun in it",
            where=folder,
            hint="Put it back, or name the folder where it is now (for `report` and `watch` with --ledger)",
        )
    raise InputError(
        "there is no ledger here: no run was begun or finished in it",
        where=named or folder,
        hint="Pass the --out folder of a `dissensus run`, or the folder of its ledger",
    )


class _LedgerPlaces(TypedDict):
    relative: str
    absolute: str


def _recorded_places(folder: Path) -> list[Path]:
    from dissensus.store.atomic_files import read_whole
    from dissensus.store.json_types import misfit, parse_json

    file = folder / LEDGER
    try:
        places = parse_json(read_whole(file))
        problem = misfit(places, _LedgerPlaces)
    except FileNotFoundError:
        return []
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        problem = str(error)
    if not problem and "\0" in places["relative"] + places["absolute"]:
        problem = "a path has a null character in it"
    if problem:
        raise InputError(
            f"the file is damaged ({problem})",
            where=str(file),
            hint="Name the ledger with --ledger, or run the recipe again",
        )
    return [folder / places["relative"], Path(places["absolute"])]
