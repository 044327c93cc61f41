"""`runs` and `watch`: manage the finished runs of a ledger, and follow a running experiment."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.out_folder import ledger_of, read_experiment
from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.store.ledger import Ledger


def ledger_at(folder: str) -> Ledger:
    """The ledger in a folder: the folder itself, or that of the experiment whose --out folder it is."""
    from dissensus.store.ledger import Ledger

    if not Path(folder).is_dir():
        raise InputError("there is no such folder", where=folder, hint="Pass the --out folder of a `dissensus run`")
    ledger = Ledger(folder)
    return ledger if ledger.exists else ledger_of(folder)


@click.group(
    epilog="""\b
Examples:
  dissensus runs ls demo-report
  dissensus runs show demo-report 3f0c
  dissensus runs verify demo-report
  dissensus runs rescore demo-report --dry-run
  dissensus runs pack demo-report records.jsonl.gz
""",
)
def runs() -> None:
    """Manage finished runs. DIR is a ledger, or the --out folder of an experiment."""


@runs.command("ls")
@click.argument("folder", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(folder: str, as_json: bool) -> None:
    """List finished runs, one per line: id, data, method, seed, soft NLL, accuracy, seconds."""
    from dissensus.store.spec import canonical

    summaries = ledger_at(folder).summaries()
    if as_json:
        click.echo(json.dumps([vars(summary) for summary in summaries], ensure_ascii=False))
        return
    methods: dict[str, str] = {}  # by settings: thousands of runs differ in their seed alone
    for run in summaries:
        name, seed = str(run.settings.get("name", run.kind)), ""
        if run.kind == "train":
            settings = canonical({**run.settings, "seed": 0})
            if settings not in methods:
                methods[settings] = _data_and_method(run.settings)
            name, seed = methods[settings], f"seed {run.settings.get('seed')}"
        values = {metric: run.raw.get(metric) for metric in ("soft_nll", "accuracy")}
        scores = "  ".join(f"{metric} {value:.4f}" for metric, value in values.items() if value is not None)
        click.echo(f"{run.id}  {name:<44}  {seed:<8}  {scores}  {run.seconds or 0:.1f} s")
    click.echo(f"{len(summaries)} runs", err=True)


def _data_and_method(settings: dict[str, Any]) -> str:
    from dissensus.store.spec import UnknownFormatError
    from dissensus.training.recipe import Recipe

    try:
        recipe = Recipe.of(settings)
    except UnknownFormatError:
        return "train, in the form of another version"
    return f"{recipe.data}: {recipe.method}"


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("run_id", metavar="ID")
def show(folder: str, run_id: str) -> None:
    """Print the whole record of a run as JSON; the first digits of its ID are enough."""
    ledger = ledger_at(folder)
    click.echo(json.dumps(ledger.read(_full_id(ledger, run_id)).to_json(), indent=1, ensure_ascii=False))


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("run_ids", metavar="ID…", nargs=-1, required=True)
def rm(folder: str, run_ids: tuple[str, ...]) -> None:
    """Remove runs, finished or not. They are computed again when a recipe needs them."""
    ledger = ledger_at(folder)
    known = [*ledger.ids(), *ledger.without_record(), *ledger.begun()]
    for run_id in [_full_id(ledger, run_id, known) for run_id in run_ids]:
        ledger.remove(run_id)
        click.echo(f"removed {run_id}")


@runs.command()
@click.argument("folder", metavar="DIR")
def verify(folder: str) -> None:
    """Check every file of every run against its checksum; exit with code 1 if one was edited, truncated or lost."""
    ledger = ledger_at(folder)
    run_ids = [*ledger.ids(), *ledger.without_record()]
    damaged = {run_id: problems for run_id in run_ids if (problems := ledger.verify(run_id))}
    for run_id, problems in damaged.items():
        click.echo(f"{run_id}: {'; '.join(problems)}")
    hint = ": remove them with `dissensus runs rm`" if damaged else ""
    click.echo(f"{len(run_ids)} runs, {len(damaged)} damaged{hint}")
    if damaged:
        sys.exit(1)


@runs.command()
@click.argument("folder", metavar="DIR")
@click.option("--dry-run", is_flag=True, help="Print what would change; change nothing.")
def rescore(folder: str, dry_run: bool) -> None:
    """Score the stored predictions of training runs again, for metrics that were added or corrected later.

    Measures of these runs are not computed again: to renew them, remove them with `runs rm` and run the recipe.
    """
    from dissensus.engine.rescore import rescore as rescored

    ledger = ledger_at(folder)
    results = [rescored(ledger, run_id, dry_run=dry_run) for run_id in ledger.ids()]
    scored = [result for result in results if result is not None]
    different = [result for result in scored if result.added or result.changed]
    added = sorted({name for result in different for name in result.added})
    changed = sorted({name for result in different for name in result.changed})
    click.echo(f"{'to be rescored' if dry_run else 'rescored'}: {_count(len(different))}")
    if added:
        click.echo(f"  metrics added: {', '.join(added)}")
    if changed:
        click.echo(f"  metrics with another value: {', '.join(changed)}")
    click.echo(f"unchanged: {_count(len(scored) - len(different))}")
    click.echo(f"left alone, no training run or without stored predictions: {_count(len(results) - len(scored))}")


def _count(runs: int) -> str:
    return f"{runs} run{'' if runs == 1 else 's'}"


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("file", metavar="FILE")
def pack(folder: str, file: str) -> None:
    """Write the records of all runs, without weights and predictions, to one small FILE for `report --records`."""
    from dissensus.store.records import pack as packed

    ledger = ledger_at(folder)
    count = packed(ledger, ledger.ids(), file)
    click.echo(f"{file}: {count} records, {Path(file).stat().st_size / 1024:,.0f} KiB")


def _full_id(ledger: Ledger, start: str, known: Sequence[str] | None = None) -> str:
    matching = {run_id for run_id in (ledger.ids() if known is None else known) if run_id.startswith(start)}
    if len(matching) != 1:
        count = "no run begins" if not matching else f"{len(matching)} runs begin"
        raise InputError(f"{count} with {start!r}", where=str(ledger.folder), hint="List them with `dissensus runs ls`")
    return matching.pop()


@click.command(
    epilog="""\b
Example, from another terminal, or another machine with the same folder:
  dissensus watch demo-report
""",
)
@click.argument("folder", metavar="DIR")
@click.option("--ledger", metavar="DIR", help="Folder with the finished runs (default: the one that the run used).")
@click.option("--once", is_flag=True, help="Print the state once and exit.")
def watch(folder: str, ledger: str | None, once: bool) -> None:
    """Follow a running experiment: how many runs are done, which are running, which failed."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from dissensus.cli.experiment_commands import labels_of
    from dissensus.cli.progress import progress_table, read_status

    labels = labels_of(read_experiment(folder))
    runs_folder = ledger_of(folder, ledger)
    status = read_status(labels, runs_folder)
    if not once:
        with Live(refresh_per_second=2) as live:
            while status.done + len(status.failed) < status.total:
                live.update(Group(Text(status.sentence), progress_table(status.under_way)))
                time.sleep(1)
                status = read_status(labels, runs_folder)
    click.echo(status.sentence)
    for label, reason in status.failed.items():
        click.echo(f"failed: {label}\n{reason.strip().splitlines()[-1]}")
