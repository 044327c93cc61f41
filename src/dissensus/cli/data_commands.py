"""`data`: which data sets are here, and how to get the others."""

from __future__ import annotations

import click


@click.group(
    epilog="""\b
Examples:
  dissensus data list
  dissensus data get cifar10h
""",
)
def data() -> None:
    """Data sets: list what is here, download what is not."""


@data.command("list")
def list_() -> None:
    """Every data set, how much of it is here, its licence and its source."""
    from dissensus import datasets

    click.echo(f"Data folder: {datasets.data_root()} (set DISSENSUS_DATA to use another)\n")
    for one in datasets.catalogue():
        click.echo(click.style(one.name, bold=True) + f"  {one.description}")
        click.echo(f"  {one.sentence}\n  licence: {one.licence}\n  source: {one.source}")


@data.command()
@click.argument("name")
def get(name: str) -> None:
    """Download a data set from its official source into the data folder. Broken off, it goes on where it stopped."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from dissensus import datasets

    entry = datasets.entry(name)
    click.echo(f"{entry.description}\n  licence: {entry.licence}\n  source: {entry.source}")
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        for sentence in datasets.get(name, progress=lambda done, total: bar.update(task, completed=done, total=total)):
            click.echo(sentence)
