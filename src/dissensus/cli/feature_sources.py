"""Where the features of items come from: a file of features, or texts or images that an encoder turns into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dissensus.cli.inputs import items_of, say
from dissensus.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dissensus.datasets.data import Data
    from dissensus.datasets.feature_files import Contents, Features
    from dissensus.votes.votes import Ints

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_ENCODERS = {"texts": "minilm", "images": "efficientnet-lite0"}

_OPTIONS = (
    click.option("--features", "features_file", metavar="FILE", help="npy, npz, CSV or Parquet, one row per item."),
    click.option(
        "--texts", metavar="COLUMN|FILE", help="Instead of features: a text column of VOTES, or a table of texts."
    ),
    click.option("--pair", metavar="COLUMN", help="With --texts: the column of the second text of each pair."),
    click.option("--images", metavar="DIR|FILE", help="Instead of features: a folder of pictures, or npy/npz of images."),
    click.option(
        "--encoder", metavar="NAME", help="For texts or images, as in `embed` (default: minilm, efficientnet-lite0)."
    ),
)


def source_options(command: Command) -> Command:
    """Add --features, --texts, --pair, --images and --encoder to a command; their values are the fields of a `Source`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Source:
    """One source of features, as the user named it; more or fewer than one are refused."""

    features_file: str | None = None
    texts: str | None = None
    pair: str | None = None
    images: str | None = None
    encoder: str | None = None

    def __post_init__(self) -> None:
        named = {"--features": self.features_file, "--texts": self.texts, "--images": self.images}
        given = [flag for flag, value in named.items() if value]
        if len(given) != 1:
            what = "there are no features" if not given else f"{' and '.join(given)} are given"
            hint = "Give one of --features FILE, --texts COLUMN and --images DIR"
            raise InputError(f"{what}, and one source is needed", where="features", hint=hint)
        if self.encoder and self.features_file:
            raise InputError("features are not encoded again", where="--encoder", hint="Leave it out, or give --texts")
        if self.pair and not self.texts:
            raise InputError("a second text needs a first", where="--pair", hint="Give --texts too")

    @property
    def encoder_name(self) -> str | None:
        """The encoder that is used; None for features from a file."""
        if self.features_file is not None:
            return None
        return self.encoder or DEFAULT_ENCODERS["texts" if self.texts is not None else "images"]

    def __str__(self) -> str:
        """Where the features come from, for people."""
        return self.features_file or f"{self.texts or self.images} by {self.encoder_name}"


def features_for(people: Data, source: Source, votes_file: str, options: Mapping[str, Any]) -> Features:
    """Features of these items, in their order; what was encoded before is not encoded again."""
    from dissensus.cli.feature_origin import origin_of
    from dissensus.datasets.feature_files import Features
    from dissensus.datasets.own_files import read_feature_matrix

    if source.features_file is not None:
        read = read_feature_matrix(source.features_file, to_train=True)
        say(read.notes)
        rows = _rows(people, read.ids, len(read.values), source.features_file, options["by_order"])
        return Features(people.ids, read.values[rows], origin_of(source.features_file), columns=read.classes)
    if source.texts is not None:
        contents = _texts(source.texts, votes_file, source.pair, people, options)
    else:
        contents = _images(source.images or "", people, options["by_order"])
    return _encoded(people.ids, contents, source.encoder_name or "")


def features_of_new(source: Source) -> Features:
    """Features of the items of a table of texts, a folder of pictures or an array of images: of all that are in it."""
    from dissensus.models.encoders.image_folders import picture_names, read_folder
    from dissensus.models.encoders.sources import read_contents

    contents: Contents
    if source.texts is not None:
        ids, contents = read_contents(source.texts, text=_text_column(source.texts), second=source.pair)
    elif Path(source.images or "").is_dir():
        ids = picture_names(Path(source.images or ""))
        contents = read_folder(Path(source.images or ""), ids)
    else:
        ids, contents = read_contents(source.images or "")
    return _encoded(ids, contents, source.encoder_name or "")


def _rows(people: Data, ids: Sequence[str] | None, rows: int, path: str, by_order: bool) -> Ints:
    """The row of each item in a file; what is odd about it is said."""
    from dissensus.votes.alignment import match

    matched = match(items_of(people), ids, rows, path=path, by_order=by_order, pool=True)
    say([matched.note] if matched.note else [])
    return matched.rows


def _texts(source: str, votes_file: str, pair: str | None, people: Data, options: Mapping[str, Any]) -> Contents:
    from dissensus.models.encoders.sources import read_contents

    if Path(source).is_file():
        ids, contents = read_contents(source, text=_text_column(source), second=pair)
        path = source
    else:
        read_as = None if people.votes is None else people.votes.read_as
        item = options["items"] or (None if read_as is None else read_as.columns.get("item"))
        ids, contents = read_contents(votes_file, item=item, text=source, second=pair)
        path = votes_file
    return _picked(contents, _rows(people, ids, len(contents), path, options["by_order"]))


def _picked(contents: Contents, rows: Ints) -> Contents:
    """These rows, in this order."""
    from torch import Tensor

    return contents[rows] if isinstance(contents, Tensor) else tuple(contents[row] for row in rows.tolist())


def _text_column(path: str) -> str:
    """`text`, or else the only column beside the ids."""
    from dissensus.votes.roles import find
    from dissensus.votes.tables import open_table

    table = open_table(path)
    others = [name for name in table.names if name != find(table, "item", texts=False)]
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
