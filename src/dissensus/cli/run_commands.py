"""`runs` and `watch`: what a ledger holds, and what is being added to it now."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.store.ledger import Ledger


def ledger_at(folder: str) -> Ledger:
    """The ledger in a folder: the folder itself, or `runs` inside the --out folder of an experiment."""
    from dissensus.store.ledger import Ledger

    place = Path(folder)
    if not place.is_dir():
        raise InputError("there is no such folder", where=folder, hint="Name the --out folder of a `dissensus run`")
    return Ledger(place / "runs" if (place / "runs").is_dir() else place)


@click.group(
    epilog="""\b
Examples:
  dissensus runs ls demo-report
  dissensus runs show demo-report 3f0c
  dissensus runs verify demo-report
  dissensus runs pack demo-report records.jsonl.gz
""",
)
def runs() -> None:
    """Finished runs: list, show, remove, verify. DIR is a ledger, or the --out folder of an experiment."""


@runs.command("ls")
@click.argument("folder", metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(folder: str, as_json: bool) -> None:
    """Every finished run in a line: id, data, method, seed, soft NLL, accuracy, seconds."""
    from dissensus.training.recipe import Recipe

    found = ledger_at(folder).summaries()
    if as_json:
        click.echo(json.dumps([vars(one) for one in found], ensure_ascii=False))
        return
    for one in found:
        what, seed = one.settings.get("name", one.kind), ""
        if one.kind == "train":
            what = f"{one.settings['data']['name']}: {Recipe.of(one.settings).method}"
            seed = f"seed {one.settings['seed']}"
        scores = "  ".join(f"{name} {one.raw[name]:.4f}" for name in ("soft_nll", "accuracy") if one.raw.get(name))
        click.echo(f"{one.id}  {what:<44}  {seed:<8}  {scores}  {one.seconds or 0:.1f} s")
    click.echo(f"{len(found)} runs", err=True)


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("run_id", metavar="ID")
def show(folder: str, run_id: str) -> None:
    """The whole record of a run as JSON; the first digits of its ID are enough."""
    ledger = ledger_at(folder)
    click.echo(json.dumps(ledger.read(_one(ledger, run_id)).to_json(), indent=1, ensure_ascii=False))


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("run_ids", metavar="ID…", nargs=-1, required=True)
def rm(folder: str, run_ids: tuple[str, ...]) -> None:
    """Remove runs, finished or not; they are computed anew when a plan needs them."""
    ledger = ledger_at(folder)
    known = [*ledger.ids(), *ledger.begun()]
    for run_id in [_one(ledger, run_id, known) for run_id in run_ids]:
        ledger.remove(run_id)
        click.echo(f"removed {run_id}")


@runs.command()
@click.argument("folder", metavar="DIR")
def verify(folder: str) -> None:
    """Check every file of every run against its checksum; exit code 1 where one was edited, cut short or lost."""
    ledger = ledger_at(folder)
    wrong = {run_id: problems for run_id in ledger.ids() if (problems := ledger.verify(run_id))}
    for run_id, problems in wrong.items():
        click.echo(f"{run_id}: {'; '.join(problems)}")
    click.echo(f"{len(ledger.ids())} runs, {len(wrong)} damaged" + (": remove these with `runs rm`" if wrong else ""))
    if wrong:
        sys.exit(1)


@runs.command()
@click.argument("folder", metavar="DIR")
@click.argument("file", metavar="FILE")
def pack(folder: str, file: str) -> None:
    """Write the records of all runs, without weights and predictions, to one small FILE that `report --records` reads."""
    from dissensus.store.records import pack as packed

    ledger = ledger_at(folder)
    count = packed(ledger, ledger.ids(), file)
    click.echo(f"{file}: {count} records, {Path(file).stat().st_size / 1024:,.0f} KiB")


def _one(ledger: Ledger, start: str, known: Sequence[str] | None = None) -> str:
    matching = {run_id for run_id in known or ledger.ids() if run_id.startswith(start)}
    if len(matching) != 1:
        what = "no run" if not matching else f"{len(matching)} runs"
        raise InputError(f"{what} begin with {start!r}", where=str(ledger.folder), hint="`dissensus runs ls` lists them")
    return matching.pop()


@click.command(
    epilog="""\b
Example, from another terminal or another machine that sees the folder:
  dissensus watch demo-report
""",
)
@click.argument("folder", metavar="DIR")
@click.option("--ledger", metavar="DIR", help="Where the finished runs are (default: DIR/runs).")
@click.option("--once", is_flag=True, help="Look once and end.")
def watch(folder: str, ledger: str | None, once: bool) -> None:
    """Watch a running experiment: what is done, what is under way, what failed."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from dissensus.cli.experiment_commands import labels_of, read_experiment
    from dissensus.cli.progress import doing_table, survey
    from dissensus.store.ledger import Ledger

    labels = labels_of(read_experiment(folder))
    runs_folder = Ledger(ledger or Path(folder) / "runs")
    seen = survey(labels, runs_folder)
    if not once:
        with Live(refresh_per_second=2) as live:
            while seen.done + len(seen.failed) < seen.total:
                live.update(Group(Text(seen.sentence), doing_table(seen.doing)))
                time.sleep(1)
                seen = survey(labels, runs_folder)
    click.echo(seen.sentence)
    for label, why in seen.failed.items():
        click.echo(f"failed: {label}\n{why.strip().splitlines()[-1]}")
