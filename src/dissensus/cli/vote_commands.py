"""`inspect` and `score`: describe votes, and score a model's probabilities against them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import people_from, vote_options, votes_from

if TYPE_CHECKING:
    from dissensus.datasets.data import Data


@click.command(
    epilog="""\b
Examples:
  dissensus inspect votes.csv
  dissensus inspect ratings.tsv --item instance_id --annotator user_id --label politeness
  dissensus inspect cifar10h-counts.npy --json
""",
)
@click.argument("votes_file", metavar="VOTES")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@vote_options
def inspect(votes_file: str, as_json: bool, **options: Any) -> None:
    """Describe VOTES: items, votes, annotators, classes, agreement, ties.

    VOTES is a long table (one row per vote: CSV, TSV, JSONL, Parquet), a wide table (items × annotators) or a matrix of
    counts (npy, npz, CSV, Parquet).
    """
    from dissensus.votes import inspect_votes

    facts = inspect_votes(votes_from(votes_file, options))
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False, indent=1))
    else:
        _print_facts(votes_file, facts)


def _print_facts(name: str, facts: dict[str, Any]) -> None:
    per_item, alpha, n = facts["votes_per_item"], facts["krippendorff_alpha"], facts["items"]
    people = "unknown" if facts["annotators"] is None else f"{facts['annotators']:,}"
    lines = [
        ("items", f"{n:,}"),
        ("votes", f"{facts['votes']:,}"),
        ("annotators", people),
        ("votes per item", f"{per_item['fewest']} to {per_item['most']}, mean {per_item['mean']:.2f}"),
        ("unanimous", f"{facts['unanimous_items']:,} items ({facts['unanimous_items'] / n:.1%})"),
        ("no unique majority", f"{facts['tied_items']:,} items ({facts['tied_items'] / n:.1%})"),
        ("mean entropy", f"{facts['mean_entropy']:.4f} nats"),
        (
            "Krippendorff's alpha",
            "undefined (no item has two votes, or all votes agree)" if alpha is None else f"{alpha:.4f}",
        ),
    ]
    click.echo(click.style(name, bold=True))
    for label, value in lines:
        click.echo(f"  {label:<22}{value}")
    click.echo("\n  votes by class")
    _bars(facts["classes"])
    histogram = facts["entropy_histogram"]
    edges = histogram["edges"]
    bins = {"0 (unanimous)": histogram["zero"]}
    for low, high, count in zip(edges[:-1], edges[1:], histogram["counts"], strict=True):
        bins[f"to {high:.2f}" if low else f"above 0 to {high:.2f}"] = count
    click.echo("\n  items by vote entropy, in nats")
    _bars(bins)


def _bars(counts: dict[str, int], width: int = 40, most: int = 20) -> None:
    """Print a horizontal bar chart; bars beyond `most` are added up in a last one."""
    shown = dict(list(counts.items())[:most])
    if len(counts) > most:
        shown[f"{len(counts) - most} others"] = sum(list(counts.values())[most:])
    longest = max(len(label) for label in shown)
    full = max(1, max(shown.values()))
    for label, count in shown.items():
        eighths = round(8 * width * count / full)
        bar = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
        click.echo(f"    {label:<{longest}}  {bar} {count:,}")


@click.command(
    epilog="""\b
Examples:
  dissensus score predictions.npy cifar10h-counts.npy
  dissensus score logits.npy votes.csv --logits --gold gold.csv
  dissensus score predictions.csv votes.csv --json > scores.json
""",
)
@click.argument("predictions_file", metavar="PREDICTIONS")
@click.argument("votes_file", metavar="VOTES")
@click.option("--logits", is_flag=True, help="PREDICTIONS are logits (or log-probabilities), not probabilities.")
@click.option("--probs", is_flag=True, help="VOTES holds the share of each class per item, not votes.")
@click.option("--gold", "gold_file", metavar="FILE", help="Gold labels (default: the majority vote).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@vote_options
def score(
    predictions_file: str,
    votes_file: str,
    logits: bool,
    probs: bool,
    gold_file: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Score any model's PREDICTIONS [items × classes] against VOTES: all metrics, with their floors and ceilings.

    PREDICTIONS is npy, npz, CSV or Parquet. Rows are matched by id if both files have ids, otherwise by order.
    Scores are shown raw and after temperature scaling. Two temperatures are cross-fitted on halves of these items: one to
    the votes, one to the gold labels alone.
    """
    from dataclasses import replace

    import torch

    from dissensus.datasets.gold import read_gold
    from dissensus.datasets.own_files import read_predictions, read_probabilities
    from dissensus.engine.judging import judge
    from dissensus.models.predictions import Predictions

    people = people_from(votes_file, probs, options)
    matrix = (read_predictions if logits else read_probabilities)(predictions_file)
    in_order = replace(matrix, values=matrix.for_classes(people.classes)).for_items(people.ids)
    values = torch.from_numpy(in_order)
    if gold_file is not None:
        people = replace(people, gold=torch.from_numpy(read_gold(gold_file, people.classes, people.ids)))
    predictions = Predictions(values if logits else values.log())  # log-probabilities are logits, too
    scores, temperatures = judge(predictions, people, torch.arange(len(people)), seed=0)
    raw = scores.pop("raw")
    if as_json:
        document = {**raw, **scores, "temperatures": temperatures, "items": len(people)}
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print_scores(people, raw, scores, temperatures)


def _print_scores(people: Data, raw: dict[str, Any], tempered: dict[str, Any], temperatures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dissensus.metrics import METRICS

    console = Console()
    against = "gold labels" if raw["gold"] == "given" else "the majority vote (no gold labels were given)"
    console.print(
        f"{len(people):,} items, {len(people.classes)} classes; hard metrics (accuracy, ECE, …) are against {against}.",
        highlight=False,
    )
    wide = console.width >= 120
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric", no_wrap=True)
    for column in ("raw", *(name.replace("_", " to ") for name in tempered)):
        table.add_column(column, justify="right", no_wrap=True)
    if wide:
        table.add_column("description")
    for name in raw:
        base = name.removesuffix("_infinite_items").removesuffix("_finite_mean")
        if name == "gold" or (base != name and not raw[f"{base}_infinite_items"]):
            continue  # no item is infinite, so the mean over the finite items is the mean
        arrow = {"lower": " ↓", "higher": " ↑"}.get(METRICS[name].direction, "")
        cells = [_cell(scores.get(name)) for scores in (raw, *tempered.values())]
        table.add_row(name + arrow, *cells, *([METRICS[name].about] if wide else []))
    console.print(table)
    if not tempered:
        console.print(
            "No temperature could be fitted: a probability is exactly 0, or there is only one item.", highlight=False
        )
    for name, (first, second) in temperatures.items():
        console.print(f"{name.replace('_', ' to ')}: T = {first:.3f} and {second:.3f} on the two halves", highlight=False)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
