"""Downloading official files: resumed, retried, checked, complete or not at all. Standard library only."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from dissensus.datasets.archives import unpack
from dissensus.datasets.catalogue import Remote
from dissensus.errors import InputError
from dissensus.store.atomic_files import read_whole
from dissensus.store.json_types import misfit, parse_json

CHUNK = 1 << 18
ATTEMPTS = 5
RECORD = "downloads.json"  # in the data folder: what was downloaded, with its digest

DownloadProgress = Callable[[int, int | None], None]  # (bytes so far, total bytes where the server gives them)


class _InterruptedError(Exception):
    """The network failed; another attempt may succeed."""


def fetch(
    remote: Remote,
    root: Path,
    *,
    progress: DownloadProgress | None = None,
    timeout: float = 30.0,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Download one file (or the content of an archive) to `root`; returns a sentence on how it was checked.

    A checksum published by the source must match. Where there is none, the digest of the first download is recorded in
    `downloads.json`, and a later download must have the same.
    """
    with _explained(root):
        root.mkdir(parents=True, exist_ok=True)
        record = _read_record(root)
        part = root / f".{remote.name}.part"
        if part.is_symlink():  # none of ours: it would lead the bytes elsewhere
            part.unlink()
        _download(remote, part, progress=progress, timeout=timeout, sleep=sleep)
        try:
            sha256, verdict = _check(remote, part, known=record.get(remote.url, {}).get("sha256"))
            record[remote.url] = {"sha256": sha256, "bytes": part.stat().st_size, "checked": verdict}
            if remote.is_archive:
                unpack(part, root / remote.path, name=remote.name)
        except InputError:
            _discard(part)
            raise
        if not remote.is_archive:
            (root / remote.path).parent.mkdir(parents=True, exist_ok=True)
            part.replace(root / remote.path)
        _discard(part)
        _write_record(root, record)
    return verdict


def _download(
    remote: Remote, part: Path, *, progress: DownloadProgress | None, timeout: float, sleep: Callable[[float], None]
) -> None:
    """Fill `part`, continuing where an earlier call stopped. Only attempts that get no further than before count."""
    furthest, failures = 0, 0
    while True:
        try:
            _attempt(remote, part, progress=progress, timeout=timeout)
            return
        except _InterruptedError as error:
            have = _size(part)
            failures = 1 if have > furthest else failures + 1
            furthest = max(furthest, have)
            if failures >= ATTEMPTS:
                raise InputError(
                    f"the download failed {ATTEMPTS} times in a row ({error})",
                    where=remote.url,
                    hint="Check the network and run the command again",
                    state=f"The {have:,} bytes received are kept; the next download continues there if possible.",
                ) from error
            sleep(min(2.0 ** (failures - 1), 30.0))


def _attempt(remote: Remote, part: Path, *, progress: DownloadProgress | None, timeout: float) -> None:
    """One request. New bytes are appended to old ones only if the server confirms that the file is still the same
    (If-Range), or if a published checksum is checked in the end.
    """
    validator = _known_validator(part)
    have = _size(part) if validator or remote.md5 else 0
    headers = {"User-Agent": "dissensus", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-"} | ({"If-Range": validator} if validator else {})
    try:
        answer = urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            _answer_to_refusal(error, remote, part)
        return
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise _InterruptedError(str(error) or type(error).__name__) from error
    with answer:
        if answer.status == 206 and _range(answer.headers)[0] != have:
            _discard(part)
            raise _InterruptedError("the server sent another part than requested")
        done = have if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length is not None and length.isdecimal() else None
        _validator_file(part).write_text(_validator(answer.headers), encoding="utf-8", errors="replace")
        with part.open("ab" if done else "wb") as out:
            while chunk := _read(answer):
                out.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
    if total is not None and done < total:
        raise _InterruptedError(f"cut off after {done:,} of {total:,} bytes")


def _answer_to_refusal(error: urllib.error.HTTPError, remote: Remote, part: Path) -> None:
    """Return if the file is already complete, ask for another attempt if that may help, else give up."""
    if error.code == 416:  # there is nothing after these bytes
        if _range(error.headers)[1] == _size(part):
            return
        _discard(part)
    elif error.code < 500 and error.code not in (408, 429):
        raise InputError(
            f"the server answers {error.code} {error.reason}",
            where=remote.url,
            hint="Look at the page of the data set (`dissensus data list` names it): the file may have moved",
        ) from error
    raise _InterruptedError(f"{error.code} {error.reason}") from error


def _read(answer: Any) -> bytes:
    """The next bytes. Separate from writing, so that a full disk is not taken for a broken connection."""
    try:
        chunk: bytes = answer.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _InterruptedError(str(error) or type(error).__name__) from error
    return chunk


def _range(headers: Any) -> tuple[int | None, int | None]:
    """Where an answer begins and the length of the file: `bytes 100-199/200` or `bytes */200`."""
    span, _, whole = str(headers.get("Content-Range", "")).removeprefix("bytes ").partition("/")
    first = span.partition("-")[0]
    return int(first) if first.isdigit() else None, int(whole) if whole.isdigit() else None


def _validator(headers: Any) -> str:
    """What to send as If-Range: a strong ETag, or else the date of the file."""
    tag = str(headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _check(remote: Remote, part: Path, *, known: Any) -> tuple[str, str]:
    """The SHA-256 of the file, and a sentence on what it was compared with; InputError if they differ."""
    with part.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    thrown_away = "The download was deleted; files that were already here are unchanged."
    if remote.md5 is not None:
        with part.open("rb") as file:
            md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        if md5 != remote.md5:
            raise InputError(
                f"the MD5 of the download is {md5}, but {remote.md5_source} says {remote.md5}",
                where=remote.url,
                hint="Run the command again: it was damaged on the way, or changed at the source",
                state=thrown_away,
            )
        return sha256, f"{remote.name}: its MD5 is the one published at {remote.md5_source}."
    if known is None:
        return (
            sha256,
            f"{remote.name}: no checksum is published; that of this first download is in {RECORD}, SHA-256 {sha256}.",
        )
    if known != sha256:
        raise InputError(
            f"its SHA-256 is {sha256}, but at the first download it was {known}",
            where=remote.url,
            hint=f"If the source really changed it, remove its entry from {RECORD} and run the command again",
            state=thrown_away,
        )
    return sha256, f"{remote.name}: no checksum is published; it is the same as at the first download, SHA-256 {sha256}."


def _read_record(root: Path) -> dict[str, dict[str, Any]]:
    path = root / RECORD
    try:
        record: dict[str, dict[str, Any]] = parse_json(read_whole(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"this is not JSON ({error})", where=str(path), hint="Correct it, or remove it") from error
    if problem := misfit(record, dict[str, _Downloaded]):
        raise InputError(f"this is no record of downloads ({problem})", where=str(path), hint="Correct it, or remove it")
    return record


class _Downloaded(TypedDict):
    """What is kept of a download, by its address."""

    sha256: str


def _write_record(root: Path, record: dict[str, dict[str, Any]]) -> None:
    fresh = root / f".{RECORD}"
    fresh.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    fresh.replace(root / RECORD)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _known_validator(part: Path) -> str:
    """What the server called the version of the part that is here; empty where that is not known, or damaged."""
    try:
        validator = read_whole(_validator_file(part)).decode("ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""
    return validator if validator.isprintable() else ""


def _validator_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    """Turn an error of the file system into a message."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise InputError(
            "the disk is full" if full else f"cannot write there ({error.strerror or error})",
            where=str(root),
            hint="Make room and run the command again" if full else "Set DISSENSUS_DATA to a folder you may write to",
            state="The bytes received so far are kept." if full else "",
        ) from error
