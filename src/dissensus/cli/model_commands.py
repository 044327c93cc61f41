"""`example`, `fit` and `predict`: from a table of votes to a model and its predictions."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.feature_origin import check_made_alike, in_order_learnt, read_origin, reads_of, write_origin
from dissensus.cli.feature_sources import Source, features_for, features_of_new, source_options
from dissensus.cli.inputs import (
    items_of,
    keep_inputs,
    match_options,
    people_from,
    read_as_json,
    rows_to_hold_out,
    say,
    vote_options,
    writable_folder,
)
from dissensus.cli.parameters import FiniteRange
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dissensus.datasets.data import Data
    from dissensus.estimator import VoteClassifier

CARD = "README.md"
"""The model card in a model folder."""


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
    from dissensus.store.atomic_files import write_whole
    from dissensus.votes import write_votes

    items = 600
    target = writable_folder(folder)
    data = datasets.load("digits", votes=10)
    assert data.votes is not None
    assert data.x is not None
    assert data.gold is not None
    votes = data.votes.subset(np.arange(items))
    gold = [f"{name},{data.classes[label]}" for name, label in zip(votes.items, data.gold[:items].tolist(), strict=True)]
    with TemporaryDirectory() as made_in:
        made = Path(made_in)
        write_votes(votes, made / "votes.csv")
        np.save(made / "features.npy", data.x[:items].reshape(items, -1).numpy().astype(np.float32))
        (made / "gold.csv").write_text("\n".join(["item,gold", *gold]) + "\n", encoding="utf-8", newline="\n")
        files = {file.name: file.read_bytes() for file in made.iterdir()}
    for name, content in files.items():  # before any is written; the example itself may be written again
        if (target / name).exists() and (target / name).read_bytes() != content:
            raise InputError(f"there is another {name} here", where=folder, hint="Name a new folder")
    for name, content in files.items():
        write_whole(target / name, content)
    click.echo(
        f"""{target}/votes.csv     {votes.n_votes:,} votes on {items} handwritten digits by a simulated crowd
{target}/features.npy  their 64 pixels, one row per item
{target}/gold.csv      the digits that were written

Next:
  dissensus inspect {target}/votes.csv
  dissensus compare {target}/votes.csv --features {target}/features.npy --out {target}/comparison
  dissensus fit {target}/votes.csv --features {target}/features.npy --out {target}/model
  dissensus predict {target}/model {target}/features.npy --out {target}/predictions.csv
  dissensus score {target}/predictions.csv {target}/votes.csv --gold {target}/gold.csv"""
    )


@click.command(
    epilog="""\b
Examples:
  dissensus fit votes.csv --features features.npy --out model
  dissensus fit labels.json --texts texts.csv --out model                texts are encoded by minilm
  dissensus fit votes.csv --images pictures/ --out model
  dissensus fit votes.csv --features features.npy --delivery multipass --head linear --out model
  dissensus fit shares.csv --probs --features features.npy --delivery sampled --out model
""",
)
@click.argument("votes_file", metavar="VOTES")
@source_options
@click.option("--out", required=True, metavar="DIR", help="Folder for the model and its scores.")
@click.option("--probs", is_flag=True, help="VOTES holds the share of each class per item, not votes.")
@click.option("--gold", "gold_file", metavar="FILE", help="Gold labels, for accuracy, ECE and the target `gold`.")
@click.option(
    "--head",
    type=click.Choice(["auto", "linear", "mlp"]),
    default="auto",
    show_default=True,
    help="auto: linear models and MLPs, whichever fit items left out best, pooled.",
)
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
@click.option("--epochs", type=click.IntRange(1), help="Of MLPs (default: chosen on items left out).")
@click.option("--lr", type=FiniteRange(0, min_open=True), help="Learning rate of MLPs (default: 0.001).")
@click.option("--dropout", type=FiniteRange(0, 1, max_open=True), help="Of MLPs (default: chosen).")
@click.option("--weight-decay", type=FiniteRange(0), help="Of MLPs, or the penalty of --head linear (default: chosen).")
@click.option("--hidden", type=click.IntRange(1), help="Width of the MLPs' hidden layer (default: 128).")
@click.option("--batch", default=64, show_default=True, type=click.IntRange(1), help="Items per step of MLPs.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@match_options
@vote_options
def fit(
    votes_file: str,
    features_file: str | None,
    texts: str | None,
    pair: str | None,
    images: str | None,
    encoder: str | None,
    out: str,
    probs: bool,
    gold_file: str | None,
    test_ids: str | None,
    seed: int,
    as_json: bool,
    head: str,
    target: str,
    delivery: str,
    epochs: int | None,
    lr: float | None,
    dropout: float | None,
    weight_decay: float | None,
    hidden: int | None,
    batch: int,
    **options: Any,
) -> None:
    """Train a classifier on VOTES and features, and score it on held-out items beside the baselines.

    Features come from a file (--features), or an encoder makes them from texts or images. The model folder says which
    encoder, so that `predict` encodes new items alike.

    By default, linear models and small MLPs are tried and judged on items left out; those that help are pooled. A model
    made in this way without a fifth of the items (or those of --test-ids) is scored on them, beside logistic regression
    on votes, logistic regression on majorities and the class prior. Then a model is made from all items and saved to DIR,
    with a model card (README.md).
    """
    import dissensus
    from dissensus.estimator import VoteClassifier
    from dissensus.estimator.model_card import model_card
    from dissensus.store.atomic_files import write_whole

    folder = writable_folder(out)
    _keep_what_is_no_model(folder)
    source = Source(features_file, texts, pair, images, encoder)
    data, origin = _data(votes_file, source, probs, gold_file, options)
    settings: dict[str, Any] = {
        "head": head, "target": target, "delivery": delivery, "epochs": epochs, "lr": lr, "dropout": dropout,
        "weight_decay": weight_decay, "hidden": hidden, "batch": batch, "random_state": seed,
    }  # fmt: skip
    rows = rows_to_hold_out(data, test_ids)
    held_out = 0.2 if rows is None else rows.tolist()
    model = VoteClassifier(**settings)
    scores = _fit_and_score(model, data, held_out)
    scores["read_as"] = read_as_json(data.votes)
    model.save(folder)
    write_origin(folder, origin)
    write_whole(folder / "scores.json", (json.dumps(scores, indent=1, allow_nan=False) + "\n").encode())
    write_whole(folder / CARD, model_card(data, str(source), scores, dissensus.__version__).encode())
    if as_json:
        click.echo(json.dumps(scores, indent=1, allow_nan=False))
    else:
        _print_fit(scores)
        click.echo(f"\nSaved to {folder} (model.json, model.safetensors, features.json, scores.json, {CARD}). Next:")
        new = {"texts": "--texts NEW.csv", "images": "--images NEW"}.get(reads_of(origin) or "")
        new = new or shlex.quote(features_file or "FEATURES")
        click.echo(f"  dissensus predict {shlex.quote(str(folder))} {new} --out predictions.csv")
    for warning in scores["warnings"]:
        click.secho(f"\nWARNING: {warning}", fg="red", bold=True, err=True)


def _data(
    votes_file: str, source: Source, probs: bool, gold_file: str | None, options: dict[str, Any]
) -> tuple[Data, Mapping[str, Any]]:
    """Votes and features, and how the features were made."""
    from dataclasses import replace

    import torch

    from dissensus.datasets.gold import gold_of

    people, gold = people_from(votes_file, probs, options), None
    if gold_file is not None:
        read = gold_of(gold_file, people.classes, items_of(people), by_order=options["by_order"])
        say(read.notes)
        gold = torch.from_numpy(read.labels)
    features = features_for(people, source, votes_file, options)
    named = {} if features.columns is None else {"columns": list(features.columns)}
    return replace(people, x=torch.from_numpy(features.x), gold=gold), {**features.provenance, **named}


def _fit_and_score(model: VoteClassifier, data: Data, held_out: float | list[int]) -> dict[str, Any]:
    """Fit the model and show how far it is; return its scores on held-out items."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    assert data.x is not None
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0)
        lines = _ProgressLines()

        def progress(share: float, doing: str) -> None:
            bar.update(task, completed=share, description=doing)
            if not console.is_terminal:
                lines(share, doing)

        return model.fit_measured(
            data.x.numpy(),
            data.votes if data.votes is not None else data.people.numpy(),
            data.gold,
            classes=data.classes,
            held_out=held_out,
            progress=progress,
        )


class _ProgressLines:
    """Where there is no terminal: a line on stderr when something else begins, at most one every few seconds."""

    def __init__(self, every: float = 5.0) -> None:
        self._every, self._printed_at, self._doing = every, time.monotonic(), ""

    def __call__(self, share: float, doing: str) -> None:
        now = time.monotonic()
        if now - self._printed_at >= self._every and doing != self._doing:
            self._printed_at, self._doing = now, doing
            click.echo(f"{share:4.0%}  {doing}", err=True)


def _keep_what_is_no_model(folder: Path) -> None:
    """Refuse to write a model card over the README of something else; a model may be trained anew in its folder."""
    from dissensus.estimator.model_folder import ABOUT

    if (folder / CARD).exists() and not (folder / ABOUT).exists():
        raise InputError(
            f"there is a {CARD} in it, and no model", where=str(folder), hint="Name a new folder for the model"
        )


def _print_fit(scores: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from dissensus.estimator.model_card import COLUMNS, score_rows

    items, console = scores["items"], Console()

    def echo(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    echo(f"Trained on {items['train']:,} items, scored on {items['held_out']:,} held-out items:")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for column in (*COLUMNS, "tempered"):
        table.add_column(column, justify="right")
    for name, values in score_rows(scores).items():
        cells = ["–" if value is None else f"{value:.4f}" for value in values]
        table.add_row(name, *cells, style="bold" if name == "this model" else "")
    console.print(table)
    echo("logistic: logistic regression with a tuned penalty, on all votes or on the majority alone.")
    echo("tempered: soft_nll after one temperature, fitted to half of the held-out items and judged on the other.")
    echo("perfect model: an estimate of what the true distributions would score on so few votes (docs/metrics.md).")
    if scores["raw"]["gold"] == "majority":
        echo("Accuracy and ECE are against the majority vote, because no gold labels were given.")
    parts = [f"{part['weight']:.0%} {part['name']}" for part in scores["chosen"] if part["weight"] > 0]
    temperature = "" if scores["temperature"] == 1 else f"; temperature {scores['temperature']:.3f}"
    everything = items["train"] + items["held_out"]
    echo(f"The saved model, trained on all {everything:,} items: {'; '.join(parts)}{temperature}.")


@click.command(
    epilog="""\b
Examples:
  dissensus predict model features.npy
  dissensus predict model features.npy --out predictions.csv
  dissensus predict model --texts new.csv --out predictions.csv     encoded as the model's own items were
  dissensus predict model --images pictures/ --out predictions.csv
""",
)
@click.argument("folder", metavar="DIR")
@click.argument("features_file", metavar="[FEATURES]", required=False)
@click.option("--texts", metavar="FILE", help="Instead of FEATURES: a table of texts.")
@click.option("--pair", metavar="COLUMN", help="With --texts: the column of the second text of each pair.")
@click.option("--images", metavar="DIR|FILE", help="Instead of FEATURES: a folder of pictures, or npy/npz of images.")
@click.option("--encoder", metavar="NAME", help="As in `embed` (default: the one that the model knows).")
@click.option("--out", metavar="FILE", help="npy, CSV or Parquet file (default: print CSV).")
def predict(
    folder: str,
    features_file: str | None,
    texts: str | None,
    pair: str | None,
    images: str | None,
    encoder: str | None,
    out: str | None,
) -> None:
    """Predict the class probabilities of new items with the model in DIR, one column per class.

    The items come as FEATURES, or as --texts or --images, which are encoded in the same way as those that the model was
    trained on. Columns of FEATURES are matched by name to those of training, where both files name them.
    """
    from dissensus.datasets.own_files import read_feature_matrix
    from dissensus.estimator import VoteClassifier
    from dissensus.votes import write_predictions

    if (features_file, texts, images).count(None) != 2:
        none = features_file is None and texts is None and images is None
        what = "there are no items to predict" if none else "several sources of items are given"
        hint = "Give FEATURES, --texts FILE or --images DIR"
        raise InputError(f"{what}, and one source is needed", where="predict", hint=hint)
    if features_file is not None and (pair or encoder):
        raise InputError("features are not encoded again", where="predict", hint="Leave out --pair and --encoder")
    if out is not None:
        keep_inputs(out, features_file, texts, images)
    model = VoteClassifier.load(folder)
    ids: tuple[str, ...] | None
    if features_file is not None:
        read = read_feature_matrix(features_file)
        say(read.notes)
        x, ids = in_order_learnt(read, read_origin(Path(folder))), read.ids
    else:
        x, ids = _encoded_alike(Path(folder), texts, pair, images, encoder)
    probs = model.predict_proba(x)
    classes = tuple(model.classes_.tolist())
    if out is None:
        write_predictions(sys.stdout.buffer, probs, classes, ids)
    else:
        write_predictions(Path(out), probs, classes, ids)
        click.echo(f"{len(probs):,} items × {len(classes)} classes written to {out}")


def _encoded_alike(
    folder: Path, texts: str | None, pair: str | None, images: str | None, encoder: str | None
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Features and ids of new items, made as those of the model in the folder were, or refused."""
    origin = read_origin(folder)
    name = encoder or origin.get("encoder")
    if name is None:
        problem = "this model was trained on features that no encoder of dissensus made"
        raise InputError(problem, where=str(folder), hint="Give their FEATURES, or the --encoder that made them")
    features = features_of_new(Source(None, texts, pair, images, name))
    if "encoder" in origin:
        check_made_alike(origin, features.provenance, folder)
    else:
        say([f"{folder} does not say how its features were made: you answer for {name}"])
    return features.x, features.ids
