"""`embed`: turn texts or images into frozen features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dissensus.cli.inputs import keep_inputs, writable_folder
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dissensus.datasets.feature_files import Contents, Features


@click.command(
    epilog="""\b
Encoders:
  minilm                           sentences, 384 numbers; weights come with a Python package
  efficientnet-lite0               images, 1,280 numbers; weights come with a Python package
  openai:text-embedding-3-large    a web service; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server
  st:NAME                          any sentence-transformers model
  hf:NAME                          any Hugging Face image model, such as hf:facebook/dinov2-small
A name may end in @SIZE (images are resized to SIZE × SIZE pixels) or +joint (a pair is encoded as one text; by
default its parts are encoded as u and v, and the features are [u, v, |u−v|, u∘v]).

\b
Examples:
  dissensus embed chaosnli minilm
  dissensus embed cifar10h_hard efficientnet-lite0 --option seed=1
  dissensus embed votes.csv minilm --text comment --out features.npz
  dissensus fit votes.csv --features features.npz --out model
""",
)
@click.argument("source")
@click.argument("encoder")
@click.option("--out", metavar="FILE", help="The .npz file to write; required if SOURCE is a file.")
@click.option("--text", default="text", show_default=True, metavar="COLUMN", help="Column with the texts.")
@click.option("--pair", metavar="COLUMN", help="Column with the second text of each pair.")
@click.option("--item", metavar="COLUMN", help="Column with the item id (default: found by name).")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="Option of the data set, such as seed=1.")
@click.option("--batch", type=click.IntRange(1), help="Items per batch (default: depends on the encoder).")
def embed(
    source: str,
    encoder: str,
    out: str | None,
    text: str,
    pair: str | None,
    item: str | None,
    options: tuple[str, ...],
    batch: int | None,
) -> None:
    """Turn texts or images into frozen features, with an ENCODER.

    SOURCE is a data set's name, a table with texts (CSV, TSV, JSONL, Parquet) or an array of images (npy, npz). The
    features of a data set are loaded by name afterwards: load("chaosnli", features="minilm").

    Items that were encoded before are not encoded again, so an interrupted command resumes where it stopped.
    """
    from dissensus import datasets
    from dissensus.datasets import feature_files as store
    from dissensus.models.encoders.sources import read_contents

    if source in datasets.DATASETS:
        data = datasets.load(source, **dict(map(_option, options)))
        ids, contents = data.ids, store.contents_of(data)
    else:
        if out is None:
            known = ", ".join(datasets.DATASETS)
            hint = f"Pass --out features.npz; if you meant a data set, choose one of: {known}"
            raise InputError("a file needs --out, the file for its features", where=source, hint=hint)
        ids, contents = read_contents(source, item=item, text=text, second=pair)
    if out is None:
        store.writable_home()  # refused before any work
    else:
        writable_folder(str(Path(out).parent))
        keep_inputs(out, source)
        if Path(out).suffix != ".npz":
            raise InputError(
                "features and their ids are written as .npz", where=out, hint="Choose a name that ends in .npz"
            )
    features = _encoded(source, ids, contents, encoder, batch)
    if out is None:
        path = store.store(features, source, encoder)
    else:
        store.write(features, path := Path(out))
    click.echo(f"{len(features.ids):,} items. {features.sentence}\nSaved to {path}.")


def digest_with_features(name: str, options: Iterable[tuple[str, Any]] = ()) -> str:
    """The digest of a data set. Features that it asks for by the name of an encoder are made first, if there are none."""
    from dissensus import datasets
    from dissensus.datasets import feature_files as store

    chosen = dict(options)
    encoder = chosen.pop("features", None)
    if encoder is not None:
        data = datasets.load(name, **chosen)
        file = store.file_name(data.name, encoder)  # of a kept set, each has its own
        if not any((home / file).is_file() for home in store.homes(chosen.get("root"))):
            store.writable_home()
            click.echo(f"{name} has no features by {encoder} yet: encoding {len(data):,} items.", err=True)
            store.store(_encoded(name, data.ids, store.contents_of(data), encoder, None), name, encoder)
    return datasets.digest_of(name, options)


def _encoded(source: str, ids: Sequence[str], contents: Contents, encoder: str, batch: int | None) -> Features:
    from dissensus.cli.progress import counted_items
    from dissensus.models import encoders

    with counted_items(f"{source} by {encoder}") as progress:
        return encoders.encode(ids, contents, encoder, batch=batch, progress=progress)


def _option(text: str) -> tuple[str, Any]:
    """Split `seed=1` into a name and a value: an integer, true or false, or else text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"{text!r} is not an option", where="--option", hint="Write NAME=VALUE")
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if value.lstrip("-").isdigit() else value
