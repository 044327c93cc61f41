"""`demo`, `run`, `recipes` and `report`: run an experiment and write its report."""

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
            click.option("--workers", type=click.IntRange(1), help="Runs at a time (default: one per core)."),
            click.option(
                "--threads", type=click.IntRange(1), help="Threads per run (default: the cores divided by the workers)."
            ),
            click.option("--device", help="cpu, cuda, … (default: a GPU if available)."),
            click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True),
            click.option(
                "--address", default="auto", show_default=True, help="Address of the Ray cluster: auto or HOST:PORT."
            ),
            click.option(
                "--gpus", default=0.0, show_default=True, help="GPUs per run on Ray; 0.5 means two runs share one."
            ),
            click.option(
                "--log", type=click.Choice(["tensorboard"]), help="Also write training curves to OUT in this format."
            ),
            click.option("--dry-run", is_flag=True, help="Print what would be computed and its cost; compute nothing."),
            click.option(
                "--baseline", metavar="ROW", help="Compare the other rows with this one (default: as the recipe says)."
            ),
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
@click.option(
    "--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "miniature", "paper"])
)
@_execution_options
def demo(out: str, scale: str, **execution: Any) -> None:
    """Compare ways to train on votes: real digits, a simulated crowd and a report, in about two minutes.

    The same as `dissensus run demo --out demo-report`. If interrupted, the same command resumes where it stopped.
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
@click.option(
    "--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "miniature", "paper"])
)
@click.option("--seeds", metavar="N|A-B,C", help="How many seeds, or which ones (default: as the recipe says).")
@click.option(
    "--out", required=True, metavar="DIR", help="Folder for the ledger, report.html, results.md and results.csv."
)
@click.option(
    "--ledger", metavar="DIR", help="Folder for finished runs, to share them between recipes (default: OUT/runs)."
)
@_execution_options
def run(recipe: str, scale: str, seeds: str | None, out: str, ledger: str | None, **execution: Any) -> None:
    """Run a RECIPE and write its report. If interrupted, the same command resumes where it stopped.

    Under `torchrun -m dissensus run …`, all processes share the work of each run.
    """
    _run_in_group(recipe, scale, seeds, out, ledger, **execution)


@click.command()
@click.option(
    "--scale", default="laptop", show_default=True, type=click.Choice(["smoke", "laptop", "miniature", "paper"])
)
def recipes(scale: str) -> None:
    """List the recipes and the number of runs each needs. Recipes share their runs if they use the same --ledger."""
    from dissensus.experiments.plan import size
    from dissensus.recipes import RECIPES, scales_of

    for name, make in RECIPES.items():
        if scale not in scales_of(name):
            continue
        experiment = make(scale, None)
        click.echo(f"{name:<16}{experiment.title}  ({size(experiment):,} runs)")
    click.echo("\nRun one with: dissensus run NAME --out DIR [--scale smoke|laptop|miniature|paper]")


@click.command(
    epilog="""\b
Examples:
  dissensus report demo-report
  dissensus report demo-report --baseline Majority
  dissensus report demo-report --records records.jsonl.gz
""",
)
@click.argument("folder", metavar="DIR")
@click.option("--baseline", metavar="ROW", help="Compare the other rows with this one (default: as the recipe says).")
@click.option("--ledger", metavar="DIR", help="Folder with the finished runs (default: DIR/runs).")
@click.option("--records", metavar="FILE", help="Read the runs from this file, written by `dissensus runs pack`.")
def report(folder: str, baseline: str | None, ledger: str | None, records: str | None) -> None:
    """Write the report in DIR again from its finished runs."""
    from dissensus.store.ledger import Ledger
    from dissensus.store.records import Records

    runs = Records(records) if records else Ledger(ledger or Path(folder) / "runs")
    _write_report(_with_baseline(read_experiment(folder), baseline), Path(folder), runs)


def read_experiment(folder: str) -> Experiment[str]:
    """Read the description of the experiment that `run` wrote next to its ledger."""
    from dissensus.experiments.description import from_json

    file = Path(folder) / EXPERIMENT
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if "tables" in document:
            raise InputError(
                "this experiment was written by an earlier version",
                where=str(file),
                hint="Run the same recipe again: it uses the finished runs and only writes the report",
            )
        return from_json(document)
    except FileNotFoundError:
        raise InputError(
            "no experiment was run in this folder", where=str(file), hint="Start one with `dissensus run`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        if isinstance(problem, InputError):
            raise
        raise InputError(
            f"the file is damaged ({problem})", where=str(file), hint="Run the recipe again: finished runs are kept"
        ) from None


def _run_in_group(*arguments: Any, **options: Any) -> None:
    """Run alone, or together with the other processes that `torchrun` started."""
    from dissensus.engine import worker_processes

    if options["engine"] == "local" and options["workers"] != 1 and not options["dry_run"] and "RANK" not in os.environ:
        worker_processes.prepare()  # workers import torch while this process imports and plans
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
    experiment = _with_baseline(planned.experiment, baseline)
    labels = {spec.id: _short_label(spec) for spec in planned.specs} | labels_of(planned.experiment)
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
            f"\nInterrupted. Finished runs and checkpoints of unfinished ones are in {runs.folder}; "
            "the same command resumes from there.",
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
        failures = f"{len(result.failed)} runs failed, {len(result.blocked)} need a failed run"
        click.echo(f"{failures}: the report leaves them out. Tracebacks are in {runs.error_file('*')}.", err=True)
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
    """`5` means the first five seeds; `0-4` and `0,2,7-9` list seeds.

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
        raise InputError(f"{text!r} names no seeds, or a seed twice", where="--seeds", hint="Write 5, 0-4 or 0,3,7-9")
    return chosen


def _with_baseline(experiment: Experiment[str], baseline: str | None) -> Experiment[str]:
    """The experiment with another baseline row in every score table that has this row."""
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
    """The command as typed, for the report, without the path of the program, which differs between machines."""
    return shlex.join(["dissensus", *sys.argv[1:]])


def labels_of(experiment: Experiment[str]) -> dict[str, str]:
    """A readable name for each run that an exhibit shows, by run id."""
    several = len(experiment.exhibits) > 1
    tables = experiment.score_tables
    labels = {}
    for exhibit in (
        *(e for e in experiment.exhibits if e not in tables),
        *tables,
    ):  # names of score tables take precedence
        for row, points in exhibit.cells.items():
            for point, replicates in points.items():
                for name, run in replicates.items():
                    seed = f"seed {name}" if exhibit in tables else name
                    parts = (row, point if len(points) > 1 else "", seed)
                    title = f"{exhibit.title}: " if several or exhibit not in tables else ""
                    labels[run] = title + ", ".join(filter(None, parts))
    return labels


def _short_label(spec: Spec) -> str:
    """A name for a run that no exhibit shows: a run of a grid, or one that another run needs."""
    from dissensus.training.recipe import Recipe

    if spec.kind != "train":
        return f"{spec.kind}: {spec.settings['name']}"
    return f"{spec.settings['data']['name']}: {Recipe.of(spec.settings).method}, seed {spec.settings['seed']}"


def _announcement(planned: Plan, runs: Ledger) -> str:
    experiment = planned.experiment
    done = sum(spec.id in runs for spec in planned.specs)
    before = f", {done} of them already finished" if done else ""
    return f"{experiment.title} ({experiment.key}, {experiment.scale} scale): {len(planned.specs)} runs{before}."


def _write_report(experiment: Experiment[str], folder: Path, runs: RunSource) -> None:
    from dissensus import report as reports
    from dissensus.report.answer import NOT_EVIDENCE

    written = reports.write(experiment, runs, folder)
    if experiment.scale == "smoke":
        click.echo(f"{NOT_EVIDENCE}\n")
    for title, answer in written.answers.items():
        click.echo(f"{title}: {answer}\n")
    click.echo(f"Report: {written.html}\nTables: {written.markdown}, {written.csv}")
