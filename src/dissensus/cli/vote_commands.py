"""`score`: a model's probabilities against the votes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import (
    classes_are_named,
    items_of,
    match_options,
    people_from,
    read_as_json,
    rows_to_hold_out,
    say,
    vote_options,
)
from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.datasets.data import Data


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
@click.option("--intersect", is_flag=True, help="Score the items that are in both files, and say how many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@match_options
@vote_options
def score(
    predictions_file: str,
    votes_file: str,
    logits: bool,
    probs: bool,
    gold_file: str | None,
    intersect: bool,
    as_json: bool,
    test_ids: str | None,
    by_order: bool,
    **options: Any,
) -> None:
    """Score any model's PREDICTIONS [items × classes] against VOTES: all metrics, with their floors and ceilings.

    PREDICTIONS is npy, npz, CSV or Parquet. Columns are matched by the names of the classes and rows by id wherever both
    files have them; where one has none, they are matched by order, and it is said. With --test-ids, only those items are
    scored.
    Scores are shown raw and after temperature scaling. Two temperatures are cross-fitted on halves of these items: one to
    the votes, one to the gold labels alone.
    """
    from dataclasses import replace

    import numpy as np
    import torch

    from dissensus.cli.stage_progress import StageProgress
    from dissensus.datasets.gold import gold_of
    from dissensus.datasets.own_files import as_logits, as_probabilities, read_predictions
    from dissensus.engine.judging import judge
    from dissensus.metrics.vote_mixture import MOST_ITEMS
    from dissensus.models.predictions import Predictions
    from dissensus.votes.alignment import match

    people = people_from(votes_file, probs, options)
    matrix = read_predictions(predictions_file)
    matrix = matrix.with_classes(people.classes, named=classes_are_named(people), by_order=by_order)
    matrix = (as_logits if logits else as_probabilities)(matrix)
    items = items_of(people)
    some = intersect or test_ids is not None
    matched = match(items, matrix.ids, len(matrix.values), path=predictions_file, by_order=by_order, intersect=some)
    notes = [*matrix.notes, *([matched.note] if matched.note else [])]
    kept, rows = matched.kept, matched.rows
    if test_ids is not None:
        chosen = np.isin(kept, held_out := rows_to_hold_out(people, test_ids))
        kept, rows = kept[chosen], rows[chosen]
        if absent := len(held_out) - len(kept):
            raise InputError(
                f"{absent:,} of the --test-ids have no row", where=predictions_file, hint="Predict all of them"
            )
    people = people if len(kept) == len(people) else people.subset(torch.from_numpy(kept))
    in_order = np.array_equal(rows, np.arange(len(matrix.values)))
    values = torch.from_numpy(matrix.values if in_order else matrix.values[rows])
    if gold_file is not None:
        gold = gold_of(gold_file, people.classes, replace(items, ids=people.ids), by_order=by_order, intersect=True)
        people, notes = replace(people, gold=torch.from_numpy(gold.labels)), [*notes, *gold.notes]
    elif people.votes is not None:
        notes += _ties(people)
    say(notes)
    del matrix  # one matrix of the predictions' size is enough
    predictions = Predictions(values if logits else values.log_())  # log-probabilities are logits, too
    with StageProgress() as tell:
        scores, temperatures = judge(predictions, people, torch.arange(len(people)), seed=0, tell=tell)
    raw = scores.pop("raw")
    if as_json:
        reading = {"read_as": read_as_json(people.votes), "notes": notes}
        document = {**raw, **scores, "temperatures": temperatures, "items": len(people), **reading}
        if people.votes is not None:
            document["items_behind_estimates"] = min(len(people), MOST_ITEMS)
        click.echo(json.dumps(document, indent=1, allow_nan=False))
    else:
        _print_scores(people, raw, scores, temperatures)


def _ties(people: Data) -> list[str]:
    """A note on majorities that are ties, where accuracy is against the majority."""
    import torch

    from dissensus.metrics.row_blocks import blocks
    from dissensus.metrics.threads import torch_threads

    shares = people.people_rows(torch.arange(len(people)))  # no table of all items is made: it may be very large
    parts = (shares[block] for block in blocks(shares.shape))
    with torch_threads(1):
        tied = sum(int(((part == part.max(1, keepdim=True).values).sum(1) > 1).sum()) for part in parts)
    said = f"{tied:,} of {len(people):,} items have no unique majority; accuracy takes the first of the tied classes"
    return [said] if tied else []


def _print_scores(people: Data, raw: dict[str, Any], tempered: dict[str, Any], temperatures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dissensus.metrics import METRICS
    from dissensus.metrics.vote_mixture import MOST_ITEMS

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
    if people.votes is not None and len(people) > MOST_ITEMS:
        console.print(
            f"The estimates (soft_nll_expected and the ceilings) are from {MOST_ITEMS:,} items, taken at equal distances "
            "from the list of all items in the order of their counts.",
            highlight=False,
        )
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
