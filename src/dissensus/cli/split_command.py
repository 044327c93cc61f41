"""`split`: which items train, which validate, which test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import keep_inputs, vote_options, votes_from, writable_folder, write_text
from dissensus.cli.parameters import FiniteRange

if TYPE_CHECKING:
    from dissensus.training.item_split import ItemSplit
    from dissensus.votes.votes import Ints, Votes


@click.command(
    epilog="""\b
Examples:
  dissensus split votes.csv --out parts
  dissensus split votes.csv --out parts --by disagreement --test 0.3 --validation 0
  dissensus split votes.csv --out parts --group author --seed 1
""",
)
@click.argument("votes_file", metavar="VOTES")
@click.option(
    "--out", required=True, metavar="DIR", help="Folder for train.csv, validation.csv, test.csv and split.json."
)
@click.option(
    "--by",
    type=click.Choice(["majority", "disagreement"]),
    default="majority",
    show_default=True,
    help="What all parts shall have alike: the majority classes, or the disagreement.",
)
@click.option("--test", default=0.2, show_default=True, type=FiniteRange(0, 1, max_open=True))
@click.option("--validation", default=0.1, show_default=True, type=FiniteRange(0, 1, max_open=True))
@click.option("--group", metavar="COLUMN", help="Column of VOTES: items with the same value stay together.")
@click.option("--seed", default=0, show_default=True)
@vote_options
def split(
    votes_file: str,
    out: str,
    by: str,
    test: float,
    validation: float,
    group: str | None,
    seed: int,
    **options: Any,
) -> None:
    """Split the items of VOTES into a training, a validation and a test part, and write their ids.

    --test and --validation are shares of all items. The parts have the same share of each majority class (or of each
    level of disagreement). Without gold labels, the test part is the one that `dissensus fit` holds out at the same seed.
    With --group, groups stay whole, so the shares are met only roughly.
    """
    from dissensus.training.item_split import split_items

    folder = writable_folder(out)
    for name in ("train.csv", "validation.csv", "test.csv", "split.json"):
        keep_inputs(folder / name, votes_file)
    votes = votes_from(votes_file, options)
    groups = None if group is None else _groups(votes_file, group, votes, options)
    parts = split_items(votes, by=by, test=test, validation=validation, seed=seed, groups=groups)  # type: ignore[arg-type]
    for name, rows in parts._asdict().items():
        _write_ids(folder / f"{name}.csv", [votes.items[row] for row in rows.tolist()])
    balance = _balance(votes, parts, groups)
    about = {
        "votes": votes_file, "by": by, "test": test, "validation": validation, "group": group, "seed": seed,
        "parts": balance,
    }  # fmt: skip
    write_text(folder / "split.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    _print_balance(balance, list(votes.classes))
    click.echo(f"\nIds are in {folder}/train.csv, validation.csv and test.csv; settings and balance in split.json.")


def _groups(path: str, column: str, votes: Votes, options: dict[str, Any]) -> Ints:
    """The group of each item, int64 [N]."""
    import numpy as np

    from dissensus.errors import InputError
    from dissensus.votes.cells import encode
    from dissensus.votes.roles import column_error, find
    from dissensus.votes.tables import open_table

    table = open_table(path)
    item_column = find(table, "item", options["items"])
    if item_column is None or column not in table.names:
        missing = (
            f"there is no column {column!r}" if column not in table.names else "no column is known to hold the items"
        )
        raise column_error(table, missing, "Name a column of VOTES with --group, and that of the items with --items")
    (item, items), (group, _) = (encode(values, f"{path}, column") for values in table.columns([item_column, column]))
    if (empty := (item < 0) | (group < 0)).any():
        where = table.where(int(np.argmax(empty)))
        raise InputError(f"column {column!r} is empty", where=where, hint="Fill in the cell, or drop the row")
    first = np.full(len(items), -1)
    first[item[::-1]] = group[::-1]
    if (torn := first[item] != group).any():
        row = int(np.argmax(torn))
        raise InputError(f"item {items[item[row]]!r} is in two groups", where=table.where(row), hint="Correct the rows")
    group_of = dict(zip(items, first.tolist(), strict=True))
    absent = [name for name in votes.items if name not in group_of]
    if absent:
        raise InputError(
            f"item {absent[0]!r} has no group", where=path, hint="Read the votes from a long table", state=""
        )
    return np.array([group_of[name] for name in votes.items])


def _write_ids(path: Any, ids: list[str]) -> None:
    import csv
    import io

    writer = csv.writer(table := io.StringIO(), lineterminator="\n")
    writer.writerow(["item"])
    writer.writerows([name] for name in ids)
    write_text(path, table.getvalue())


def _balance(votes: Votes, parts: ItemSplit, groups: Ints | None) -> dict[str, dict[str, Any]]:
    """What each part is made of."""
    import numpy as np

    balance = {}
    for name, rows in parts._asdict().items():
        part: dict[str, Any] = {"items": len(rows)}
        if len(rows):
            chosen = votes.subset(rows.numpy())
            top = np.bincount(chosen.counts.argmax(1), minlength=len(votes.classes))
            entropies = -(chosen.soft * np.log(np.where(chosen.soft > 0, chosen.soft, 1))).sum(1)
            part |= {
                "votes": chosen.n_votes,
                "majority": dict(zip(votes.classes, top.tolist(), strict=True)),
                "unanimous_items": int((chosen.counts.max(1) == chosen.votes_per_item).sum()),
                "mean_entropy": float(entropies.mean()) + 0.0,
            }
            if groups is not None:
                part["groups"] = len(np.unique(groups[rows.numpy()]))
        balance[name] = part
    return balance


def _print_balance(balance: dict[str, dict[str, Any]], classes: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = {name: part for name, part in balance.items() if part["items"]}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in shown:
        table.add_column(name, justify="right")
    table.add_row("items", *(f"{part['items']:,}" for part in shown.values()))
    if "groups" in balance["train"]:
        table.add_row("groups", *(f"{part['groups']:,}" for part in shown.values()))
    table.add_row("votes", *(f"{part['votes']:,}" for part in shown.values()))
    table.add_row("mean entropy", *(f"{part['mean_entropy']:.4f}" for part in shown.values()))
    table.add_row("unanimous", *(f"{part['unanimous_items'] / part['items']:.1%}" for part in shown.values()))
    for label in classes[:20]:
        table.add_row(f"majority {label}", *(f"{part['majority'][label] / part['items']:.1%}" for part in shown.values()))
    if len(classes) > 20:
        table.add_row(f"{len(classes) - 20} more classes", *("" for _ in shown))
    Console().print(table)
