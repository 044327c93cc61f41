"""`demo`, `run`, `recipes` and `report`: run an experiment and write its report."""

from __future__ import annotations

import os
import re
import reprlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import writable_folder
from dissensus.cli.out_folder import ledger_of, read_experiment, write_out_folder
from dissensus.cli.output import printable
from dissensus.cli.parameters import Device, FiniteRange, absent
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dissensus.engine.events import Event, Listener
    from dissensus.engine.executor import Executor, PlanResult
    from dissensus.engine.one_run import Execution
    from dissensus.experiments.description import Experiment
    from dissensus.experiments.plan import Node, Plan
    from dissensus.report import Written
    from dissensus.report.recommendation import Recommendation
    from dissensus.report.spending_advice import SpendingAdvice
    from dissensus.store.ledger import Ledger
    from dissensus.store.run_source import RunSource
    from dissensus.store.spec import Spec
    from dissensus.training.distributed import Group

    Compute = Callable[[Sequence[Spec]], Ledger]
    """Computes some specs of a plan ahead of the others, and gives the ledger that has them then."""

SCALES = ["smoke", "laptop", "miniature", "offline", "paper"]
EXECUTION = ("workers", "threads", "device", "engine", "address", "gpus", "log", "dry_run", "baseline")
"""The names of the options that `execution_options` adds."""


def execution_options(command: Any) -> Any:
    """Add the options of every command that computes runs; their values are the arguments of `compute`."""
    for option in reversed(
        (
            click.option("--workers", type=click.IntRange(1), help="Runs at a time (default: one per core)."),
            click.option(
                "--threads", type=click.IntRange(1), help="Threads per run (default: the cores divided by the workers)."
            ),
            click.option("--device", type=Device(), help="cpu, cuda, … (default: a GPU if available)."),
            click.option("--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True),
            click.option(
                "--address", default="auto", show_default=True, help="Address of the Ray cluster: auto or HOST:PORT."
            ),
            click.option(
                "--gpus",
                default=0.0,
                show_default=True,
                type=FiniteRange(0),
                help="GPUs per run on Ray; 0.5 means two runs share one.",
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
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(SCALES))
@execution_options
def demo(out: str, scale: str, **execution: Any) -> None:
    """Compare ways to train on votes: real digits, a simulated crowd and a report, in about two minutes.

    The same as `dissensus run demo --out demo-report`. If interrupted, the same command resumes where it stopped.
    """
    _run_recipe("demo", scale, None, out, None, (), **execution)


@click.command(
    epilog="""\b
Examples:
  dissensus run demo --scale smoke --out try
  dissensus run demo --seeds 10 --out ten-seeds        the first ten seeds, 0 to 9
  dissensus run demo --seeds 0-4,7 --out some-seeds    these seeds
  dissensus run demo --dry-run --out try               what it would cost
  dissensus run demo --engine ray --address auto --out on-a-cluster
  dissensus run 002/table3 --scale offline --out table3         the paper's grid on features that need no network
  dissensus run 002/table3 --scale paper --encoder image=hf:facebook/dinov2-base --out table3
  dissensus run 001/table1 --as-printed --out table1   as the authors chose learning rate, seed and epoch
""",
)
@click.argument("recipe")
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(SCALES))
@click.option("--seeds", metavar="N|A-B,C", help="How many seeds, or which ones (default: as the recipe says).")
@click.option(
    "--out", required=True, metavar="DIR", help="Folder for the ledger, report.html, results.md and results.csv."
)
@click.option(
    "--ledger", metavar="DIR", help="Folder for finished runs, to share them between recipes (default: OUT/runs)."
)
@click.option(
    "--encoder",
    "encoders",
    multiple=True,
    metavar="KIND=NAME",
    help="Encoder of texts or images for recipes that use one: text=openai:text-embedding-3-large, image=hf:NAME.",
)
@click.option(
    "--as-printed",
    is_flag=True,
    help="The protocol of the authors' released code, where a recipe has both; the default is a clean one.",
)
@execution_options
def run(
    recipe: str,
    scale: str,
    seeds: str | None,
    out: str,
    ledger: str | None,
    encoders: tuple[str, ...],
    as_printed: bool,
    **execution: Any,
) -> None:
    """Run a RECIPE and write its report. If interrupted, the same command resumes where it stopped.

    Features that a recipe needs and that are not there yet are made first (see `dissensus embed`).

    Under `torchrun -m dissensus run …`, all processes share the work of each run.
    """
    _run_recipe(recipe, scale, seeds, out, ledger, encoders, as_printed=as_printed, **execution)


@click.command()
@click.option("--scale", default="laptop", show_default=True, type=click.Choice(SCALES))
def recipes(scale: str) -> None:
    """List the recipes and the number of runs each needs. Recipes share their runs if they use the same --ledger."""
    from dissensus.experiments.plan import size
    from dissensus.recipes import RECIPES, scales_of

    width = max(map(len, RECIPES)) + 2
    for name, make in RECIPES.items():
        if scale not in scales_of(name):
            continue
        experiment = make(scale, None)
        click.echo(f"{name:<{width}}{experiment.title}  ({size(experiment):,} runs)")
    click.echo(f"\nRun one with: dissensus run NAME --out DIR [--scale {'|'.join(SCALES)}]")


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
@click.option("--ledger", metavar="DIR", help="Folder with the finished runs (default: the one that the run used).")
@click.option("--records", metavar="FILE", help="Read the runs from this file, written by `dissensus runs pack`.")
@click.option(
    "--force", is_flag=True, help="Replace the report also where it shows more finished runs than there are now."
)
def report(folder: str, baseline: str | None, ledger: str | None, records: str | None, force: bool) -> None:
    """Write the report in DIR again from its finished runs."""
    from dissensus.store.records import Records

    experiment = _with_baseline(read_experiment(folder), baseline)
    runs: RunSource = Records(records) if records else ledger_of(folder, ledger)
    if not force:
        _refuse_an_emptier_report(experiment, Path(folder), runs, records or ledger)
    _write_report(experiment, Path(folder), runs)


def _refuse_an_emptier_report(experiment: Experiment[str], folder: Path, runs: RunSource, source: str | None) -> None:
    from dissensus import report as reports

    shown, finished = reports.finished_runs_shown(folder), reports.finished_runs(experiment, runs)
    if shown is None or finished >= shown:
        return
    raise InputError(
        f"the report there shows {shown} finished runs, and {source or 'the ledger'} has {finished} of this experiment: "
        f"{shown - finished} would be lost from it",
        where=str(folder / reports.PAGE),
        hint="Name the right --ledger or --records, run the recipe again, or pass --force",
        state="The report was left as it is.",
    )


def _run_recipe(
    recipe: str,
    scale: str,
    seeds: str | None,
    out: str,
    ledger: str | None,
    encoders: tuple[str, ...],
    *,
    as_printed: bool = False,
    **execution: Any,
) -> None:
    start_workers(execution)
    from dissensus.recipes import find

    chosen = None if seeds is None else parse_seeds(seeds)
    described = find(recipe, scale, chosen, _parse_encoders(encoders), as_printed=as_printed)
    compute(described, out, ledger, **execution)


def start_workers(execution: Mapping[str, Any]) -> None:
    """Let workers import torch while this process imports and plans; to be called before anything else is imported."""
    from dissensus.engine import worker_processes

    alone = execution["workers"] == 1 or execution["dry_run"] or "RANK" in os.environ
    if execution["engine"] == "local" and not alone:
        worker_processes.prepare()


def compute(described: Experiment[Node], out: str, ledger: str | None, **execution: Any) -> Written | None:
    """Plan an experiment, compute what the ledger lacks, and write the report; None where nothing was written.

    Alone, or together with the other processes that `torchrun` started. `before` may compute some specs ahead of the
    others and say something about them; with `quiet` the answers are not printed.
    """
    from dissensus.training import distributed

    with distributed.from_environment() as group:
        return _compute(described, out, ledger, group=group, **execution)


def _compute(
    described: Experiment[Node],
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
    before: Callable[[Plan, Compute], None] = lambda plan, compute: None,  # noqa: ARG005
    quiet: bool = False,
) -> Written | None:
    from dissensus import datasets
    from dissensus.cli.embed_command import digest_with_features
    from dissensus.cli.progress import Display
    from dissensus.cli.tensorboard import TensorBoard
    from dissensus.engine.local import cores
    from dissensus.engine.one_run import Execution
    from dissensus.engine.ray_head import RayHeadLostError, end_without_ray
    from dissensus.experiments.cost import costs, forecast
    from dissensus.experiments.plan import make_plan
    from dissensus.store.ledger import Ledger

    planned = make_plan(described, datasets.digest_of if dry_run else digest_with_features, _command())
    experiment = _with_baseline(planned.experiment, baseline)
    labels = {spec.id: _short_label(spec) for spec in planned.specs} | labels_of(planned.experiment)
    runs = Ledger(ledger or Path(out) / "runs")
    at_a_time = workers or cores()
    if dry_run:
        click.echo(f"{experiment.title} ({_study(experiment)})")
        click.echo(forecast(planned.specs, runs).sentence(at_a_time))
        return None
    if device and engine == "local" and (problem := absent(device)):
        raise InputError(problem, where="--device", hint="Leave it out, or name another")
    folder = writable_folder(out)
    if group.leads:
        runs.create()
        write_out_folder(folder, experiment, runs)
        click.echo(_announcement(planned, runs), err=True)
    executor = _executor(group, engine, at_a_time, Execution(device=device, threads=threads), address, gpus)

    def compute_specs(specs: Sequence[Spec]) -> PlanResult:
        remaining = [spec for spec in specs if spec.id not in runs]
        with Display({spec.id: labels[spec.id] for spec in specs}, costs(remaining)) as display:
            listeners: list[Listener] = [display]
            if log:
                listeners.append(TensorBoard(folder / "tensorboard", labels, runs))

            def listen(event: Event) -> None:
                for listener in listeners:
                    listener(event)

            return executor.run(specs, runs, listen)

    def compute_ahead(specs: Sequence[Spec]) -> Ledger:
        compute_specs(specs)
        return runs

    try:
        before(planned, compute_ahead)
        result = compute_specs(planned.specs)
    except RayHeadLostError as problem:
        end_without_ray(problem)
    except KeyboardInterrupt:
        click.echo(
            f"\nInterrupted. Finished runs and checkpoints of unfinished ones are in {runs.folder}; "
            "the same command resumes from there.",
            err=True,
        )
        sys.exit(130)
    if not group.leads:
        return None
    if result.disk_full:
        click.echo(printable(result.disk_full), err=True)
        sys.exit(2)
    if result.elsewhere:
        click.echo(
            f"{len(result.elsewhere)} runs are left to others on {runs.folder}; the last writes the report.", err=True
        )
        return None
    written = _write_report(experiment, folder, runs, quiet=quiet)
    if result.failed or result.blocked:
        failures = f"{len(result.failed)} runs failed, {len(result.blocked)} need a failed run"
        click.echo(f"{failures}: the report leaves them out. Tracebacks are in {runs.error_file('*')}.", err=True)
        sys.exit(1)
    return written


def _executor(group: Group, engine: str, workers: int, execution: Execution, address: str, gpus: float) -> Executor:
    from dissensus.engine.local import LEAVE, LocalExecutor
    from dissensus.engine.ray import RayExecutor
    from dissensus.engine.torchrun import TorchrunExecutor

    if group.world > 1:
        return TorchrunExecutor(group, execution)
    if engine == "ray":
        return RayExecutor(address, float(execution.threads or 1), gpus, execution)
    return LocalExecutor(workers, execution, leave=LEAVE in os.environ)


MOST_SEEDS = 100_000


def parse_seeds(text: str) -> tuple[int, ...]:
    """`5` means the first five seeds; `0-4` and `0,2,7-9` list seeds.

    >>> parse_seeds("3"), parse_seeds("1,4-6")
    ((0, 1, 2), (1, 4, 5, 6))
    """
    try:
        if text.isdecimal():
            spans = [range(int(text))]
        else:
            ends = [re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip(), re.ASCII) for part in text.split(",")]
            spans = [range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0) for found in ends]
        count = sum(map(len, spans)) if all(map(len, spans)) else 0
    except (ValueError, OverflowError):  # not a number, or one beyond all
        count = 0
    chosen = [seed for span in spans for seed in span] if 0 < count <= MOST_SEEDS else []
    if not chosen or len(set(chosen)) < len(chosen):
        problem = f"{reprlib.repr(text)} names no seeds, a seed twice, or more than {MOST_SEEDS:,}"
        raise InputError(problem, where="--seeds", hint="Write 5, 0-4 or 0,3,7-9")
    return tuple(chosen)


def _parse_encoders(texts: tuple[str, ...]) -> dict[str, str]:
    """`("text=minilm",)` as {"text": "minilm"}."""
    pairs = [text.partition("=") for text in texts]
    if wrong := [text for text, (_, equals, name) in zip(texts, pairs, strict=True) if not equals or not name]:
        raise InputError(f"{wrong[0]!r} names no encoder", where="--encoder", hint="Write text=NAME or image=NAME")
    return {kind: name for kind, _, name in pairs}


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
    return printable(shlex.join(["dissensus", *sys.argv[1:]]))


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
    return f"{experiment.title} ({_study(experiment)}): {len(planned.specs)} runs{before}."


def _study(experiment: Experiment[str]) -> str:
    return ", ".join(filter(None, (experiment.key, experiment.scale and f"{experiment.scale} scale")))


def _write_report(experiment: Experiment[str], folder: Path, runs: RunSource, *, quiet: bool = False) -> Written:
    from dissensus import report as reports
    from dissensus.engine.measures.renewed import RenewedRuns
    from dissensus.report.answer import NOT_EVIDENCE

    written = reports.write(experiment, RenewedRuns(runs), folder)
    if quiet:
        return written
    if experiment.scale == "smoke":
        click.echo(f"{NOT_EVIDENCE}\n")
    if written.recommendation is not None:
        click.echo(_recommended(written.recommendation))
    else:
        for title, answer in written.answers.items():
            click.echo(f"{title}: {answer}\n")
    click.echo(f"Report: {written.html}\nTables: {written.markdown}, {written.csv}")
    return written


def _recommended(recommendation: Recommendation | SpendingAdvice) -> str:
    reasons = "\n".join(f"- {reason}" for reason in recommendation.reasons)
    command = f"\n  {recommendation.command}\n" if recommendation.command else ""
    return f"{recommendation.headline}\n{reasons}\n{command}"
