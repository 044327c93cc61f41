"""Shared by commands: the options for reading votes, and the check that the output folder is writable."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.datasets.data import Data
    from dissensus.votes.votes import Votes

Command = TypeVar("Command", bound=Callable[..., Any])

_VOTE_OPTIONS = (
    click.option(
        "--format", "layout", type=click.Choice(["long", "wide", "counts"]), help="Layout of VOTES (default: guessed)."
    ),
    click.option("--item", metavar="COLUMN", help="Column with the item id (default: found by name)."),
    click.option("--label", metavar="COLUMN", help="Column with the label (default: found by name)."),
    click.option("--annotator", metavar="COLUMN", help="Column with the annotator (default: found by name)."),
    click.option("--classes", metavar="A,B,…", help="The classes in order, including those that nobody chose."),
    click.option(
        "--duplicates",
        type=click.Choice(["error", "first", "last", "keep"]),
        default="error",
        show_default=True,
        help="What to do if an annotator voted twice on an item.",
    ),
)


def vote_options(command: Command) -> Command:
    """Add the options for reading votes to a command; their values are the `options` of `votes_from`."""
    for option in reversed(_VOTE_OPTIONS):
        command = option(command)
    return command


def votes_from(path: str, options: Mapping[str, Any]) -> Votes:
    """Read the votes in a file with these options."""
    from dissensus.votes import read_votes

    classes = options["classes"]
    return read_votes(
        path,
        format=options["layout"],
        item=options["item"],
        label=options["label"],
        annotator=options["annotator"],
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        duplicates=options["duplicates"],
    )


def people_from(path: str, probs: bool, options: Mapping[str, Any]) -> Data:
    """Data without inputs: the votes in a file, or with --probs the share of each class per item."""
    import torch

    from dissensus.datasets.data import Data
    from dissensus.datasets.own_files import read_probabilities
    from dissensus.votes.votes import row_names

    if not probs:
        return Data.of_votes(votes_from(path, options), name=path)
    matrix = read_probabilities(path, item=options["item"])
    n, k = matrix.values.shape
    return Data(
        name=path,
        classes=matrix.classes or row_names(k),
        ids=matrix.ids or row_names(n),
        probs=torch.from_numpy(matrix.values),
    )


def writable_folder(path: str) -> Path:
    """Create the folder if needed; raise before any work is done if nothing can be written to it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _unwritable(path, problem.strerror) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unwritable(path, "no permission")
    return folder


def _unwritable(path: str, why: str | None) -> InputError:
    return InputError(f"this folder cannot be written to ({why})", where=path, hint="Choose another folder with --out")
