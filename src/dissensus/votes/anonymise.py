"""Annotators under names that say nothing about them: a keyed hash, so that nobody without the key can test a guess."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.votes import Votes

DIGITS = 12  # 48 bits: ten thousand annotators share a name with a chance below 1 in 5 million, and that is refused


def anonymise(votes: Votes, salt: str) -> tuple[Votes, dict[str, str]]:
    """The votes with every annotator renamed to the first digits of HMAC-SHA256(salt, name), and the mapping old -> new.

    The same salt gives the same names, in another file too. Who has the salt can test whether a person is in the data, so
    publish neither the salt nor the mapping. Annotators are put in the order of their new names, and those without a vote
    are left out; items and classes stay.

    >>> renamed, _ = anonymise(Votes([0, 0], [0, 1], ["a"], ["x", "y"], [0, 1], ["ann", "bob"]), salt="s")
    >>> renamed.annotators
    ('2602b7271272', '3a96c6610ff1')
    """
    if votes.annotator is None or votes.annotators is None:
        raise InputError(
            "these votes have no annotators", where="anonymise", hint="Export `soft`, which needs none", state=""
        )
    if not salt:
        raise InputError("the salt is empty", where="anonymise", hint="Give any long text that you keep secret", state="")

    present = [votes.annotators[index] for index in np.unique(votes.annotator)]
    mapping = {name: _hashed(name, salt) for name in present}
    names = sorted(mapping.values())
    if len(set(names)) < len(names):
        raise InputError("two annotators got the same name", where="anonymise", hint="Use another salt", state="")
    place = {name: index for index, name in enumerate(names)}
    new = np.array([place[mapping[name]] if name in mapping else -1 for name in votes.annotators])
    renamed = Votes(
        votes.item, votes.label, votes.items, votes.classes, new[votes.annotator], tuple(names), votes.read_as
    )
    return renamed, mapping


def _hashed(name: str, salt: str) -> str:
    return hmac.new(salt.encode(), name.encode(), hashlib.sha256).hexdigest()[:DIGITS]
