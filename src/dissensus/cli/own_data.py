"""The user's votes and features, for commands that study them: read, encoded where needed, and kept under a name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dissensus.cli.feature_sources import Source, features_for, source_options
from dissensus.cli.inputs import items_of, match_options, people_from, rows_to_hold_out, say, vote_options
from dissensus.errors import InputError

if TYPE_CHECKING:
    from dissensus.datasets.data import Data
    from dissensus.datasets.kept_sets import KeptSet

Command = TypeVar("Command", bound=Callable[..., Any])

FEATURES = "features.npz"
"""What texts or images become, in the output folder."""

_INPUTS = (
    click.option("--probs", is_flag=True, help="VOTES holds the share of each class per item, not votes."),
    click.option("--gold", "gold_file", metavar="FILE", help="Gold labels, for accuracy, ECE and the target `gold`."),
)


def own_data_options(command: Command) -> Command:
    """Add VOTES, its reading options and the sources of features to a command; `own_data` takes their values."""
    for option in reversed(_INPUTS):
        command = option(command)
    return click.argument("votes_file", metavar="VOTES")(source_options(match_options(vote_options(command))))


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

    source = Source(features_file, texts, pair, images, encoder)
    people = people_from(votes_file, probs, options)
    if gold_file is not None:
        gold = gold_of(gold_file, people.classes, items_of(people), by_order=options["by_order"])
        say(gold.notes)
        people = replace(people, gold=torch.from_numpy(gold.labels))
    features, path = features_for(people, source, votes_file, options), features_file
    if path is not None:
        features = Features(features.ids, features.x, {})  # a kept set is named by its content, whoever encoded it
    else:
        path = str(folder / FEATURES)
        feature_files.write(features, Path(path))
    read_as = people.votes.read_as if people.votes is not None else None
    notes = [str(read_as)] if read_as is not None else []
    held_out = rows_to_hold_out(people, options["test_ids"])
    if held_out is not None:
        others = np.setdiff1d(np.arange(len(people)), held_out)
        if not len(others):
            raise InputError(
                "all items are held out", where=options["test_ids"], hint="Leave some items to compare and plan with"
            )
        notes.append(f"{len(people) - len(others):,} items are held out (--test-ids) and not looked at here.")
        people = people.subset(torch.from_numpy(others))
        features = Features(people.ids, features.x[others], features.provenance)
    kept = kept_sets.keep(people, features, source.encoder_name or kept_sets.GIVEN)
    typed = _typed_options({"probs", "gold_file", *options})
    start = shlex.join(["dissensus", "fit", votes_file, "--features", path, *typed])
    return OwnData(people, kept, tuple(notes), start)


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
