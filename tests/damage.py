"""Damage to what dissensus wrote, thousands of times: it is read as it was, or refused with an InputError. Nothing else.

Each kind of file has a class: `prepare` writes a good one into a folder, `attempt` damages a copy and reads it the way
the commands do. tests/test_damage.py runs some hundred of each, `make bench WHAT=fuzz` a million.
"""

from __future__ import annotations

import copy
import gzip
import json
import random as dice
import shutil
import signal
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dissensus.errors import InputError

LONGEST = 20
"""Seconds after which an attempt counts as hanging."""

ODD = (
    *(None, True, False, 0, -1, 1, 2**63, 10**400, 1e308, -1e308, 0.5, "", "x", "soft", "\ud800", "\x1b[2J", "../../x"),
    *([], {}, [None], [[]], [1, 2], {"name": "mapping"}, {"name": "score"}, {"name": "mapping", "entries": [[[], 0]]}),
    *("a\0b", "0" * 16, "=1+1", "NaN", [["a", 1]], {"a": {"b": {}}}, "9" * 5000),
)
"""Values that do not belong where they are put."""

NOT_JSON = ("NaN", "Infinity", "1e999", "[" * 5000, '"\\ud800"', "{}{}", "\ufeff{}", "nul")


@dataclass
class Tally:
    """How often files were damaged, and what came of it."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def tried(self, kind: str | None = None) -> int:
        """How many attempts, of one kind or of all."""
        return sum(count for (name, _), count in self.outcomes.items() if kind in (None, name))

    def table(self) -> str:
        """A line per kind."""
        names = dict.fromkeys(name for name, _ in self.outcomes)
        return "\n".join(
            f"{name:<14}{self.tried(name):>10,} damaged {self.outcomes[name, 'refused']:>10,} refused "
            f"{self.outcomes[name, 'read']:>10,} read {self.outcomes[name, 'failed']:>6,} failed"
            for name in names
        )


def run(kinds, folder: Path, attempts: int, seed: int, tally: Tally | None = None) -> Tally:
    """So many attempts on each kind. An attempt is known by its seed: the same seed does the same damage."""
    tally = tally or Tally()
    for kind in kinds:
        place = folder / kind.name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        kind.prepare(place)
        for number in range(attempts):
            key = f"{kind.name} {seed} {number}"
            outcome = attempt(kind, place, key)
            tally.outcomes[kind.name, outcome[0]] += 1
            if outcome[0] == "failed":
                tally.failures.append(f"{key}: {outcome[1]}")
    return tally


def attempt(kind, place: Path, key: str) -> tuple[str, str]:
    """(read, refused or failed, and what failed)."""
    try:
        with time_limit(LONGEST):
            kind.attempt(place, dice.Random(key))
    except InputError as refusal:
        return ("refused", "") if refusal.what and str(refusal).strip() else ("failed", "a refusal without words")
    except (Exception, KeyboardInterrupt):
        return "failed", traceback.format_exc()
    return "read", ""


@contextmanager
def time_limit(seconds: int):
    """A KeyboardInterrupt after so many seconds."""

    def ring(number, frame):
        raise KeyboardInterrupt("it hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def damaged_bytes(content: bytes, throw: dice.Random) -> bytes:
    """As disks, editors and networks do it: bits flip, parts vanish, come twice, change places or are overwritten."""
    content = bytearray(content)
    for _ in range(throw.choice((1, 1, 1, 2, 5))):
        start = throw.randrange(len(content) + 1)
        end = min(len(content), start + throw.choice((1, 1, 4, 16, 200)))
        way = throw.randrange(9)
        if way == 0 and start < len(content):
            content[start] ^= 1 << throw.randrange(8)
        elif way == 1:
            content[start:end] = throw.randbytes(end - start)
        elif way == 2:
            del content[start:end]
        elif way == 3:
            content[start:start] = content[start:end]
        elif way == 4:
            content[start:start] = throw.choice((b"\0", b"\xff", b'"', b"}", b"]", b"\n", b",", b"-", b"\xed\xa0\x80"))
        elif way == 5:
            del content[start:]
        elif way == 6:
            content[start:end] = bytes(end - start)
        elif way == 7:
            content[:] = content[start:] + content[:start]
        elif way == 8 and throw.random() < 0.1:
            content.clear()
    return bytes(content)


def damaged_json(document, throw: dice.Random):
    """The document with some parts replaced, lost, doubled, renamed or exchanged."""
    document = copy.deepcopy(document)
    for _ in range(throw.choice((1, 1, 1, 2, 3))):
        spots = list(_spots(document))
        holder, key = throw.choice(spots)
        way = throw.randrange(8)
        if way <= 3:
            holder[key] = copy.deepcopy(throw.choice(ODD))
        elif way == 4:
            del holder[key]
        elif way == 5:
            other, there = throw.choice(spots)
            holder[key] = copy.deepcopy(
                other.get(there) if isinstance(other, dict) else other[there % max(1, len(other))]
            )
        elif way == 6 and isinstance(holder, list):
            holder.insert(throw.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        elif way == 6:
            holder[throw.choice(("x", "", "name", f"{key} "))] = holder.pop(key)
        elif isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            number = holder[key] if abs(holder[key]) < 1e300 else 1
            holder[key] = throw.choice((-number, number * 1e6, str(number), number + 0.5))
        else:
            holder[key] = [holder[key]]
        if not document:
            return document
    return document


def _spots(document):
    """(dictionary or list, key or index) of every part inside."""
    waiting = [document]
    while waiting:
        holder = waiting.pop()
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])


def damaged_text(document, throw: dice.Random) -> bytes:
    """A JSON document, damaged in its parts or in its bytes."""
    text = json.dumps(document)
    way = throw.random()
    if way < 0.7:
        return json.dumps(damaged_json(document, throw)).encode()
    if way < 0.75:
        at = throw.choice([index for index, letter in enumerate(text) if letter in ":[,"] or [0])
        return (text[: at + 1] + throw.choice(NOT_JSON) + text[at + 1 :]).encode("utf-8", "surrogatepass")
    return damaged_bytes(text.encode(), throw)


def damaged_file(file: Path, throw: dice.Random) -> None:
    """Damage a file in its place: what is in it, or that it is a file at all."""
    way = throw.random()
    if way < 0.9:
        content = file.read_bytes()
        try:
            document = json.loads(content) if throw.random() < 0.7 and content[:1] in b"{[" else None
        except ValueError:
            document = None
        file.write_bytes(damaged_text(document, throw) if document else damaged_bytes(content, throw))
        return
    file.unlink()
    if way < 0.94:
        return
    if way < 0.96:
        file.mkdir()
    elif way < 0.98:
        file.symlink_to(throw.choice((file.name, "nowhere", "/dev/null", "/")))
    else:
        file.write_bytes(b"")


def packed(documents) -> bytes:
    """Documents as a file of records."""
    return gzip.compress("".join(f"{json.dumps(document)}\n" for document in documents).encode(), 1, mtime=0)
