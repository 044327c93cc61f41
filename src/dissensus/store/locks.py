"""Locks: which of several executors on one ledger computes a run.

A lock is a file that its owner touches every few seconds. A lock that nobody touched for `PATIENCE` seconds, or whose
owner was a process of this machine that is gone, is taken over. An owner that only slept may wake and go on: both then
compute, and the ledger publishes one result. Ages are measured by the clock of the file system, so that machines whose
clocks differ agree.

A lock that is dated more than `PATIENCE` seconds in the future is nobody's: the clock was wrong when it was touched, and
an owner that is alive would have touched it again. It is taken over, and the lock that takes its place says so. Whatever
is in a lock that is not what an owner writes, its age alone decides.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from dissensus.errors import InputError
from dissensus.store.atomic_files import explain_unwritable, read_whole, write_whole
from dissensus.store.json_types import misfit, parse_json

PATIENCE = 60.0
HEARTBEAT = 10.0


class Lock:
    """A run that is ours until it is released. `take` makes one. `note` says what was odd about a lock it replaced."""

    def __init__(self, file: Path, owner: str, note: str = "") -> None:
        self.file, self.owner, self.note = file, owner, note
        _HEARTBEAT.add(self)

    def release(self) -> None:
        """Give it back, unless it was taken over meanwhile."""
        _HEARTBEAT.remove(self)
        with suppress(OSError):  # nothing can be written there any more: then it ends with this process
            if _owner(self.file) == self.owner:
                self.file.unlink(missing_ok=True)
            self.file.parent.rmdir()  # where nothing else was left in it

    def touch(self) -> None:
        """Show that its owner is alive."""
        with suppress(OSError):  # a lock that was taken over is no longer ours to touch
            if _owner(self.file) == self.owner:
                os.utime(self.file)


class _Heartbeat:
    """Touches all locks of this process from one thread: the driver of a cluster may hold thousands."""

    def __init__(self) -> None:
        self._locks: set[Lock] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, lock: Lock) -> None:
        with self._changed:
            self._locks.add(lock)
            if self._thread is None or not self._thread.is_alive():  # a forked process has the name, not the thread
                self._thread = threading.Thread(target=self._beat, daemon=True)
                self._thread.start()

    def remove(self, lock: Lock) -> None:
        with self._changed:
            self._locks.discard(lock)
            if not self._locks:
                self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                if self._locks:
                    self._changed.wait(HEARTBEAT)
                if not self._locks:
                    self._thread = None
                    return
                locks = list(self._locks)
            for lock in locks:
                lock.touch()


_HEARTBEAT = _Heartbeat()


def take(file: Path, patience: float = PATIENCE) -> Lock | None:
    """The lock, or None while somebody else holds it. Where nothing can be written, a StorageError says so."""
    owner = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "lock": uuid.uuid4().hex})
    if _create(file, owner):
        return Lock(file, owner)
    if not _is_abandoned(file, patience):
        return None
    guard = file.with_name(file.name + ".takeover")
    if not _create(guard, owner):
        if _is_abandoned(guard, patience):
            guard.unlink(missing_ok=True)
        return None
    try:
        if not _is_abandoned(file, patience):  # somebody was faster
            return None
        note = _oddity(file, patience)
        write_whole(file, owner.encode())
        return Lock(file, owner, note)
    finally:
        guard.unlink(missing_ok=True)


def is_held(file: Path, patience: float = PATIENCE, now: float | None = None) -> bool:
    """Whether somebody computes this run now. A caller that asks for many runs at once passes the time of `clock`."""
    return file.is_file() and not _is_abandoned(file, patience, now)


def clock(folder: Path) -> float:
    """The time on the file system's clock."""
    probe = folder / f".clock-{uuid.uuid4().hex[:8]}"
    try:
        probe.touch()
    except OSError:  # the folder is read-only, or removed: then the lock's owner has ended
        return time.time()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _create(file: Path, owner: str) -> bool:
    for _ in range(100):
        with explain_unwritable(file.parent):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("x", encoding="utf-8") as stream:
                    stream.write(owner)
            except FileExistsError:
                if file.parent.is_dir():
                    return False
                hint = "Remove it"
                raise InputError("there is no folder here", where=str(file.parent), hint=hint, state="") from None
            except FileNotFoundError:  # its last owner removed the empty folder at this very moment
                continue
            return True
    return False


def _owner(file: Path) -> str | None:
    try:
        return read_whole(file).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _is_abandoned(file: Path, patience: float, now: float | None = None) -> bool:
    """True also where the file is gone: then nobody holds it."""
    owner = _owner(file)
    return owner is None or _is_dead(owner) or abs(_age(file, now)) > patience


def _age(file: Path, now: float | None = None) -> float:
    """Seconds since it was touched; of a file that is gone, for ever; below 0 where it is dated in the future."""
    try:
        touched = file.stat().st_mtime
    except FileNotFoundError:
        return math.inf
    return (clock(file.parent) if now is None else now) - touched


def _oddity(file: Path, patience: float) -> str:
    """Why a lock that is taken over looks wrong; empty where its owner simply ended."""
    ahead = -_age(file)
    if ahead <= patience:
        return ""
    return f"its lock was dated {ahead:,.0f} s in the future, so nobody holds it: taken over"


def _is_dead(owner: str) -> bool:
    """Whether the owner is a process of this machine that is gone. Of other machines we cannot know."""
    try:
        about = parse_json(owner)
    except ValueError:  # half-written, or no lock of ours
        return False
    if misfit(about, _Owner) or about["host"] != socket.gethostname() or about["pid"] < 1:
        return False
    try:
        os.kill(about["pid"], 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # another user's, or no process that can be
        return False
    return False


class _Owner(TypedDict):
    host: str
    pid: int
