"""`clean`: votes of those who passed the attention checks."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dissensus.cli.inputs import read_as_json, say_read_as
from dissensus.cli.parameters import FiniteRange
from dissensus.errors import InputError


@click.command(
    epilog="""\b
Examples:
  dissensus clean cifar10h-raw.csv votes.csv
  dissensus clean cifar10h-raw.csv counts.npy --passing 0.9 --fastest 300
""",
)
@click.argument("trials_file", metavar="TRIALS")
@click.argument("target", metavar="OUT")
@click.option(
    "--passing",
    default=0.75,
    show_default=True,
    type=FiniteRange(0, 1),
    help="Leave out annotators with less than this share of their attention checks right.",
)
@click.option("--fastest", type=FiniteRange(0), metavar="MS", help="Leave out votes that took fewer milliseconds.")
@click.option("--slowest", type=FiniteRange(0), metavar="MS", help="Leave out votes that took more milliseconds.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print what was read and removed as JSON.")
def clean(
    trials_file: str,
    target: str,
    passing: float,
    fastest: float | None,
    slowest: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the votes in TRIALS without those of annotators who failed the attention checks, and say what was removed.

    TRIALS is the per-annotator file of CIFAR-10H (cifar10h-raw.csv) or one with its columns: annotator_id, is_attn_check,
    correct_guess, chosen_label, cifar10_test_test_idx, reaction_time. OUT is a long table (CSV, TSV, JSONL, Parquet), or
    counts by image and class (.npy, .npz).
    """
    from dissensus.votes import write_votes
    from dissensus.votes.exports import read_export
    from dissensus.votes.trials import Cleaning

    out = Path(target)
    if out.exists() and not force:
        raise InputError("the file exists", where=target, hint="Choose another name, or pass --force to replace it")
    if out.exists() and Path(trials_file).exists() and out.samefile(trials_file):
        raise InputError("TRIALS and OUT are the same file", where=target, hint="Choose another name for OUT")
    votes = read_export(trials_file, name="cifar-10h", cleaning=Cleaning(passing, fastest, slowest))
    assert votes is not None, "a reader that is named reads or refuses"
    as_counts = out.suffix.lower() in (".npy", ".npz")
    nameless = out.suffix.lower() == ".npy"
    write_votes(votes, out, "counts" if as_counts else "long", drop_annotators=as_counts, drop_names=nameless)
    per_item = votes.votes_per_item
    if as_json:
        sizes = {"votes_per_item": {"fewest": int(per_item.min()), "most": int(per_item.max())}}
        click.echo(json.dumps({**(read_as_json(votes) or {}), **sizes}, indent=1))
        return
    say_read_as(votes)
    written = "counts" if as_counts else "a long table"
    sizes_said = f"{votes.n_votes:,} votes on {len(votes):,} items, {per_item.min()} to {per_item.max()} per item"
    click.echo(f"wrote {written} to {target}: {sizes_said}")
