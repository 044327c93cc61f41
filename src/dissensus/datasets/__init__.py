"""Data sets by name, one file per set: `load` one, list what is here (`catalogue`), download what is not (`get`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dissensus.datasets import (
    chaosnli,
    cifar10,
    cifar10_1,
    cifar10h,
    cifar10h_hard,
    cifar100,
    cinic10,
    digits,
    imagenet_far,
    kept_sets,
    popquorn,
    samples,
    svhn,
)
from dissensus.datasets.catalogue import Entry, Status, data_root
from dissensus.datasets.data import Data
from dissensus.datasets.download import DownloadProgress, fetch
from dissensus.datasets.feature_files import attach
from dissensus.errors import InputError

__all__ = ["DATASETS", "Entry", "Status", "catalogue", "data_root", "digest_of", "entry", "get", "load"]

_MEMBERS = (
    digits.ENTRY,
    cifar10.ENTRY,
    cifar10h.ENTRY,
    cifar10h_hard.ENTRY,
    chaosnli.ENTRY,
    popquorn.ENTRY,
    cifar100.ENTRY,
    svhn.ENTRY,
    cifar10_1.V4,
    cifar10_1.V6,
    cinic10.ENTRY,
    imagenet_far.ENTRY,
    samples.TINYIMAGENET_OTHER,
)
DATASETS = {member.name: member for member in _MEMBERS}
_SPELLINGS = {"cinic10": cinic10.NAME}  # only the ImageNet part of CINIC-10 is a set of its own


def entry(name: str) -> Entry:
    """The entry of a data set; an unknown name is bad input. The user's own sets are in no catalogue.

    Hyphens may stand for underscores, as in `cifar10.1-v4`.
    """
    if name == kept_sets.OWN:
        return kept_sets.ENTRY
    if name not in DATASETS:
        name = _SPELLINGS.get(name, name.replace("-", "_"))
    if name not in DATASETS:
        raise InputError(f"{name!r} is not one of {', '.join(DATASETS)}", where="data set", state="")
    return DATASETS[name]


def load(name: str, *, features: str | None = None, **options: Any) -> Data:
    """A data set, read from the data folder; options are those of its own `load`.

    `features` names an encoder, whose features (`dissensus embed`) then take the place of images or texts as `x`.

    >>> data = load("digits", votes=10)
    >>> data.x.shape, data.votes.n_votes
    (torch.Size([1797, 1, 8, 8]), 17970)
    """
    loader = entry(name).load
    known = list(inspect.signature(loader).parameters)
    for option in options:
        if option not in known:
            raise InputError(
                f"{name} has no option {option!r}",
                where="data set",
                hint=f"It has {', '.join([*known, 'features'])}",
                state="",
            )
    data = loader(**options)
    return data if features is None else attach(data, features, options.get("root"))


def digest_of(name: str, options: Iterable[tuple[str, Any]] = ()) -> str:
    """The digest of a data set's content, by which a plan names it."""
    return load(name, **dict(options)).digest


def catalogue(root: Path | None = None) -> list[Status]:
    """How much of every data set is here."""
    folder = root or data_root()
    return [
        Status(
            name=member.name,
            description=member.description,
            licence=member.licence,
            source=member.source,
            sizes=member.sizes(folder),
            embedded=not (member.remotes or member.by_hand),
            by_hand=member.by_hand,
        )
        for member in DATASETS.values()
    ]


def get(name: str, root: Path | None = None, *, progress: DownloadProgress | None = None) -> Iterator[str]:
    """Download the missing files of a data set; yields a sentence about each when it is complete and checked."""
    folder = root or data_root()
    if entry(name).by_hand:
        raise InputError(f"{name} has no official file to fetch", where="data set", hint=entry(name).by_hand, state="")
    if not entry(name).remotes:
        yield f"{name} is part of the installation: there is nothing to fetch."
    for remote in entry(name).remotes:
        here = remote.is_here(folder)
        yield f"{remote.name}: already here." if here else fetch(remote, folder, progress=progress)
