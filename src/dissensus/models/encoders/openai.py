"""openai:MODEL, embeddings over HTTP, for example openai:text-embedding-3-large. Standard library only.

The key is read from OPENAI_API_KEY; OPENAI_BASE_URL names another server that speaks the same language. A busy or broken
server is asked again, as late as it says in Retry-After, else after 1, 2, 4 … seconds. The key goes to that server alone:
no redirect is followed, since it may lead to another host.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from dissensus.errors import InputError
from dissensus.models.encoders.encoder import Name, Reads, Vectors
from dissensus.store.json_types import parse_json

SERVICE = "https://api.openai.com/v1"
DIMENSIONS = {"text-embedding-3-large": 3072, "text-embedding-3-small": 1536, "text-embedding-ada-002": 1536}
ATTEMPTS = 6
LONGEST_WAIT = 60.0  # seconds
REDIRECTS = (301, 302, 303, 307, 308)

_KEPT = "What was embedded so far is kept, and the same command goes on from there."


class OpenAI:
    """The encoder; nothing is asked of the server before the first batch."""

    reads: Reads = "texts"
    batch = 128

    def __init__(self, name: Name, sleep: Callable[[float], None] = time.sleep, timeout: float = 120.0) -> None:
        self._model = name.model or "text-embedding-3-large"
        self._base = os.environ.get("OPENAI_BASE_URL", SERVICE).rstrip("/")
        self._sleep, self._timeout = sleep, timeout
        self._dimension = DIMENSIONS.get(self._model)
        where = urllib.parse.urlsplit(self._base)
        self._shown = self._base.replace(f"{where.netloc.rpartition('@')[0]}@", "")  # without a name and password
        self.provenance: dict[str, Any] = {
            "encoder": f"openai:{self._model}",
            "model": self._model,
            "version": f"{where.hostname}{where.path}",  # without a name and password that the address may hold
            "pooling": "the service's own",
        }

    def __call__(self, items: Sequence[str]) -> Vectors:
        """float32 [B, D]."""
        answer = self._ask(list(items))
        try:
            rows = sorted(answer["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise self._nonsense(f"not embeddings of one length ({error})") from error
        if vectors.ndim != 2 or len(vectors) != len(items):
            raise self._nonsense(f"{len(rows)} embeddings for {len(items)} texts")
        if not vectors.size or not np.isfinite(vectors).all():
            raise self._nonsense("embeddings that are empty or not finite")
        if self._dimension not in (None, vectors.shape[1]):
            raise self._nonsense(f"embeddings of {vectors.shape[1]:,} numbers, not {self._dimension:,}")
        self._dimension = vectors.shape[1]
        return vectors

    def _ask(self, texts: list[str]) -> Any:
        """The parsed answer, after as many attempts as it takes or makes sense."""
        body = json.dumps({"model": self._model, "input": texts, "encoding_format": "float"}).encode()
        headers = {"Authorization": f"Bearer {_key()}", "Content-Type": "application/json", "User-Agent": "dissensus"}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                request = urllib.request.Request(f"{self._base}/embeddings", body, headers)
            except ValueError:
                problem = "this is no address of a server"
                raise InputError(problem, where="OPENAI_BASE_URL", hint="Write https://HOST/v1", state=_KEPT) from None
            try:
                with _OPENER.open(request, timeout=self._timeout) as answer:
                    return parse_json(answer.read())
            except urllib.error.HTTPError as refusal:
                with refusal:
                    wait, why = self._after(refusal), f"{refusal.code} {refusal.reason}"
            except (OSError, http.client.HTTPException) as error:
                wait, why = None, str(error) or type(error).__name__
            except ValueError as error:
                raise self._nonsense(f"not JSON ({error})") from error
            if attempt < ATTEMPTS:
                self._sleep(min(2.0 ** (attempt - 1) if wait is None else wait, LONGEST_WAIT))
        problem = f"the server failed {ATTEMPTS} times in a row ({why})"
        raise InputError(problem, where=self._shown, hint="Wait, and run the command again", state=_KEPT)

    def _after(self, refusal: urllib.error.HTTPError) -> float | None:
        """How long the server wants us to wait; InputError where waiting does not help."""
        message = _message(refusal)
        if refusal.code in (401, 403):
            hint = "Set OPENAI_API_KEY to a key that is valid there"
            raise InputError(f"the server refuses the key ({message})", where=self._shown, hint=hint, state=_KEPT)
        if refusal.code in REDIRECTS:
            target = urllib.parse.urlsplit(refusal.headers.get("Location", ""))
            raise InputError(
                f"the server sends us on to {target.scheme}://{target.hostname}{target.path}, where the key does not go",
                where=self._shown,
                hint="If you trust that address, set OPENAI_BASE_URL to it",
                state=_KEPT,
            )
        if "insufficient_quota" in message or (refusal.code < 500 and refusal.code not in (408, 409, 429)):
            problem = f"the server refuses the request: {refusal.code} {refusal.reason} ({message})"
            raise InputError(problem, where=self._shown, state=_KEPT)
        wait = refusal.headers.get("Retry-After", "")
        return float(wait) if wait.replace(".", "", 1).isdigit() else None

    def _nonsense(self, answer: str) -> InputError:
        return InputError(
            f"the server answers with {answer}", where=self._shown, hint="Check OPENAI_BASE_URL", state=_KEPT
        )


def _key() -> str:
    key = os.environ.get("OPENAI_API_KEY", "")
    if not key:
        raise InputError("there is no key for the service", where="openai", hint="Set OPENAI_API_KEY", state=_KEPT)
    if not key.isascii() or not key.isprintable() or " " in key:
        problem = "the key has characters that no key has, such as a line break"
        raise InputError(problem, where="openai", hint="Set OPENAI_API_KEY to the key alone", state=_KEPT)
    return key


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Would send the Authorization header along, to whatever host the answer names."""

    @override
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirects)


def _message(refusal: urllib.error.HTTPError) -> str:
    """The server's own words, with its code for machines, as far as there are any."""
    try:
        error = json.loads(refusal.read())["error"]
        return ": ".join(str(error[part]) for part in ("code", "message") if error.get(part))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return str(refusal.reason)
