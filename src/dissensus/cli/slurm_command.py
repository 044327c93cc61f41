"""`slurm`: the same command as a job array on a cluster, on one shared ledger."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from dissensus.errors import InputError


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  dissensus slurm 003/table2 --scale paper --ledger /shared/runs --out table2 --array 50 --time 02:00:00 --gres gpu:1
  dissensus slurm 003/table2 --scale paper --ledger /shared/runs --out table2 --array 50 --time 02:00:00 --dry-run
  dissensus slurm run demo --ledger runs --out demo --array 8 --throttle 4 --time 30 --partition short
  dissensus watch table2 --ledger /shared/runs         follow it
  scancel --batch --signal=INT JOB                     save and stop; the same command goes on
""",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="RECIPE|COMMAND [OPTIONS]…")
@click.option("--array", "tasks", type=click.IntRange(1), required=True, help="Tasks of the array.")
@click.option("--time", required=True, help="Time limit of each task: minutes, HH:MM:SS or D-HH. It goes on afterwards.")
@click.option("--throttle", type=click.IntRange(1), help="Tasks that run at once, at most (default: as Slurm allows).")
@click.option("--partition", help="Partition to run in.")
@click.option("--gres", help="Generic resources of each task, such as gpu:1.")
@click.option("--cpus-per-task", "cpus", default=1, show_default=True, type=click.IntRange(1), help="CPUs of each task.")
@click.option("--mem", help="Memory of each task, such as 8G.")
@click.option("--account", help="Account to charge.")
@click.option("--qos", help="Quality of service.")
@click.option(
    "--warn", "warn_seconds", default=120, show_default=True, type=click.IntRange(1), help="Seconds to save runs in."
)
@click.option("--sbatch", "more", multiple=True, metavar="OPTION", help="Another option of sbatch, such as --exclusive.")
@click.option("--dry-run", is_flag=True, help="Print the job script; submit nothing.")
@click.pass_context
def slurm(context: click.Context, /, command: tuple[str, ...], dry_run: bool, **asked: Any) -> None:
    """Run a RECIPE, or another COMMAND with --ledger, as a job array on a Slurm cluster.

    Every task runs the same command on the same ledger, which all nodes must see; locks decide who computes what. Before
    its time is up, a task saves its runs and is queued again. Options that are not listed here are the command's own.
    The script and the tasks' output are in LEDGER/.slurm.
    """
    from dissensus.engine.slurm import SlurmArray, log_folder, submit
    from dissensus.store.ledger import Ledger

    words, options = _wrapped(context, command, asked["cpus"])
    if options.get("ledger") is None:
        raise InputError(
            "no shared ledger is given",
            where="slurm",
            hint="Pass --ledger DIR, a folder that all nodes of the cluster see",
            state="No job was submitted.",
        )
    ledger = Ledger(options["ledger"])
    array = SlurmArray(**asked)
    program = [sys.executable, "-m", "dissensus", *words]
    script = array.script(program, name=f"dissensus {words[1]}", logs=log_folder(ledger), folder=Path.cwd())
    if dry_run:
        click.echo(script, nl=False)
        return
    job, file = submit(script, ledger)
    click.echo(f"Job {job}: {array.tasks} tasks of `dissensus {shlex.join(words)}`.")
    click.echo(f"Script: {file}\nOutput: {file.parent / f'{job}_*.log'}")
    if options.get("out"):
        follow = shlex.join(["dissensus", "watch", str(options["out"]), "--ledger", str(options["ledger"])])
        click.echo(f"Follow it with: {follow}")
    click.echo(f"Save and stop with: scancel --batch --signal=INT {job}")


def _wrapped(context: click.Context, words: tuple[str, ...], cpus: int) -> tuple[list[str], dict[str, Any]]:
    """The command that each task runs, checked as if it were typed alone, and its options."""
    group = context.parent.command if context.parent else None
    assert isinstance(group, click.Group), "`slurm` is a command of the group `dissensus`"
    from dissensus.recipes import RECIPES, find

    found = group.commands.get(words[0])
    if found is None or (words[0] in RECIPES and not _computes(found)):
        words, found = ("run", *words), group.commands["run"]
    if not _computes(found):
        shared = ", ".join(sorted(name for name, other in group.commands.items() if _computes(other)))
        raise InputError(
            f"`dissensus {words[0]}` computes no runs on a ledger, so its work cannot be shared",
            where="slurm",
            hint=f"Use {shared}, or the name of a recipe",
            state="No job was submitted.",
        )
    if "--workers" not in words:  # a task knows its cores from Slurm alone
        words = (*words, "--workers", str(cpus))
    options = found.make_context(words[0], list(words[1:]), parent=context.parent).params
    if words[0] == "run":
        find(options["recipe"], options["scale"], None)  # an unknown name is refused now, not after hours in a queue
    return list(words), options


def _computes(command: click.Command) -> bool:
    """Whether it computes the runs of a plan on a ledger that may be shared."""
    return {"ledger", "workers"} <= {parameter.name for parameter in command.params}
