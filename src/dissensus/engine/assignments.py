"""What a worker is handed at once: one spec, or several that are computed in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dissensus.engine.stacked_runs import alike
from dissensus.store.spec import Spec, canonical

MOST_TOGETHER = 64
"""Specs in one call. Enough to fill the caches of many threads with stacks and to train a prefix once for many; few
enough that every worker gets some, and that an interruption, which costs a call, costs little: 002's take about 25 s."""

Key = Callable[[Spec], Hashable | None]


@dataclass(frozen=True)
class Job:
    """Runs to compute, in the `company` of others where it is larger.

    Who is in a stack moves the last bits of all in it. The company of a run depends on the plan alone, and not on what is
    finished or on the number of workers, so that an interrupted plan ends with the bits of an unbroken one.
    """

    specs: tuple[Spec, ...]
    company: tuple[Spec, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """Ids of what is to be computed."""
        return tuple(spec.id for spec in self.specs)


def grouping(device: str | None) -> Key:
    """Which specs are computed together: stacks are made for the CPU, so nothing is where another device is asked for."""
    return alike if device in (None, "cpu") else lambda spec: None  # noqa: ARG005


def companies(specs: Sequence[Spec], key: Key) -> dict[str, tuple[Spec, ...]]:
    """By id, with whom a spec is computed, itself included; specs that are computed alone are not in it.

    Those of one key are cut into parts of about equal size. Specs that differ in their epochs alone are never parted: the
    shorter run is the beginning of the longer, and has its very bits. A spec that waits for others is in the company of
    those alone that wait for the same: nobody else should wait for its sake.
    """
    of_one_key: dict[Hashable, list[Spec]] = {}
    for spec in specs:
        if (found := key(spec)) is not None:
            of_one_key.setdefault((found, spec.needs), []).append(spec)
    together: dict[str, tuple[Spec, ...]] = {}
    for members in of_one_key.values():
        families: dict[str, list[Spec]] = {}
        for spec in sorted(members, key=lambda spec: int(spec.settings["epochs"])):
            families.setdefault(canonical({**spec.settings, "epochs": 0}), []).append(spec)
        in_order = [families[name] for name in sorted(families)]
        parts = math.ceil(len(members) / MOST_TOGETHER)
        cuts = [len(in_order) * place // parts for place in range(parts + 1)]
        for start, end in pairwise(cuts):
            part = tuple(spec for family in in_order[start:end] for spec in family)
            together.update((spec.id, part) for spec in part if len(part) > 1)
    return together
