"""Shared by commands: the options for reading votes, what is said about them, and the check of the output folder."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dissensus.cli.output import printable
from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.datasets.data import Data
    from dissensus.votes.alignment import Items
    from dissensus.votes.votes import Votes

Command = TypeVar("Command", bound=Callable[..., Any])

_VOTE_OPTIONS = (
    click.option(
        "--format",
        "layout",
        metavar="LAYOUT",
        help="long, wide, transposed, counts, or an export: label-studio, argilla, … (default: by content).",
    ),
    click.option(
        "--items", "--item", "items", metavar="COLUMN", help="Column with the item id (default: found by name)."
    ),
    click.option(
        "--labels", "--label", "labels", metavar="COLUMN", help="Column with the label, or question of an export."
    ),
    click.option(
        "--annotators",
        "--annotator",
        "annotators",
        metavar="COLUMN",
        help="Column with the annotator (default: found by name).",
    ),
    click.option("--count", metavar="COLUMN", help="Column that says how many votes a row stands for."),
    click.option("--columns", metavar="A,B,…", help="The class columns of counts, or the annotators of a wide table."),
    click.option("--ignore", metavar="A,B,…", help="Columns to leave out."),
    click.option("--missing", metavar="A,B,…", help="Labels that mean `no vote`: -1, NA, …"),
    click.option(
        "--classes", metavar="A,B,…", help="The classes in order, including those that nobody chose; selects columns."
    ),
    click.option("--drop-empty", is_flag=True, help="Skip rows without a label, and say how many."),
    click.option(
        "--duplicates",
        type=click.Choice(["error", "first", "last", "keep"]),
        default="error",
        show_default=True,
        help="What to do if an annotator voted twice on an item.",
    ),
)
_MATCH_OPTIONS = (
    click.option("--test-ids", metavar="FILE", help="Ids to hold out: one per line, or a table with an item column."),
    click.option("--by-order", is_flag=True, help="Match rows and columns by their order, whatever their names."),
)


def vote_options(command: Command) -> Command:
    """Add the options for reading votes to a command; their values are the `options` of `votes_from`."""
    return _with_options(command, _VOTE_OPTIONS)


def match_options(command: Command) -> Command:
    """Add --test-ids (rows by `rows_to_hold_out`) and --by-order to a command that matches other files to the votes."""
    return _with_options(command, _MATCH_OPTIONS)


def _with_options(command: Command, options: Iterable[Callable[[Command], Command]]) -> Command:
    for option in reversed(tuple(options)):
        command = option(command)
    return command


def votes_from(path: str, options: Mapping[str, Any]) -> Votes:
    """Read the votes in a file with these options, and say on stderr how they were read."""
    from dissensus.votes import read_votes

    classes = options["classes"]
    votes = read_votes(
        path,
        format=options["layout"],
        items=options["items"],
        labels=options["labels"],
        annotators=options["annotators"],
        count=options["count"],
        columns=_names(options["columns"]),
        ignore=_names(options["ignore"]),
        missing=_names(options["missing"]),
        classes=None if classes is None else _names(classes),
        drop_empty=options["drop_empty"],
        duplicates=options["duplicates"],
    )
    say_read_as(votes)
    return votes


def _names(text: str | None) -> list[str]:
    """Names separated by commas; a name that has one is put in double quotes, as in a CSV."""
    if text is None:
        return []
    if '"' not in text:
        return [name.strip() for name in text.split(",")]
    return next(csv.reader([text], skipinitialspace=True))


def say_read_as(votes: Votes) -> None:
    """Print on stderr how votes were read, how many there are, and what looks odd."""
    if votes.read_as is None:
        return
    sizes = f"{_number(votes.n_votes, 'vote')} on {_number(len(votes), 'item')}"
    people = (
        " by unknown annotators" if votes.annotators is None else f" by {_number(len(votes.annotators), 'annotator')}"
    )
    shown = ", ".join(map(_in_one_line, votes.classes[:8])) + (", …" if len(votes.classes) > 8 else "")
    click.echo(printable(_in_one_line(str(votes.read_as))), err=True)
    click.echo(f"  {sizes}{people}, {_number(len(votes.classes), 'class', 'es')}: {printable(shown)}", err=True)
    say(votes.read_as.notes)
    for warning in votes.read_as.warnings:
        click.echo(click.style(f"  warning: {printable(warning)}", fg="yellow"), err=True)


def _in_one_line(text: str) -> str:
    """Names may hold line ends."""
    return " ".join(text.split())


def _number(count: int, thing: str, ending: str = "s") -> str:
    return f"{count:,} {thing}{'' if count == 1 else ending}"


def say(notes: Iterable[str]) -> None:
    """Print notes on stderr."""
    for note in notes:
        click.echo(f"  note: {printable(note)}", err=True)


def read_as_json(votes: Votes | None) -> dict[str, Any] | None:
    """How votes were read, for JSON output; None where they were not read from a file."""
    if votes is None or votes.read_as is None:
        return None
    sizes = {
        "votes": votes.n_votes,
        "items": len(votes),
        "annotators": None if votes.annotators is None else len(votes.annotators),
        "classes": len(votes.classes),
    }
    return {**votes.read_as.to_json(), **sizes}


def items_of(people: Data) -> Items:
    """The items that other files are matched to."""
    from dissensus.votes.alignment import Items

    return Items.of(people.votes) if people.votes is not None else Items(people.ids)


def classes_are_named(people: Data) -> bool:
    """Whether the classes have names, and not just numbers because their file has none."""
    votes = people.votes
    return votes is None or votes.read_as is None or "classes" not in votes.read_as.unnamed


def rows_to_hold_out(people: Data, path: str | None) -> Any:
    """The rows that --test-ids lists, int64; None without it."""
    from dissensus.datasets.own_files import rows_of_ids

    return None if path is None else rows_of_ids(items_of(people), path)


def people_from(path: str, probs: bool, options: Mapping[str, Any]) -> Data:
    """Data without inputs: the votes in a file, or with --probs the share of each class per item."""
    import torch

    from dissensus.datasets.data import Data
    from dissensus.datasets.own_files import read_probabilities
    from dissensus.votes.votes import row_names

    if not probs:
        return Data.of_votes(votes_from(path, options), name=path)
    matrix = read_probabilities(path, item=options["items"])
    n, k = matrix.values.shape
    click.echo(f"read as: shares of {k} classes for {n:,} items{'' if matrix.ids else ', without ids'}", err=True)
    say(matrix.notes)
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


def keep_inputs(out: str | Path, *inputs: str | None) -> None:
    """Refuse to write where something is read from: raw votes cannot be made again."""
    for path in inputs:
        if path is not None and Path(path).is_file() and _is_same(out, path):
            raise InputError("this file is read by the command", where=str(out), hint="Choose another name to write to")


def _is_same(path: str | Path, other: str) -> bool:
    try:
        return Path(path).samefile(other)
    except (OSError, ValueError):  # what is not there, or no path, is refused by whoever reads or writes it
        return False


def write_text(path: str | Path, text: str) -> None:
    """Write a file that was asked for, whole, or say why it cannot be written and leave what was there."""
    from dissensus.store.atomic_files import write_whole

    try:
        if Path(path).exists() and not Path(path).is_file():  # /dev/stdout, a pipe
            Path(path).write_text(text, encoding="utf-8", newline="\n")
        else:
            write_whole(Path(path), text.encode(), durable=False)
    except OSError as problem:
        raise _unwritable_file(path, problem.strerror) from None
    except InputError as problem:
        raise _unwritable_file(path, problem.what) from None


def _unwritable_file(path: str | Path, why: str | None) -> InputError:
    return InputError(
        f"this file cannot be written ({why})", where=str(path), hint="Name a file in a folder of yours, with room for it"
    )


def _unwritable(path: str, why: str | None) -> InputError:
    return InputError(f"this folder cannot be written to ({why})", where=path, hint="Choose another folder with --out")
