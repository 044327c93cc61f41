"""`example`, `fit` and `predict`: the practitioner's first ten minutes."""

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
    """Write a small votes.csv, features.npy and gold.csv to DIR, and say what to type next."""
    import numpy as np

    from dissensus import datasets
    from dissensus.votes import write_votes

    items = 600
    place = writable_folder(folder)
    data = datasets.load("digits", votes=10)
    assert data.votes is not None
    assert data.x is not None
    assert data.gold is not None
    votes = data.votes.subset(np.arange(items))
    write_votes(votes, place / "votes.csv")
    np.save(place / "features.npy", data.x[:items].reshape(items, -1).numpy().astype(np.float32))
    gold = [f"{name},{data.classes[label]}" for name, label in zip(votes.items, data.gold[:items].tolist(), strict=True)]
    (place / "gold.csv").write_text("\n".join(["item,gold", *gold]) + "\n", encoding="utf-8")
    click.echo(
        f"""{place}/votes.csv     {len(votes):,} votes on {items} handwritten digits by a simulated crowd
{place}/features.npy  their 64 pixels, one row an item
{place}/gold.csv      the digits that were meant

Next:
  dissensus inspect {place}/votes.csv
  dissensus fit {place}/votes.csv --features {place}/features.npy --out {place}/model
  dissensus predict {place}/model {place}/features.npy --out {place}/predictions.csv
  dissensus score {place}/predictions.csv {place}/votes.csv --gold {place}/gold.csv"""
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
    "--features", "features_file", required=True, metavar="FILE", help="npy, npz, CSV or Parquet, one row an item."
)
@click.option("--out", required=True, metavar="DIR", help="Where the model and its scores go.")
@click.option("--probs", is_flag=True, help="VOTES holds the share of each class, not votes.")
@click.option("--gold", "gold_file", metavar="FILE", help="Gold labels, for the hard metrics and the target `gold`.")
@click.option("--head", type=click.Choice(["mlp", "linear"]), default="mlp", show_default=True)
@click.option(
    "--target",
    type=click.Choice(["empirical", "majority", "gold", "smoothed", "class_mean", "dirichlet", "dawid_skene"]),
    default="empirical",
    show_default=True,
    help="Which distribution an item stands for.",
)
@click.option(
    "--delivery",
    type=click.Choice(["soft", "sampled", "multipass"]),
    default="soft",
    show_default=True,
    help="How it reaches the optimiser.",
)
@click.option("--epochs", default=60, show_default=True, type=click.IntRange(1))
@click.option("--batch", default=64, show_default=True, type=click.IntRange(1))
@click.option("--lr", default=1e-3, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--hidden", default=256, show_default=True, type=click.IntRange(1), help="Width of the MLP's hidden layer.")
@click.option("--seed", default=0, show_default=True)
@click.option("--device", help="cpu, cuda, … (default: a GPU if there is one).")
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
    """Train a classifier on VOTES and features, and measure it honestly.

    A fifth of the items is held out; the model trained on the rest is scored on it, raw and after one temperature
    (cross-fitted on halves). Then a model is trained on all items and saved to DIR, with the temperature if it helped.
    """
    from dissensus.estimator import VoteClassifier

    folder = writable_folder(out)
    data = _data(votes_file, features_file, probs, gold_file, options)
    settings: dict[str, Any] = {
        "head": head, "target": target, "delivery": delivery, "epochs": epochs, "batch": batch, "lr": lr,
        "hidden": hidden, "random_state": seed, "device": device,
    }  # fmt: skip
    scores, temperature = _measured(VoteClassifier(**settings), data, seed)
    model = _fitted(VoteClassifier(**settings), data, "training on all items")
    helps = scores["tempered_votes"]["soft_nll"] < scores["raw"]["soft_nll"]
    model.temperature_ = temperature if helps else 1.0
    model.save(folder)
    (folder / "scores.json").write_text(json.dumps(scores, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    _print_fit(scores, model, helps)
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


def _measured(model: VoteClassifier, data: Data, seed: int) -> tuple[dict[str, Any], float]:
    """Scores on a fifth of the items that the model never saw, and the temperature that fits all of them."""
    from dissensus.engine import judging
    from dissensus.metrics import temperature as calibrate
    from dissensus.training.splits import Holdout

    train, held = Holdout(0.2).split(data.labels, seed)
    assert data.x is not None
    trained = _fitted(model, _rows(data, train), f"training on {len(train):,} items")
    predictions = trained.predictions(data.x[held].numpy())
    scores, _ = judging.judge(predictions, data, held, seed)
    scores["items"] = {"train": len(train), "held_out": len(held)}
    return scores, calibrate.fit_temperature(predictions.logits, data.people[held]).value


def _rows(data: Data, rows: Any) -> Data:
    from dissensus.datasets.data import Data

    return Data(
        name=data.name,
        classes=data.classes,
        ids=tuple(data.ids[row] for row in rows.tolist()),
        x=None if data.x is None else data.x[rows],
        votes=None if data.votes is None else data.votes.subset(rows.numpy()),
        probs=None if data.probs is None else data.probs[rows],
        gold=None if data.gold is None else data.gold[rows],
    )


def _fitted(model: VoteClassifier, data: Data, what: str) -> VoteClassifier:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn())
    assert data.x is not None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=model.epochs, loss=float("nan"))
        people = data.votes if data.votes is not None else data.people.numpy()
        model.fit(
            data.x.numpy(),
            people,
            data.gold,
            progress=lambda done, of, loss: bar.update(task, completed=done, total=of, loss=loss),
        )
    return model


def _print_fit(scores: dict[str, Any], model: VoteClassifier, helps: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    raw, tempered = scores["raw"], scores["tempered_votes"]
    items = scores["items"]
    console = Console()
    console.print(
        f"Trained on {items['train']:,} items, scored on {items['held_out']:,} held-out items:", highlight=False
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("", "left"), ("raw", "right"), ("tempered", "right"), ("at best", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    best = {
        "soft_nll": ("soft_nll_expected", "soft_nll_floor"),
        "entropy_spearman": ("entropy_spearman_ceiling",),
    }
    for name in ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman"):
        at_best = next((raw[key] for key in best.get(name, ()) if raw.get(key) is not None), None)
        table.add_row(
            name, *(f"{value:.4f}" if value is not None else "–" for value in (raw[name], tempered[name], at_best))
        )
    console.print(table)
    if raw["gold"] == "majority":
        console.print("accuracy and ECE are against the majority: no gold labels were given.", highlight=False)
    used = f"used: T = {model.temperature_:.3f}" if helps else "not used: it did not help"
    console.print(f"The temperature is {used}. All scores are in scores.json.", highlight=False)


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
@click.option("--out", metavar="FILE", help="npy, CSV or Parquet; without, CSV goes to the screen.")
def predict(folder: str, features_file: str, out: str | None) -> None:
    """The probabilities that the model in DIR gives the items of FEATURES, one column a class."""
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
