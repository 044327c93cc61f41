"""Checkpoints: everything that decides the rest of a run, in one file that is used only if it is whole."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from dissensus.store.atomic_files import explain_unwritable, read_whole, write_whole

_DIGEST = hashlib.sha256().digest_size


def save(file: Path, content: dict[str, Any]) -> None:
    """Save tensors, numbers, strings, and lists and dictionaries of them. The file begins with the digest of the rest."""
    stream = io.BytesIO()
    torch.save(content, stream)
    payload = stream.getvalue()
    with explain_unwritable(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, hashlib.sha256(payload).digest() + payload)


def load(file: Path) -> dict[str, Any] | None:
    """The content; None where there is no file, or where it was cut short or changed: then the run starts again."""
    try:
        stored = read_whole(file)
    except FileNotFoundError:
        return None
    payload = stored[_DIGEST:]
    if hashlib.sha256(payload).digest() != stored[:_DIGEST]:
        return None
    try:
        content = torch.load(io.BytesIO(payload), weights_only=True)
    except Exception:  # torch has no one error for what it did not save
        return None
    return content if isinstance(content, dict) else None
