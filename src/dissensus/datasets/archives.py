"""Unpacking downloaded archives: inside one folder, completely or not at all."""

from __future__ import annotations

import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from dissensus.errors import InputError
from dissensus.store.atomic_files import NO_ROOM, NOT_ALLOWED

UNPACKED_FREELY = 1 << 30  # bytes that an archive may always unpack to
UNPACKED_TIMES = 100  # beyond that, so many times its size
BLOCK = 1 << 20


def unpack(archive: Path, folder: Path, *, name: str) -> None:
    """Write the regular files of a zip or tar archive to the folder, after all could be read; links are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as temporary:
        staging, paths = Path(temporary), []
        try:
            room = max(UNPACKED_FREELY, UNPACKED_TIMES * archive.stat().st_size)
            for member, content in _members(archive):
                path = _inside(member, name)
                target = staging / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as out:
                    while block := content.read(BLOCK):
                        room -= len(block)
                        if room < 0:
                            what = f"{archive.stat().st_size:,} bytes unpack to far more"
                            raise InputError(what, where=name, hint="Do not trust it")
                        out.write(block)
                paths.append(path)
        except InputError:
            raise
        except Exception as error:  # the readers of archives have no one error for bytes that are none
            if isinstance(error, OSError) and error.errno in (*NO_ROOM, *NOT_ALLOWED):  # this is about the folder
                raise
            problem = f"the archive cannot be read ({error or type(error).__name__})"
            raise InputError(problem, where=name, hint="Fetch it again") from error
        for path in paths:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (staging / path).replace(folder / path)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            for entry in bundle.infolist():
                if not entry.is_dir():
                    with bundle.open(entry) as content:
                        yield entry.filename, content
        return
    with tarfile.open(archive) as tape:
        for member in tape:
            stream = tape.extractfile(member) if member.isreg() else None
            if stream is not None:
                with stream:
                    yield member.name, stream


def _inside(member: str, archive: str) -> Path:
    """A member's path under the folder; a path that leads out of the folder is refused."""
    path = PurePosixPath(member.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
        raise InputError(
            f"the archive wants to write outside its folder ({member!r})", where=archive, hint="Do not trust it"
        )
    return Path(path)
