"""Files that are whole or absent: written under another name, flushed, and renamed."""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dissensus.errors import InputError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DiskFullError(InputError):
    """There is no room left. Nothing is lost that was there before."""


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Raise a DiskFullError that says what to do, where the system has no room left to write."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise DiskFullError(
            f"there is no room left ({problem.strerror})",
            where=str(path),
            hint="Make room, or name a folder on a larger disk; the same command then goes on",
            state="Finished runs and the last checkpoint of unfinished ones are kept.",
        ) from None


def write_whole(file: Path, content: bytes, durable: bool = True) -> None:
    """Replace the content of a file, or leave it as it is. Content that is `durable` outlives a power cut."""
    draft = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
    with explain_full_disk(file):
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            draft.replace(file)
        finally:
            draft.unlink(missing_ok=True)


def digest(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
