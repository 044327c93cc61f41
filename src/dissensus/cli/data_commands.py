"""`data`: which data sets are available, and how to download the others."""

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
    """List data sets and download them."""


@data.command("list")
def list_() -> None:
    """List every data set: how much of it is in the data folder, its licence and its source."""
    from dissensus import datasets

    click.echo(f"Data folder: {datasets.data_root()} (set DISSENSUS_DATA to use another)\n")
    for entry in datasets.catalogue():
        click.echo(click.style(entry.name, bold=True) + f"  {entry.description}")
        click.echo(f"  {entry.sentence}\n  licence: {entry.licence}\n  source: {entry.source}")


@data.command()
@click.argument("name")
def get(name: str) -> None:
    """Download a data set from its official source into the data folder. An interrupted download resumes."""
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
