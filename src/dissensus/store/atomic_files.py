"""Files that are whole or absent: written beside their place, flushed, and moved there by one rename."""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dissensus.errors import InputError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DiskFullError(InputError):
    """There is no room left. Nothing is lost that was there before."""


@contextmanager
def explained(place: Path) -> Iterator[None]:
    """Say what a full disk means, in place of a traceback."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in FULL:
            raise
        raise DiskFullError(
            f"there is no room left ({problem.strerror})",
            where=str(place),
            hint="Make room, or name a folder on a larger disk; the same command then goes on",
            state="Finished runs and the last checkpoint of unfinished ones are kept.",
        ) from None


def write_whole(file: Path, content: bytes, lasting: bool = True) -> None:
    """Put the content under this name, or leave what is there as it is. What is `lasting` outlives a power cut."""
    draft = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    with explained(file):
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                if lasting:
                    stream.flush()
                    os.fsync(stream.fileno())
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)


def digest(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
