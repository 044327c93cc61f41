"""The user's votes and features, for commands that study them: read, encoded where needed, and kept under a name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dissensus.cli.inputs import items_of, match_options, people_from, rows_to_hold_out, say, vote_options
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dissensus.datasets.data import Data
    from dissensus.datasets.feature_files import Contents, Features
    from dissensus.datasets.kept_sets import KeptSet
    from dissensus.votes.votes import Ints

Command = TypeVar("Command", bound=Callable[..., Any])

FEATURES = "features.npz"
"""What texts or images become, in the output folder."""

_INPUTS = (
    click.option("--features", "features_file", metavar="FILE", help="npy, npz, CSV or Parquet, one row per item."),
    click.option(
        "--texts", metavar="COLUMN|FILE", help="Instead of features: a text column of VOTES, or a table of texts."
    ),
    click.option("--pair", metavar="COLUMN", help="With --texts: the column of the second text of each pair."),
    click.option("--images", metavar="DIR|FILE", help="Instead of features: a folder of pictures, or npy/npz of images."),
    click.option(
        "--encoder", metavar="NAME", help="For texts or images, as in `embed` (default: minilm, efficientnet-lite0)."
    ),
    click.option("--probs", is_flag=True, help="VOTES holds the share of each class per item, not votes."),
    click.option("--gold", "gold_file", metavar="FILE", help="Gold labels, for accuracy, ECE and the target `gold`."),
)


def own_data_options(command: Command) -> Command:
    """Add VOTES, its reading options and the sources of features to a command; `own_data` takes their values."""
    for option in reversed(_INPUTS):
        command = option(command)
    return click.argument("votes_file", metavar="VOTES")(match_options(vote_options(command)))


@dataclass(frozen=True)
class OwnData:
    """What the user brought: `kept` is how specs name it, `fit_start` how `dissensus fit` would read the same."""

    data: Data
    kept: KeptSet
    notes: tuple[str, ...]
    fit_start: str


def own_data(
    folder: Path,
    *,
    votes_file: str,
    features_file: str | None,
    texts: str | None,
    pair: str | None,
    images: str | None,
    encoder: str | None,
    probs: bool,
    gold_file: str | None,
    **options: Any,
) -> OwnData:
    """Read everything, encode texts or images (what was encoded before is not encoded again), and keep it all."""
    import numpy as np
    import torch

    from dissensus.datasets import feature_files, kept_sets
    from dissensus.datasets.feature_files import Features
    from dissensus.datasets.gold import gold_of

    _check_one_source(features_file, texts, images, encoder, pair)
    people = people_from(votes_file, probs, options)
    if gold_file is not None:
        gold = gold_of(gold_file, people.classes, items_of(people), by_order=options["by_order"])
        say(gold.notes)
        people = replace(people, gold=torch.from_numpy(gold.labels))
    if features_file is not None:
        features, name, source = _given(features_file, people, options["by_order"]), kept_sets.GIVEN, features_file
    else:
        name = encoder or ("minilm" if images is None else "efficientnet-lite0")
        if texts is not None:
            contents = _texts(texts, votes_file, pair, people, options)
        else:
            contents = _images(images or "", people, options["by_order"])
        features, source = _encoded(people.ids, contents, name), str(folder / FEATURES)
        feature_files.write(features, Path(source))
    read_as = people.votes.read_as if people.votes is not None else None
    notes = [str(read_as)] if read_as is not None else []
    held_out = rows_to_hold_out(people, options["test_ids"])
    if held_out is not None:
        others = np.setdiff1d(np.arange(len(people)), held_out)
        notes.append(f"{len(people) - len(others):,} items are held out (--test-ids) and not looked at here.")
        people = people.subset(torch.from_numpy(others))
        features = Features(people.ids, features.x[others], features.provenance)
    kept = kept_sets.keep(people, features, name)
    typed = _typed_options({"probs", "gold_file", *options})
    start = shlex.join(["dissensus", "fit", votes_file, "--features", source, *typed])
    return OwnData(people, kept, tuple(notes), start)


def _check_one_source(
    features: str | None, texts: str | None, images: str | None, encoder: str | None, pair: str | None
) -> None:
    given = [flag for flag, value in (("--features", features), ("--texts", texts), ("--images", images)) if value]
    if len(given) != 1:
        what = "there are no features" if not given else f"{' and '.join(given)} are given"
        hint = "Give one of --features FILE, --texts COLUMN and --images DIR"
        raise InputError(f"{what}, and one source is needed", where="features", hint=hint)
    if encoder and features:
        raise InputError("features are not encoded again", where="--encoder", hint="Leave it out, or give --texts")
    if pair and not texts:
        raise InputError("a second text needs a first", where="--pair", hint="Give --texts too")


def _given(path: str, people: Data, by_order: bool) -> Features:
    from dissensus.datasets.feature_files import Features
    from dissensus.datasets.own_files import read_features

    x, ids = read_features(path)
    return Features(people.ids, x[_rows(people, ids, len(x), path, by_order)], {})


def _rows(people: Data, ids: Sequence[str] | None, rows: int, path: str, by_order: bool) -> Ints:
    """The row of each item in a file; what is odd about it is said."""
    from dissensus.votes.alignment import match

    matched = match(items_of(people), ids, rows, path=path, by_order=by_order)
    say([matched.note] if matched.note else [])
    return matched.rows


def _texts(source: str, votes_file: str, pair: str | None, people: Data, options: dict[str, Any]) -> Contents:
    from dissensus.models.encoders.sources import read_contents

    if Path(source).is_file():
        ids, contents = read_contents(source, text=_text_column(source), second=pair)
        path = source
    else:
        ids, contents = read_contents(votes_file, item=options["items"], text=source, second=pair)
        path = votes_file
    return _picked(contents, _rows(people, ids, len(contents), path, options["by_order"]))


def encoded_texts(path: str, pair: str | None, encoder: str) -> Features:
    """Features of the texts in a table, one row per item."""
    from dissensus.models.encoders.sources import read_contents

    ids, contents = read_contents(path, text=_text_column(path), second=pair)
    return _encoded(ids, contents, encoder)


def _picked(contents: Contents, rows: Ints) -> Contents:
    """These rows, in this order."""
    from torch import Tensor

    return contents[rows] if isinstance(contents, Tensor) else tuple(contents[row] for row in rows.tolist())


def _text_column(path: str) -> str:
    """`text`, or else the only column beside the ids."""
    from dissensus.votes.roles import find
    from dissensus.votes.tables import open_table

    table = open_table(path)
    others = [name for name in table.names if name != find(table, "item", None)]
    return others[0] if "text" not in others and len(others) == 1 else "text"


def _images(source: str, people: Data, by_order: bool) -> Contents:
    from dissensus.models.encoders.image_folders import read_folder
    from dissensus.models.encoders.sources import read_contents

    if Path(source).is_dir():
        return read_folder(Path(source), people.ids)
    ids, contents = read_contents(source)
    return _picked(contents, _rows(people, ids, len(contents), source, by_order))


def _encoded(ids: Sequence[str], contents: Contents, encoder: str) -> Features:
    from dissensus.cli.progress import counted_items
    from dissensus.models import encoders

    with counted_items(f"features by {encoder}") as progress:
        return encoders.encode(ids, contents, encoder, progress=progress)


def _typed_options(names: set[str]) -> list[str]:
    """The options of these names that the user typed, to be typed again."""
    context, words = click.get_current_context(), list[str]()
    for parameter in context.command.params:
        typed = context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE
        if parameter.name in names and typed and isinstance(parameter, click.Option):
            value = context.params[parameter.name]
            for each in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0]] if parameter.is_flag else [parameter.opts[0], str(each)]
    return words
