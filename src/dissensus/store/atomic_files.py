"""Files that are whole or absent: written under another name, flushed, renamed. What cannot be written says why."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dissensus.errors import InputError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
NOT_ALLOWED = {errno.EROFS, errno.EACCES, errno.EPERM}


class StorageError(InputError):
    """Nothing can be written there. Nothing is lost that was there before."""


class DiskFullError(StorageError):
    """There is no room left."""


@contextmanager
def explain_unwritable(path: Path) -> Iterator[None]:
    """Raise a StorageError that says what to do, where the system has no room left or lets nothing be written."""
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        kept = "Finished runs and the last checkpoint of unfinished ones are kept."
        if problem.errno in NO_ROOM:
            hint = "Make room, or name a folder on a larger disk; the same command then goes on"
            raise DiskFullError(f"there is no room left ({reason})", where=str(path), hint=hint, state=kept) from None
        if problem.errno in NOT_ALLOWED:
            hint = "Name a folder that you may write to"
            raise StorageError(
                f"nothing can be written there ({reason})", where=str(path), hint=hint, state=kept
            ) from None
        raise


def write_whole(file: Path, content: bytes, durable: bool = True) -> None:
    """Replace the content of a file, or leave it as it is. Content that is `durable` outlives a power cut."""
    if not file.name:  # "", "." or "/"
        raise InputError("this is no name of a file", where=str(file), hint="Name a file")
    with explain_unwritable(file):
        if file.exists() and not file.is_file():  # a rename would put a file in the place of a device
            raise InputError("this is not a regular file", where=str(file), hint="Name a file")
        file = Path(os.path.realpath(file))  # so that a link stays one
        draft = file.with_name(f".{file.name}-{uuid.uuid4().hex[:8]}")
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            draft.replace(file)
        finally:
            with suppress(OSError):  # where nothing can be written, nothing can be removed; the first error says why
                draft.unlink(missing_ok=True)


def read_whole(file: Path) -> bytes:
    """The content of a regular file; FileNotFoundError where there is none. Anything else in its place is refused: a
    folder, a pipe that nobody fills, a link in a circle."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise InputError("this is not a regular file", where=str(file), hint="Remove it", state="")
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(file)) from None
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        hint = "Check its permissions"
        raise InputError(f"cannot be read ({reason})", where=str(file), hint=hint, state="") from None


def digest(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
