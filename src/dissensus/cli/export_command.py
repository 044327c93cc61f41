"""`export`: labels and votes in the form that another tool or a reader of a paper wants."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import keep_inputs, say, vote_options, votes_from, write_text
from dissensus.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from dissensus.votes.votes import Ints, Votes

NEEDS = {
    "delivery": ("delivered",), "epoch": ("delivered",), "every": ("delivered",), "seed": ("delivered",),
    "target": ("soft", "delivered"), "gold": ("soft", "delivered"),
    "salt": ("votes",), "mapping": ("votes",), "keep_names": ("votes",),
}  # fmt: skip
"""Which kinds of export an option belongs to."""


@click.command(
    epilog="""\b
Examples:
  dissensus export votes.csv soft.csv
  dissensus export votes.csv labels.jsonl --as majority
  dissensus export votes.csv epoch3.parquet --as delivered --delivery multipass --epoch 3
  dissensus export votes.csv public.csv --as votes --salt "any long secret"
  dissensus export votes.csv folder --as soft --target dirichlet     a folder for datasets.load_dataset
""",
)
@click.argument("votes_file", metavar="VOTES")
@click.argument("out", metavar="OUT")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["soft", "majority", "delivered", "votes"]),
    default="soft",
    show_default=True,
    help="A distribution per item; the majority class per item; the labels of one epoch; one row per vote.",
)
@click.option(
    "--target", help="soft, delivered: which distribution represents the votes on an item [default: empirical]."
)
@click.option(
    "--delivery",
    type=click.Choice(["soft", "sampled", "multipass"]),
    help="delivered: how it reaches the optimiser [default: multipass].",
)
@click.option("--epoch", type=click.IntRange(0), help="delivered: the epoch, from 0 [default: 0].")
@click.option("--every", type=click.IntRange(1), help="delivered: epochs for which `sampled` holds a label [default: 1].")
@click.option("--seed", type=int, help="delivered: seed of the labels [default: 0].")
@click.option("--gold", metavar="FILE", help="soft, delivered: gold labels, for the targets that need them.")
@click.option("--salt", metavar="TEXT", help="votes: key of the hash that renames annotators [default: random, printed].")
@click.option("--mapping", metavar="FILE", help="votes: write which annotator got which name (JSON); keep it secret.")
@click.option("--keep-names", is_flag=True, default=None, help="votes: keep the annotators' own names.")
@vote_options
def export(votes_file: str, out: str, kind: str, **options: Any) -> None:
    """Write the labels in VOTES to OUT: CSV, TSV, JSONL or Parquet by its extension, or a folder if it has none.

    A folder is one that `datasets.load_dataset` of Hugging Face reads (a Parquet file and a card with the class names).

    `--as votes` writes one row per vote. Annotators are renamed by a keyed hash: the same salt gives the same names, and
    without the salt nobody can test whether a person is in the data. The mapping is written only if you ask for it.
    """
    given = {name: options.pop(name) for name in NEEDS}
    for name, value in given.items():
        if value is not None and kind not in NEEDS[name]:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{flag} means nothing with --as {kind}",
                where=flag,
                hint=f"Leave it out, or export {' or '.join(NEEDS[name])}",
            )
    is_folder = Path(out).suffix == ""
    _check_out(out, votes_file, given)
    votes = votes_from(votes_file, options)
    if kind == "votes":
        _export_votes(votes, out, is_folder, given)
        return
    labels, about = _labels(votes, kind, given)
    if is_folder:
        _folder_of_labels(out, votes, labels, about)
    elif labels.ndim == 2:
        from dissensus.votes import write_predictions

        write_predictions(out, labels.numpy(), votes.classes, votes.items)
    else:
        from dissensus.votes import write_votes

        write_votes(_one_vote_each(votes, labels), out)
    click.echo(f"{about}: {len(votes):,} items × {len(votes.classes)} classes, written to {out}")


def _check_out(out: str, votes_file: str, given: dict[str, Any]) -> None:
    """Raise before any work is done."""
    path, mapping = Path(out), given["mapping"]
    keep_inputs(out, votes_file, given["gold"])
    if mapping is not None:
        keep_inputs(mapping, votes_file)
        if os.path.realpath(mapping) == os.path.realpath(out):
            raise InputError("the votes and the mapping would be one file", where=mapping, hint="Name another file")
    if path.suffix == "":
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError("this folder is not empty", where=out, hint="Name a new folder, or a file with an extension")
        return
    from dissensus.votes.files import kind_of

    if kind_of(out) in ("npy", "npz"):
        raise InputError("labels with names do not fit in NumPy files", where=out, hint="Write .csv, .jsonl or .parquet")


def _labels(votes: Votes, kind: str, given: dict[str, Any]) -> tuple[Tensor, str]:
    """Labels float64 [N, K] or int64 [N], and a sentence that says what they are."""
    import torch

    from dissensus.labels.own_loop import multipass, sampled, soft

    if kind == "majority":
        from dissensus.metrics import majority

        shares = torch.from_numpy(votes.soft.copy())
        ties = int(((shares == shares.max(1, keepdim=True).values).sum(1) > 1).sum())
        note = f" ({ties:,} ties went to the first class)" if ties else ""
        return majority(shares), f"majority{note}"
    target = given["target"] or "empirical"
    gold = None if given["gold"] is None else _gold(given["gold"], votes)
    delivery, epoch, seed = given["delivery"] or "multipass", given["epoch"] or 0, given["seed"] or 0
    if given["every"] is not None and delivery != "sampled":
        raise InputError("only `sampled` holds labels for several epochs", where="--every", hint="Leave it out")
    if kind == "soft" or delivery == "soft":  # the same in every epoch; in float64, whose decimals are those of the votes
        return soft(votes, target=target, gold=gold).target.probs, f"soft labels, target {target}"
    if delivery == "sampled":
        delivered = sampled(votes, target=target, gold=gold, seed=seed, every=given["every"] or 1)
    else:
        delivered = multipass(votes, target=target, gold=gold, seed=seed)
    return delivered(epoch), f"{delivery} labels of epoch {epoch}, target {target}, seed {seed}"


def _gold(path: str, votes: Votes) -> Ints:
    from dissensus.datasets.gold import gold_of
    from dissensus.votes.alignment import Items

    gold = gold_of(path, votes.classes, Items.of(votes))
    say(gold.notes)
    return gold.labels


def _one_vote_each(votes: Votes, labels: Tensor) -> Votes:
    """Hard labels are votes of one person per item."""
    import numpy as np

    from dissensus.votes.votes import Votes

    return Votes(np.arange(len(votes)), labels.numpy(), votes.items, votes.classes)


def _folder_of_labels(out: str, votes: Votes, labels: Tensor, about: str) -> None:
    import pyarrow as pa

    from dissensus.metrics import top_class
    from dissensus.votes.datasets_folder import write_datasets_folder

    columns = {"item": pa.array(votes.items, pa.string())}
    if labels.ndim == 2:
        columns["label"] = pa.array(top_class(labels).numpy())
        columns["soft_label"] = pa.array(labels.numpy().tolist(), pa.list_(pa.float64()))
    else:
        columns["label"] = pa.array(labels.numpy())
    write_datasets_folder(out, columns, votes.classes, about=f"Labels exported by dissensus: {about}.")


def _export_votes(votes: Votes, out: str, is_folder: bool, given: dict[str, Any]) -> None:
    import secrets

    from dissensus.votes import write_votes
    from dissensus.votes.anonymise import anonymise

    notes, keep = [], bool(given["keep_names"])
    if keep and (given["salt"] is not None or given["mapping"] is not None):
        raise InputError(
            "names cannot be both kept and changed", where="--keep-names", hint="Leave out --salt and --mapping"
        )
    if votes.annotator is None:
        if given["salt"] is not None or given["mapping"] is not None:
            raise InputError("these votes have no annotators to rename", where="--salt", hint="Leave it out")
        notes.append("It is not known who voted.")
    elif keep:
        notes.append("Annotators keep their own names.")
    else:
        if given["salt"] == "":
            raise InputError("an empty salt is no secret", where="--salt", hint="Leave it out for a random one")
        salt = given["salt"] or secrets.token_hex(16)  # secret, unlike every other random number here
        votes, mapping = anonymise(votes, salt)
        notes.append(f"{len(mapping):,} annotators were renamed by HMAC-SHA256.")
        if given["salt"] is None:
            notes.append(f"The salt is {salt}: keep it secret, and pass --salt to get the same names again.")
        if given["mapping"] is not None:
            write_text(given["mapping"], json.dumps(mapping, indent=1, ensure_ascii=False) + "\n")
            notes.append(f"Who is who is in {given['mapping']}: do not publish it.")
    if is_folder:
        _folder_of_votes(out, votes)
    else:
        write_votes(votes, out, "long")
    click.echo(f"{votes.n_votes:,} votes on {len(votes):,} items, written to {out}")
    for note in notes:
        click.echo(note)


def _folder_of_votes(out: str, votes: Votes) -> None:
    import numpy as np
    import pyarrow as pa

    from dissensus.votes.datasets_folder import write_datasets_folder

    columns = {"item": pa.array(np.array(votes.items, dtype=object)[votes.item], pa.string())}
    if votes.annotator is not None and votes.annotators is not None:
        names = np.array(votes.annotators, dtype=object)
        columns["annotator"] = pa.array(names[votes.annotator], pa.string())
    columns["label"] = pa.array(votes.label)
    write_datasets_folder(out, columns, votes.classes, about="Votes exported by dissensus, one row per vote.")
