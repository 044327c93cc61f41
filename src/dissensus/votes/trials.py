"""Trials of a labelling experiment with attention checks: who passed them, how fast people were, which votes to keep.

The columns are those of CIFAR-10H's per-annotator file, `cifar10h-raw.csv` (Peterson et al. 2019): one row per trial.
Each of 2,571 annotators had 200 images, and an obvious one after every twenty. Those with fewer than 75% of these right
were removed before the analysis: 14, the paper says, which leaves 2,557 × 200 = 511,400 votes. The released counts hold
511,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.roles import listed
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Floats, Ints

WHO, CHECK, RIGHT, LABEL, IMAGE = (
    "annotator_id",
    "is_attn_check",
    "correct_guess",
    "chosen_label",
    "cifar10_test_test_idx",
)
TIME = "reaction_time"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_GET = "Get the file again: `dissensus data get cifar10h`"

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cleaning:
    """Which votes are left out.

    Those of annotators with less than `passing` of their attention checks right; those that took fewer than `fastest` or
    more than `slowest` milliseconds, where that is given.
    """

    passing: float = 0.75
    fastest: float | None = None
    slowest: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.passing <= 1:
            what = f"the share of attention checks to pass is {self.passing}"
            raise InputError(what, where="cleaning", hint="Give a share from 0 to 1, such as 0.75", state="")
        if self.fastest is not None and self.slowest is not None and self.fastest > self.slowest:
            what = f"the fastest time is {self.fastest:g} ms and the slowest {self.slowest:g} ms"
            raise InputError(what, where="cleaning", hint="Give the smaller one first", state="")


@dataclass(frozen=True, eq=False)
class Sifted:
    """`kept` [T] says which trials are votes that stay; `removed` counts the others by reason; `notes` say more."""

    kept: Mask
    removed: dict[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Trials:
    """One entry per trial: who, whether it was an attention check, whether the choice was right, which class of which
    image, and how long it took (NaN where no time was measured)."""

    people: tuple[str, ...]
    annotator: Ints
    is_check: Mask
    is_right: Mask
    label: Ints
    image: Ints
    milliseconds: Floats

    @property
    def passed(self) -> Floats:
        """The share of attention checks that each annotator got right; NaN for those who had none."""
        checks, right = (
            np.bincount(self.annotator[rows], minlength=len(self.people))
            for rows in (self.is_check, self.is_check & self.is_right)
        )
        return np.where(checks > 0, right / np.maximum(checks, 1), np.nan)

    def sift(self, cleaning: Cleaning) -> Sifted:
        """What stays after cleaning, and a count of what does not, each trial under the first reason that fits."""
        passed = self.passed
        failed = passed < cleaning.passing  # NaN is not
        times = self.milliseconds
        reasons: dict[str, Mask] = {
            "attention checks": self.is_check,
            f"votes of {int(failed.sum()):,} of {len(self.people):,} annotators with less than {cleaning.passing:.0%} of "
            "their attention checks right": failed[self.annotator],
        }
        if cleaning.fastest is not None:
            reasons[f"votes faster than {cleaning.fastest:g} ms"] = times < cleaning.fastest
        if cleaning.slowest is not None:
            reasons[f"votes slower than {cleaning.slowest:g} ms"] = times > cleaning.slowest
        kept: Mask = np.ones(len(self.annotator), dtype=bool)
        removed: dict[str, int] = {}
        for reason, mask in reasons.items():
            removed[reason] = int((kept & mask).sum())
            kept &= ~mask
        notes = []
        if unchecked := int(np.isnan(passed).sum()):
            notes.append(f"{unchecked:,} annotators had no attention check, and were kept")
        measured = times[kept & ~np.isnan(times)]
        if len(measured):
            low, middle, high = np.quantile(measured, [0.05, 0.5, 0.95])
            notes.append(
                f"reaction times of the votes kept: median {middle:.0f} ms, 5% below {low:.0f}, 5% above {high:.0f}"
            )
        if unmeasured := int(np.isnan(times[kept]).sum()):
            notes.append(f"{unmeasured:,} of the votes kept have no reaction time, or one that is not above 0")
        return Sifted(kept, removed, tuple(notes))


def is_trials(names: Sequence[str]) -> bool:
    """Whether a table with these columns is the per-annotator file of CIFAR-10H."""
    return {WHO, CHECK, LABEL, IMAGE} <= set(names)


def read_trials(table: FileTable) -> Trials:
    """The trials of `cifar10h-raw.csv`, every cell that is used checked."""
    if absent := [name for name in (WHO, CHECK, RIGHT, LABEL, IMAGE, TIME) if name not in table.names]:
        what = f"there is no column {absent[0]!r} (the columns are: {listed(table.names)})"
        raise InputError(what, where=str(table.path), hint=_GET)
    who, check, right, label, image = (
        _whole(table, name, low, high)
        for name, low, high in (
            (WHO, 0, None),
            (CHECK, 0, 1),
            (RIGHT, 0, 1),
            (LABEL, 0, len(CLASSES) - 1),
            (IMAGE, None, None),
        )
    )
    is_check = check == 1
    if (nowhere := ~is_check & (image < 0)).any():
        row = int(np.argmax(nowhere))
        raise InputError(f"a vote is on image {image[row]}", where=table.where(row), hint=_GET)
    (times,) = table.numbers([TIME])
    if times is None:
        raise InputError(f"column {TIME!r} has a cell that is no number", where=str(table.path), hint=_GET)
    names, annotator = np.unique(who, return_inverse=True)
    return Trials(
        tuple(map(str, names)), annotator, is_check, right == 1, label, image, np.where(times > 0, times, np.nan)
    )


def _whole(table: FileTable, name: str, low: int | None, high: int | None) -> Ints:
    (values,) = table.numbers([name])
    if values is None:
        raise InputError(f"column {name!r} has a cell that is no number", where=str(table.path), hint=_GET)
    good = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)
    good &= (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
    if not good.all():
        row = int(np.argmin(good))
        allowed = "a whole number" + ("" if low is None else f" from {low}" + (" on" if high is None else f" to {high}"))
        raise InputError(f"{name} is {values[row]:g}, not {allowed}", where=table.where(row), hint=_GET)
    return values.astype(np.int64)
