"""`demo`, `run`, `recipes` and `report`: experiments that answer a question with a page."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import writable_folder
from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.engine.events import Event, Listener
    from dissensus.engine.executor import Executor
    from dissensus.engine.one_run import Execution
    from dissensus.experiments.description import Experiment
    from dissensus.experiments.plan import Plan
    from dissensus.store.ledger import Ledger
    from dissensus.store.run_source import RunSource
    from dissensus.store.spec import Spec
    from dissensus.training.distributed import Group

EXPERIMENT = "experiment.json"


def _execution_options(command: Any) -> Any:
    for option in reversed(
        (
            click.option("--workers", type=click.IntRange(1), help="Runs at a time (default: one a core)."),
            click.option(
                "--threads", type=click.IntRange(1), help="Threads of each run (default: the cores, shared out)."
            ),
            click.option("--device", help="cpu, cuda, … (default: a GPU if there is one)."),
            click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True),
            click.option("--address", default="auto", show_default=True, help="Of the Ray cluster: auto or HOST:PORT."),
            click.option("--gpus", default=0.0, show_default=True, help="GPUs of each run on Ray; a part shares one."),
            click.option("--log", type=click.Choice(["tensorboard"]), help="Write curves in this format to OUT too."),
            click.option("--dry-run", is_flag=True, help="Say what would be computed and what it costs, and end."),
            click.option("--baseline", metavar="ROW", help="Test the other rows against this one."),
        )
    ):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  dissensus demo
  dissensus demo --out my-report --workers 4
""",
)
@click.option("--out", default="demo-report", show_default=True, metavar="DIR")
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "paper"]))
@_execution_options
def demo(out: str, scale: str, **execution: Any) -> None:
    """Which way of delivering votes is best? Real digits, a simulated crowd, a report, in about two minutes.

    The same as `dissensus run demo --out demo-report`. Interrupted, it goes on where it stopped.
    """
    _run_in_group("demo", scale, None, out, None, **execution)


@click.command(
    epilog="""\b
Examples:
  dissensus run demo --scale smoke --out try
  dissensus run demo --seeds 10 --out ten-seeds        the first ten seeds, 0 to 9
  dissensus run demo --seeds 0-4,7 --out some-seeds    these seeds
  dissensus run demo --dry-run --out try               what it would cost
  dissensus run demo --engine ray --address auto --out on-a-cluster
""",
)
@click.argument("recipe")
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "paper"]))
@click.option("--seeds", metavar="N|A-B,C", help="How many, or which (default: as the recipe says).")
@click.option("--out", required=True, metavar="DIR", help="Ledger, report.html, results.md and results.csv go here.")
@click.option(
    "--ledger", metavar="DIR", help="Keep finished runs here, to share them between recipes (default: OUT/runs)."
)
@_execution_options
def run(recipe: str, scale: str, seeds: str | None, out: str, ledger: str | None, **execution: Any) -> None:
    """Run a RECIPE and write its report. Finished runs are kept: the same command goes on where it was interrupted.

    Started by `torchrun -m dissensus run …`, all processes compute each run together.
    """
    _run_in_group(recipe, scale, seeds, out, ledger, **execution)


@click.command()
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "paper"]))
def recipes(scale: str) -> None:
    """List the recipes, and how many runs each takes at a scale; recipes with one --ledger share them."""
    from dissensus.experiments.plan import size
    from dissensus.recipes import RECIPES

    for name, make in RECIPES.items():
        experiment = make(scale, None)
        click.echo(f"{name:<16}{experiment.title}  ({size(experiment):,} runs)")
    click.echo("\nRun one with: dissensus run NAME --out DIR [--scale smoke|laptop|paper]")


@click.command(
    epilog="""\b
Examples:
  dissensus report demo-report
  dissensus report demo-report --baseline Majority
  dissensus report demo-report --records records.jsonl.gz
""",
)
@click.argument("folder", metavar="DIR")
@click.option("--baseline", metavar="ROW", help="Test the other rows against this one.")
@click.option("--ledger", metavar="DIR", help="Where the finished runs are (default: where `run` kept them).")
@click.option("--records", metavar="FILE", help="Read them from here instead: what `dissensus runs pack` wrote.")
def report(folder: str, baseline: str | None, ledger: str | None, records: str | None) -> None:
    """Make the report in DIR again from its finished runs."""
    from dissensus.store.ledger import Ledger
    from dissensus.store.records import Records

    runs = Records(records) if records else Ledger(ledger or Path(folder) / "runs")
    _write_report(_against(read_experiment(folder), baseline), Path(folder), runs)


def read_experiment(folder: str) -> Experiment[str]:
    """What `run` wrote beside its ledger."""
    from dissensus.experiments.description import from_json

    file = Path(folder) / EXPERIMENT
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if "tables" in document:
            raise InputError(
                "this experiment was written by an earlier version",
                where=str(file),
                hint="Run the same recipe again: finished runs are kept, and the report is made in seconds",
            )
        return from_json(document)
    except FileNotFoundError:
        raise InputError("no experiment was run here", where=str(file), hint="Start one with `dissensus run`") from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"the file is damaged ({problem})", where=str(file), hint="Run the recipe again: its runs are kept"
        ) from None


def _run_in_group(*arguments: Any, **options: Any) -> None:
    """Alone, or with the other processes that `torchrun` started."""
    from dissensus.engine import worker_processes

    if options["engine"] == "local" and options["workers"] != 1 and not options["dry_run"] and "RANK" not in os.environ:
        worker_processes.prepare()  # workers import while we do, and plan
    from dissensus.training import distributed

    with distributed.from_environment() as group:
        _run(*arguments, group=group, **options)


def _run(
    recipe: str,
    scale: str,
    seeds: str | None,
    out: str,
    ledger: str | None,
    *,
    workers: int | None,
    threads: int | None,
    device: str | None,
    engine: str,
    address: str,
    gpus: float,
    log: str | None,
    dry_run: bool,
    baseline: str | None,
    group: Group,
) -> None:
    from dissensus import datasets
    from dissensus.cli.progress import Display
    from dissensus.cli.tensorboard import TensorBoard
    from dissensus.engine.local import cores
    from dissensus.engine.one_run import Execution
    from dissensus.experiments.cost import costs, forecast
    from dissensus.experiments.description import to_json
    from dissensus.experiments.plan import make_plan
    from dissensus.recipes import find
    from dissensus.store.ledger import Ledger

    described = find(recipe, scale, None if seeds is None else parse_seeds(seeds))
    planned = make_plan(described, datasets.digest_of, _command())
    experiment = _against(planned.experiment, baseline)
    labels = {spec.id: _in_short(spec) for spec in planned.specs} | labels_of(planned.experiment)
    runs = Ledger(ledger or Path(out) / "runs")
    at_a_time = workers or cores()
    if dry_run:
        click.echo(f"{experiment.title} ({experiment.key}, {experiment.scale} scale)")
        click.echo(forecast(planned.specs, runs).sentence(at_a_time))
        return
    folder = writable_folder(out)
    if group.leads:
        document = json.dumps(to_json(experiment), indent=1, ensure_ascii=False)
        (folder / EXPERIMENT).write_text(document + "\n", encoding="utf-8")
        click.echo(_announcement(planned, runs), err=True)
    executor = _executor(group, engine, at_a_time, Execution(device=device, threads=threads), address, gpus)
    try:
        remaining = [spec for spec in planned.specs if spec.id not in runs]
        with Display(labels, costs(remaining)) as display:
            listeners: list[Listener] = [display]
            if log:
                listeners.append(TensorBoard(folder / "tensorboard", labels, runs))

            def listen(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            result = executor.run(planned.specs, runs, listen)
    except KeyboardInterrupt:
        click.echo(
            f"\nInterrupted. Finished runs are kept in {runs.folder}, and those under way have saved themselves; "
            "the same command goes on from there.",
            err=True,
        )
        sys.exit(130)
    if not group.leads:
        return
    if result.disk_full:
        click.echo(result.disk_full, err=True)
        sys.exit(2)
    _write_report(experiment, folder, runs)
    if result.failed or result.blocked:
        lost = f"{len(result.failed)} runs failed, {len(result.blocked)} could not start"
        click.echo(f"{lost}: the report leaves them out. Tracebacks are in {runs.error_file('*')}.", err=True)
        sys.exit(1)


def _executor(group: Group, engine: str, workers: int, execution: Execution, address: str, gpus: float) -> Executor:
    from dissensus.engine.local import LocalExecutor
    from dissensus.engine.ray import RayExecutor
    from dissensus.engine.torchrun import TorchrunExecutor

    if group.world > 1:
        return TorchrunExecutor(group, execution)
    if engine == "ray":
        return RayExecutor(address, float(execution.threads or 1), gpus, execution)
    return LocalExecutor(workers, execution)


def parse_seeds(text: str) -> tuple[int, ...]:
    """`5` is the first five seeds; `0-4` and `0,2,7-9` are these.

    >>> parse_seeds("3"), parse_seeds("1,4-6")
    ((0, 1, 2), (1, 4, 5, 6))
    """
    try:
        if text.isdecimal():
            chosen = tuple(range(int(text)))
        else:
            ends = [part.split("-") for part in text.split(",")]
            chosen = tuple(seed for part in ends for seed in range(int(part[0]), int(part[-1]) + 1))
    except ValueError:
        chosen = ()
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"{text!r} names no seeds, or one twice", where="--seeds", hint="Write 5, 0-4 or 0,3,7-9")
    return chosen


def _against(experiment: Experiment[str], baseline: str | None) -> Experiment[str]:
    """The experiment with its score tables tested against another row, where they have it."""
    if baseline is None:
        return experiment
    labels = {label for table in experiment.score_tables for label in table.cells}
    if baseline not in labels:
        raise InputError(
            f"there is no row {baseline!r}", where="--baseline", hint=f"Choose one of: {', '.join(sorted(labels))}"
        )
    exhibits = tuple(
        replace(exhibit, baseline=baseline)
        if exhibit in experiment.score_tables and baseline in exhibit.cells
        else exhibit
        for exhibit in experiment.exhibits
    )
    return replace(experiment, exhibits=exhibits)


def _command() -> str:
    """The command as it was typed, for the report; the way to the program is left out, since it differs by machine."""
    return shlex.join(["dissensus", *sys.argv[1:]])


def labels_of(experiment: Experiment[str]) -> dict[str, str]:
    """The names of runs as people know them; the runs of a grid have none."""
    several = len(experiment.exhibits) > 1
    tables = experiment.score_tables
    labels = {}
    for exhibit in (*(e for e in experiment.exhibits if e not in tables), *tables):  # a score table's name wins
        for row, points in exhibit.cells.items():
            for point, replicates in points.items():
                for name, run in replicates.items():
                    seed = f"seed {name}" if exhibit in tables else name
                    parts = (row, point if len(points) > 1 else "", seed)
                    title = f"{exhibit.title}: " if several or exhibit not in tables else ""
                    labels[run] = title + ", ".join(filter(None, parts))
    return labels


def _in_short(spec: Spec) -> str:
    """A name for a run that no table shows: one of a grid, or one that another needs."""
    from dissensus.training.recipe import Recipe

    if spec.kind != "train":
        return f"{spec.kind}: {spec.settings['name']}"
    return f"{spec.settings['data']['name']}: {Recipe.of(spec.settings).method}, seed {spec.settings['seed']}"


def _announcement(planned: Plan, runs: Ledger) -> str:
    experiment = planned.experiment
    done = sum(spec.id in runs for spec in planned.specs)
    before = f", {done} of them finished before" if done else ""
    return f"{experiment.title} ({experiment.key}, {experiment.scale} scale): {len(planned.specs)} runs{before}."


def _write_report(experiment: Experiment[str], folder: Path, runs: RunSource) -> None:
    from dissensus import report as reports

    written = reports.write(experiment, runs, folder)
    for title, answer in written.answers.items():
        click.echo(f"{title}: {answer}\n")
    click.echo(f"Report: {written.html}\nTables: {written.markdown}, {written.csv}")
