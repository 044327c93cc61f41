"""`example`, `fit` and `predict`: from a table of votes to a model and its predictions."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import people_from, vote_options, writable_folder

if TYPE_CHECKING:
    from dissensus.datasets.data import Data
    from dissensus.estimator import VoteClassifier


@click.command(
    epilog="""\b
Example:
  dissensus example try
""",
)
@click.argument("folder", metavar="DIR")
def example(folder: str) -> None:
    """Write a small votes.csv, features.npy and gold.csv to DIR, and print the commands to try next."""
    import numpy as np

    from dissensus import datasets
    from dissensus.votes import write_votes

    items = 600
    target = writable_folder(folder)
    data = datasets.load("digits", votes=10)
    assert data.votes is not None
    assert data.x is not None
    assert data.gold is not None
    votes = data.votes.subset(np.arange(items))
    write_votes(votes, target / "votes.csv")
    np.save(target / "features.npy", data.x[:items].reshape(items, -1).numpy().astype(np.float32))
    gold = [f"{name},{data.classes[label]}" for name, label in zip(votes.items, data.gold[:items].tolist(), strict=True)]
    (target / "gold.csv").write_text("\n".join(["item,gold", *gold]) + "\n", encoding="utf-8")
    click.echo(
        f"""{target}/votes.csv     {len(votes):,} votes on {items} handwritten digits by a simulated crowd
{target}/features.npy  their 64 pixels, one row per item
{target}/gold.csv      the digits that were written

Next:
  dissensus inspect {target}/votes.csv
  dissensus fit {target}/votes.csv --features {target}/features.npy --out {target}/model
  dissensus predict {target}/model {target}/features.npy --out {target}/predictions.csv
  dissensus score {target}/predictions.csv {target}/votes.csv --gold {target}/gold.csv"""
    )


@click.command(
    epilog="""\b
Examples:
  dissensus fit votes.csv --features features.npy --out model
  dissensus fit votes.csv --features features.npy --delivery multipass --head linear --out model
  dissensus fit shares.csv --probs --features features.npy --delivery sampled --out model
""",
)
@click.argument("votes_file", metavar="VOTES")
@click.option(
    "--features", "features_file", required=True, metavar="FILE", help="npy, npz, CSV or Parquet, one row per item."
)
@click.option("--out", required=True, metavar="DIR", help="Folder for the model and its scores.")
@click.option("--probs", is_flag=True, help="VOTES holds the share of each class per item, not votes.")
@click.option("--gold", "gold_file", metavar="FILE", help="Gold labels, for accuracy, ECE and the target `gold`.")
@click.option("--head", type=click.Choice(["mlp", "linear"]), default="mlp", show_default=True)
@click.option(
    "--target",
    type=click.Choice(["empirical", "majority", "gold", "smoothed", "class_mean", "dirichlet", "dawid_skene"]),
    default="empirical",
    show_default=True,
    help="Which distribution represents the votes on an item.",
)
@click.option(
    "--delivery",
    type=click.Choice(["soft", "sampled", "multipass"]),
    default="soft",
    show_default=True,
    help="How that distribution is presented to the optimiser.",
)
@click.option("--epochs", default=60, show_default=True, type=click.IntRange(1))
@click.option("--batch", default=64, show_default=True, type=click.IntRange(1))
@click.option("--lr", default=1e-3, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--hidden", default=256, show_default=True, type=click.IntRange(1), help="Width of the MLP's hidden layer.")
@click.option("--seed", default=0, show_default=True)
@click.option("--device", help="cpu, cuda, … (default: a GPU if available).")
@vote_options
def fit(
    votes_file: str,
    features_file: str,
    out: str,
    probs: bool,
    gold_file: str | None,
    head: str,
    target: str,
    delivery: str,
    epochs: int,
    batch: int,
    lr: float,
    hidden: int,
    seed: int,
    device: str | None,
    **options: Any,
) -> None:
    """Train a classifier on VOTES and features, and score it on held-out items.

    A fifth of the items is held out; a model trained on the rest is scored on them, raw and after temperature scaling
    (cross-fitted on two halves). Then a model is trained on all items and saved to DIR, with a temperature if it helped.
    """
    from dissensus.estimator import VoteClassifier

    folder = writable_folder(out)
    data = _data(votes_file, features_file, probs, gold_file, options)
    settings: dict[str, Any] = {
        "head": head, "target": target, "delivery": delivery, "epochs": epochs, "batch": batch, "lr": lr,
        "hidden": hidden, "random_state": seed, "device": device,
    }  # fmt: skip
    model = VoteClassifier(**settings)
    scores = _fit_and_score(model, data)
    model.save(folder)
    (folder / "scores.json").write_text(json.dumps(scores, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    _print_fit(scores, model.temperature_)
    click.echo(f"\nSaved to {folder} (model.json, model.safetensors, scores.json). Next:")
    click.echo(f"  dissensus predict {folder} {features_file} --out predictions.csv")


def _data(votes_file: str, features_file: str, probs: bool, gold_file: str | None, options: dict[str, Any]) -> Data:
    from dataclasses import replace

    import torch

    from dissensus.datasets.gold import read_gold
    from dissensus.datasets.own_files import read_features
    from dissensus.votes.alignment import match_rows

    people = people_from(votes_file, probs, options)
    x, ids = read_features(features_file)
    rows = match_rows(people.ids, ids, len(x), path=features_file)
    gold = None if gold_file is None else torch.from_numpy(read_gold(gold_file, people.classes, people.ids))
    return replace(people, x=torch.from_numpy(x[rows]), gold=gold)


def _fit_and_score(model: VoteClassifier, data: Data) -> dict[str, Any]:
    """Fit the model with a progress bar; return its scores on held-out items."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    text = "training twice: without the held-out items, then with them"
    columns = (TextColumn(text), BarColumn(), TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn())
    assert data.x is not None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, loss=float("nan"))
        return model.fit_measured(
            data.x.numpy(),
            data.votes if data.votes is not None else data.people.numpy(),
            data.gold,
            classes=data.classes,
            progress=lambda done, total, loss: bar.update(task, completed=done, total=total, loss=loss),
        )


def _print_fit(scores: dict[str, Any], temperature: float) -> None:
    from rich.console import Console
    from rich.table import Table

    raw, tempered = scores["raw"], scores.get("tempered_votes", {})
    items = scores["items"]
    console = Console()
    console.print(
        f"Trained on {items['train']:,} items, scored on {items['held_out']:,} held-out items:", highlight=False
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("", "left"), ("raw", "right"), ("tempered", "right"), ("perfect model", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    best = {
        "soft_nll": ("soft_nll_expected", "soft_nll_floor"),
        "entropy_spearman": ("entropy_spearman_ceiling",),
    }
    for name in ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman"):
        at_best = next((raw[key] for key in best.get(name, ()) if raw.get(key) is not None), None)
        table.add_row(
            name, *(f"{value:.4f}" if value is not None else "–" for value in (raw[name], tempered.get(name), at_best))
        )
    console.print(table)
    console.print(
        "perfect model: an estimate of what the true distributions would score on so few votes (docs/metrics.md).",
        highlight=False,
    )
    if raw["gold"] == "majority":
        console.print(
            "Accuracy and ECE are against the majority vote, because no gold labels were given.", highlight=False
        )
    if not tempered:
        sentence = "No temperature could be fitted: only one item was held out, and two are needed."
    elif temperature == 1:
        sentence = "The temperature is not used: it did not help."
    else:
        sentence = f"The temperature is used: T = {temperature:.3f}."
    console.print(f"{sentence} All scores are in scores.json.", highlight=False)


@click.command(
    epilog="""\b
Examples:
  dissensus predict model features.npy
  dissensus predict model features.npy --out predictions.csv
  dissensus predict model features.npy --out predictions.npy
""",
)
@click.argument("folder", metavar="DIR")
@click.argument("features_file", metavar="FEATURES")
@click.option("--out", metavar="FILE", help="npy, CSV or Parquet file (default: print CSV).")
def predict(folder: str, features_file: str, out: str | None) -> None:
    """Predict the class probabilities of the items of FEATURES with the model in DIR, one column per class."""
    from dissensus.datasets.own_files import read_features
    from dissensus.estimator import VoteClassifier
    from dissensus.votes import write_predictions

    model = VoteClassifier.load(folder)
    x, ids = read_features(features_file)
    probs = model.predict_proba(x)
    classes = tuple(model.classes_.tolist())
    if out is None:
        write_predictions(sys.stdout.buffer, probs, classes, ids)
    else:
        write_predictions(Path(out), probs, classes, ids)
        click.echo(f"{len(probs):,} items × {len(classes)} classes written to {out}")
