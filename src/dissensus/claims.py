"""Claims: which of several executors on one ledger computes a run.

A claim is a file that its owner touches every few seconds. A claim that nobody touched for `PATIENCE` seconds, or whose
owner was a process of this machine that is gone, is taken over. An owner that only slept may wake and go on: both then
compute, and the ledger publishes one result. Ages are measured by the clock of the file system, so that machines whose
clocks differ agree.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dissensus.storage import write_whole

PATIENCE = 60.0
HEARTBEAT = 10.0


class Claim:
    """A run that is ours for as long as this is open. `take` makes one."""

    def __init__(self, file: Path, owner: str) -> None:
        self.file, self.owner = file, owner
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Claim:
        self._heart.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._heart.join()
        if _owner(self.file) == self.owner:  # it may have been taken over while we slept
            self.file.unlink(missing_ok=True)
        with suppress(OSError):
            self.file.parent.rmdir()  # where nothing else was left in it

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT):
            with suppress(OSError):  # a claim that was taken over is no longer ours to touch
                if _owner(self.file) == self.owner:
                    os.utime(self.file)


def take(file: Path, patience: float = PATIENCE) -> Claim | None:
    """The claim, or None while somebody else holds it."""
    owner = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "claim": uuid.uuid4().hex})
    if _create(file, owner):
        return Claim(file, owner)
    if not _abandoned(file, patience):
        return None
    guard = file.with_name(file.name + ".takeover")
    if not _create(guard, owner):
        if _abandoned(guard, patience):
            guard.unlink(missing_ok=True)
        return None
    try:
        if not _abandoned(file, patience):  # somebody was faster
            return None
        write_whole(file, owner.encode())
        return Claim(file, owner)
    finally:
        guard.unlink(missing_ok=True)


def is_held(file: Path, patience: float = PATIENCE) -> bool:
    """Whether somebody computes this run now."""
    return file.is_file() and not _abandoned(file, patience)


def _create(file: Path, owner: str) -> bool:
    for _ in range(100):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x", encoding="utf-8") as stream:
                stream.write(owner)
        except FileExistsError:
            return False
        except FileNotFoundError:  # its last owner removed the empty folder at this very moment
            continue
        return True
    return False


def _owner(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _abandoned(file: Path, patience: float) -> bool:
    """True also where the file is gone: then nobody holds it."""
    try:
        owner, touched = file.read_text(encoding="utf-8"), file.stat().st_mtime
    except FileNotFoundError:
        return True
    return _is_dead(owner) or _now(file.parent) - touched > patience


def _is_dead(owner: str) -> bool:
    """A process of this machine that is gone. One of another machine is never known to be."""
    try:
        about = json.loads(owner)
        if about["host"] != socket.gethostname():
            return False
        os.kill(about["pid"], 0)
    except ProcessLookupError:
        return True
    except (ValueError, KeyError, TypeError, PermissionError):  # half-written, or another user's
        return False
    return False


def _now(folder: Path) -> float:
    """The time on the file system's clock."""
    probe = folder / f".clock-{uuid.uuid4().hex[:8]}"
    try:
        probe.touch()
        return probe.stat().st_mtime
    except FileNotFoundError:  # the folder was removed: whoever held the claim has ended
        return time.time()
    finally:
        probe.unlink(missing_ok=True)
