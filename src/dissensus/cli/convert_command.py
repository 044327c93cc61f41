"""`convert`: votes in any supported form, written as a plain table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dissensus.cli.inputs import keep_inputs, vote_options, votes_from
from dissensus.errors import InputError

TITLES = {"long": "a long table", "wide": "a wide table", "counts": "a table of counts"}


@click.command(
    epilog="""\b
Examples:
  dissensus convert project-1-at-2026-11-18.json votes.csv        Label Studio to a long table
  dissensus convert batch_results.csv votes.parquet --labels Answer.sentiment.label
  dissensus convert votes.csv counts.csv --to counts              how many people chose each class
""",
)
@click.argument("votes_file", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--to", "form", type=click.Choice(list(TITLES)), help="Layout of OUT (default: long; counts for .npy, .npz)."
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@vote_options
def convert(votes_file: str, target: str, form: str | None, force: bool, **options: Any) -> None:
    """Write votes in any supported form as a plain table.

    OUT is CSV, TSV, JSONL or Parquet by its extension; .npy and .npz hold counts. IN is anything that the other commands
    read: a table of votes, the export of an annotation platform (Label Studio, Argilla, Prodigy, doccano, Toloka,
    MTurk …), a file of a published crowd, or a folder with one table per annotator.
    """
    from dissensus.votes import write_votes

    out = Path(target)
    if out.exists() and not force:
        raise InputError("the file exists", where=target, hint="Choose another name, or pass --force to replace it")
    keep_inputs(target, votes_file)
    votes = votes_from(votes_file, options)
    layout = form or ("counts" if out.suffix.lower() in (".npy", ".npz") else "long")
    write_votes(votes, out, layout, drop_annotators=layout == "counts")  # type: ignore[arg-type]  # one of its three names
    people = "" if votes.annotators is None else f" by {len(votes.annotators):,} annotators"
    click.echo(
        f"wrote {TITLES[layout]} to {target}: {votes.n_votes:,} votes on {len(votes):,} items{people}, "
        f"{len(votes.classes):,} classes"
    )
    if layout == "counts" and votes.annotators is not None:
        click.echo("counts do not say who voted: the annotators are not in it")
