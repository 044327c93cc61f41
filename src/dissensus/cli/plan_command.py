"""`plan`: should the next votes go to the items there are, or to new ones?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.experiment_commands import EXECUTION, compute, execution_options, start_workers
from dissensus.cli.inputs import keep_inputs, read_as_json, writable_folder, write_text
from dissensus.cli.own_data import own_data, own_data_options
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dissensus.datasets.data import Data

NEXT_VOTES = "next_votes.csv"


@click.command(
    epilog="""\b
Examples:
  dissensus plan votes.csv --features features.npy --out plan
  dissensus plan votes.csv --features features.npy --budget 5000 --out plan
  dissensus plan votes.csv --texts comment --repeats 4 --out plan
  dissensus plan votes.csv --features features.npy --out plan --dry-run
""",
)
@own_data_options
@click.option("--out", required=True, metavar="DIR", help=f"Folder for the ledger, report.html and {NEXT_VOTES}.")
@click.option("--ledger", metavar="DIR", help="Folder for finished runs (default: OUT/runs).")
@click.option("--budget", default=1000, show_default=True, type=click.IntRange(1), help="Votes that you could still buy.")
@click.option(
    "--repeats", default=2, show_default=True, type=click.IntRange(1, 1000), help="Repeats of 5-fold subsampling."
)
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON instead of words.")
@execution_options
def plan(out: str, ledger: str | None, budget: int, repeats: int, as_json: bool, **given: Any) -> None:
    """Say whether the next votes should go to the items in VOTES, or to new items.

    Logistic regression is trained on nested subsamples of the items and of their votes, and judged on held-out items with
    all their votes. A formula, fitted to these learning curves, says what the budget would improve, spent one way or the
    other, and how sure that is. The items whose next vote is worth most are listed in next_votes.csv. If interrupted, the
    same command resumes.
    """
    execution = {name: given.pop(name) for name in EXECUTION}
    start_workers(execution)
    from dissensus.experiments.vote_plan_study import vote_plan

    folder = writable_folder(out)
    keep_inputs(folder / NEXT_VOTES, *(given[name] for name in ("votes_file", "features_file", "texts", "gold_file")))
    own = own_data(folder, **given)
    ranked = next_votes(own.data)
    first = ", ".join(row[0] for row in ranked[:5])
    note = f"The items whose next vote is worth most are {first}; {NEXT_VOTES} lists all."
    written = compute(
        vote_plan(own.kept, own.data, budget, repeats, (*own.notes, note)), out, ledger, **execution, quiet=as_json
    )
    if written is None:
        return
    _write_csv(ranked, folder / NEXT_VOTES)
    if as_json:
        document = {} if written.recommendation is None else written.recommendation.to_json()
        document |= {"report": str(written.html), "next_votes": str(folder / NEXT_VOTES)}
        document["read_as"] = read_as_json(own.data.votes)
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    else:
        click.echo(f"Items whose next vote is worth most: {folder / NEXT_VOTES} (first: {first})")


def next_votes(data: Data) -> list[tuple[str, int, float, float]]:
    """Every item with its votes, their entropy and the worth of its next vote, the most valuable first.

    Ties stay in the order of the votes.
    """
    import numpy as np
    from scipy.special import entr

    from dissensus.experiments.vote_budget import next_vote_values

    if data.counts is None:
        raise InputError("votes cannot be planned from shares", where=data.name, hint="Give the votes themselves")
    counts = data.counts.numpy()
    values, _ = next_vote_values(counts)
    votes, entropy = counts.sum(1), entr(counts / counts.sum(1, keepdims=True)).sum(1)
    order = np.argsort(-values, kind="stable").tolist()
    return [(data.ids[row], int(votes[row]), float(entropy[row]), float(values[row])) for row in order]


def _write_csv(ranked: Sequence[tuple[str, int, float, float]], path: Path) -> None:
    import csv
    import io

    rows = csv.writer(table := io.StringIO(), lineterminator="\n")
    rows.writerow(["item", "votes", "entropy", "variance_reduction"])
    rows.writerows((item, votes, f"{entropy:.4f}", f"{value:.6g}") for item, votes, entropy, value in ranked)
    write_text(path, table.getvalue())
