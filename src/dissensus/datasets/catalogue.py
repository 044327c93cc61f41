"""An entry of the catalogue: where a data set comes from, under which licence, and how much of it is here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dissensus.datasets.data import Data
from dissensus.errors import InputError


@dataclass(frozen=True)
class Remote:
    """One file at its official source.

    `path` is its path under the data folder; for an archive (.zip, .tar.gz), the folder it is unpacked into. `brings` are
    the files that are there afterwards, with their sizes in bytes where known. `md5` is given where the source publishes
    one, and `md5_source` is the page that does.
    """

    url: str
    path: str
    brings: tuple[tuple[str, int | None], ...]
    md5: str | None = None
    md5_source: str = ""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]

    @property
    def is_archive(self) -> bool:
        """Whether it is unpacked after the download."""
        return self.url.endswith((".zip", ".tar.gz"))

    def is_here(self, root: Path) -> bool:
        """Whether all files it brings are there and complete."""
        return all((root / path).is_file() and size in (None, (root / path).stat().st_size) for path, size in self.brings)


@dataclass(frozen=True)
class Entry:
    """One data set. `sizes(root)` is (present, official) for each part.

    An embedded set has no `remotes`. A set that cannot be downloaded has none either: `by_hand` then says what to do.
    """

    name: str
    description: str
    licence: str
    source: str
    load: Callable[..., Data]
    sizes: Callable[[Path], Mapping[str, tuple[int, int]]]
    remotes: tuple[Remote, ...] = ()
    by_hand: str = ""


@dataclass(frozen=True)
class Status:
    """What `dissensus data list` prints for one data set."""

    name: str
    description: str
    licence: str
    source: str
    sizes: Mapping[str, tuple[int, int]]
    embedded: bool
    by_hand: str = ""

    @property
    def complete(self) -> bool:
        """Whether all of it is here."""
        return all(present >= official for present, official in self.sizes.values())

    @property
    def sentence(self) -> str:
        """How much of it is here, and how to get the rest."""
        parts = ", ".join(f"{share(present, official)} {part}" for part, (present, official) in self.sizes.items())
        if self.embedded or self.complete:
            return parts
        if not any(present for present, _ in self.sizes.values()):
            parts = "not here"
        return f"{parts}. {self.by_hand}" if self.by_hand else f"{parts}: `dissensus data get {self.name}` fetches it"


def share(present: int, official: int) -> str:
    """How much is present of the official number.

    >>> share(20000, 50000), share(10000, 10000)
    ('20,000 of 50,000', '10,000')
    """
    return f"{present:,}" if present == official else f"{present:,} of {official:,}"


def data_root() -> Path:
    """The folder of downloaded data: `DISSENSUS_DATA`, or `dissensus` in the user's cache directory (XDG)."""
    named = os.environ.get("DISSENSUS_DATA")
    return Path(named).expanduser() if named else user_cache()


def user_cache() -> Path:
    """The folder that `dissensus` may always write to: its own in the user's cache directory (XDG)."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "dissensus"


def missing(name: str, path: Path) -> InputError:
    """The error for a file that is not there."""
    return InputError(
        f"{name} is not here: there is no such file",
        where=str(path),
        hint=f"Run `dissensus data get {name}`, or set DISSENSUS_DATA to the folder that has it",
        state="",
    )
