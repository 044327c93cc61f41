"""Data: what the model sees, and what people said about it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.agreement import majority
from dissensus.metrics.checks import check_probabilities
from dissensus.metrics.row_blocks import Rows, blocks
from dissensus.votes.votes import Votes

Text = str | tuple[str, str]
"""What people read about an item: a text, or a pair of texts (premise and hypothesis)."""

Moments = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and std per channel of images in [0, 1]."""


MOST_HASHED = 50_000_000
"""Votes that are hashed one by one. A count in a small file may stand for a thousand million."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows aligned by id: inputs, and what is known about their labels.

    `x` is uint8 [N, C, H, W] for images, float32 [N, D] for features, or None where only labels matter. `texts` are what
    people read, if they read: an encoder turns them into `x`. What people said is `votes`, or `probs` where only their
    shares are known. `truth` is the distribution that the votes of a simulated crowd were drawn from. `notes` are
    sentences for every report on these data (a partial download, a simulated crowd, where features come from). `moments`
    are the mean and std that all papers on these images normalise by; they are not part of the digest.
    """

    name: str
    classes: tuple[str, ...]
    ids: tuple[str, ...]
    x: Tensor | None = None
    votes: Votes | None = None
    probs: Tensor | None = None
    gold: Tensor | None = None
    truth: Tensor | None = None
    notes: tuple[str, ...] = field(default=())
    texts: tuple[Text, ...] | None = None
    moments: Moments | None = None

    def __post_init__(self) -> None:
        n, k = len(self.ids), len(self.classes)
        for name in ("x", "texts", "probs", "gold", "truth"):
            rows = getattr(self, name)
            if rows is not None and len(rows) != n:
                raise InputError(f"{name} has {len(rows)} rows but there are {n} ids", where=self.name, state="")
        if self.votes is not None and (self.votes.items != self.ids or self.votes.classes != self.classes):
            raise InputError("the votes have other items or classes than the data", where=self.name, state="")
        if self.votes is not None and self.probs is not None:
            raise InputError("give votes or probabilities, not both", where=self.name, state="")
        if self.probs is not None:
            check_probabilities(self.probs, k, where=self.name)
        if self.gold is not None and len(self.gold) and not 0 <= int(self.gold.min()) <= int(self.gold.max()) < k:
            raise InputError(f"gold labels are outside 0…{k - 1}", where=self.name, state="")

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of_votes(cls, votes: Votes, x: Tensor | None = None, gold: Tensor | None = None, name: str = "votes") -> Data:
        """Data whose items are those of the votes, in their order."""
        return cls(name=name, classes=votes.classes, ids=votes.items, x=x, votes=votes, gold=gold)

    def subset(self, rows: Tensor) -> Data:
        """The data of these rows alone, in this order."""
        chosen = rows.tolist()
        return replace(
            self,
            ids=tuple(self.ids[row] for row in chosen),
            x=None if self.x is None else self.x[rows],
            votes=None if self.votes is None else self.votes.subset(rows.numpy()),
            probs=None if self.probs is None else self.probs[rows],
            gold=None if self.gold is None else self.gold[rows],
            truth=None if self.truth is None else self.truth[rows],
            texts=None if self.texts is None else tuple(self.texts[row] for row in chosen),
        )

    @property
    def voted(self) -> bool:
        """Whether it is known what people said: votes, or probabilities in their place."""
        return self.votes is not None or self.probs is not None

    @cached_property
    def people(self) -> Tensor:
        """What people said, float64 [N, K]: shares of votes, or the probabilities given instead."""
        if self.votes is not None:
            return torch.from_numpy(self.votes.soft.copy())
        if self.probs is not None:
            return self.probs.double()
        raise InputError(
            "these data have no votes",
            where=self.name,
            hint="Use the target `gold`, which needs only the data set's own labels",
            state="",
        )

    @cached_property
    def counts(self) -> Tensor | None:
        """Votes counted, int64 [N, K]; None where only probabilities are known."""
        return None if self.votes is None else torch.from_numpy(self.votes.counts.copy())

    def people_rows(self, rows: Tensor) -> Rows:
        """`people` of these items, made as it is read: 100,000 items of 1,000 classes take no room."""
        if self.votes is None or "people" in vars(self):
            return self.people[rows]
        return _FewRows(self.votes, rows, shares=True)

    def count_rows(self, rows: Tensor) -> Rows | None:
        """`counts` of these items, made as they are read."""
        return None if self.votes is None else _FewRows(self.votes, rows)

    @cached_property
    def labels(self) -> Tensor:
        """One class per item for hard metrics and strata, int64 [N]: gold where there is one, else the majority."""
        if self.gold is not None:
            return self.gold.long()
        people = self.people_rows(torch.arange(len(self)))
        return torch.cat([majority(people[block]) for block in blocks(people.shape)])

    @property
    def has_gold(self) -> bool:
        """Whether `labels` are the data set's own, and not the majority's."""
        return self.gold is not None

    @cached_property
    def digest(self) -> str:
        """A hash of the content, not of the file it came from: of every vote, or, of very many, of their counts."""
        sha = hashlib.sha256(repr((self.name, self.classes, self.ids)).encode())
        if self.texts is not None:
            sha.update(repr(self.texts).encode())
        if self.votes is not None and self.votes.annotators is not None:
            sha.update(repr(self.votes.annotators).encode())
        for name, part in {"x": self.x, "probs": self.probs, "gold": self.gold, "truth": self.truth}.items():
            if part is not None:
                sha.update(f"{name} {part.dtype} {tuple(part.shape)}".encode())
                sha.update(np.ascontiguousarray(part.numpy()).tobytes())
        if self.votes is not None and self.votes.annotators is None and self.votes.n_votes > MOST_HASHED:
            for values in self.votes.cells:
                sha.update(np.ascontiguousarray(values).tobytes())
        elif self.votes is not None:
            for column in self.votes.columns:
                sha.update(f"{column} torch.int64 ({self.votes.n_votes},)".encode())
                for rows in self.votes.rows_in_parts(column):
                    sha.update(np.ascontiguousarray(rows).tobytes())
        return sha.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class _FewRows:
    """Votes counted [N, K], or their shares, for some items, made as they are read."""

    votes: Votes
    rows: Tensor
    shares: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""
        return len(self.rows), len(self.votes.classes)

    def __getitem__(self, rows: slice, /) -> Tensor:
        counts = self.votes.counts_of(self.rows[rows].numpy())
        return torch.from_numpy(counts / counts.sum(1, keepdims=True) if self.shares else counts)


def to_float(x: Tensor) -> Tensor:
    """What models see: uint8 images as float32 in [0, 1]; anything else as it is.

    >>> to_float(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
    [0.0, 1.0]
    """
    return x.float().div_(255) if x.dtype == torch.uint8 else x
