"""What a worker is handed at once: one spec, or several that are trained as one stack."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dissensus.engine.stacked_runs import stack_key
from dissensus.store.spec import Spec, canonical

LARGEST_STACK = 64
"""Specs in one call. Enough to fill the caches of many threads and to train a shared beginning once for many; few enough
that every worker gets some, and that an interruption costs little (it costs a call: about 25 s in the recipes 002/*)."""

StackKey = Callable[[Spec], Hashable | None]
"""Specs with the same key can be trained in one stack; None is one that is computed alone."""


@dataclass(frozen=True)
class Assignment:
    """Runs to compute in one call, as members of a `stack`, which holds more than these where some are finished already.

    Who is in a stack moves the last bits of all in it. The stack of a run depends on the plan alone, and not on what is
    finished or on the number of workers, so that an interrupted plan ends with the bits of an unbroken one.
    """

    specs: tuple[Spec, ...]
    stack: tuple[Spec, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Of the runs to compute."""
        return tuple(spec.id for spec in self.specs)


def stack_key_on(device: str | None) -> StackKey:
    """Which specs are trained together on a device. Stacks are made for the CPU: on another, every spec is alone."""
    return stack_key if device in (None, "cpu") else never_stacked


def never_stacked(spec: Spec) -> None:
    """The key of plans without stacks."""


def stacks(specs: Sequence[Spec], key: StackKey) -> dict[str, tuple[Spec, ...]]:
    """By id, the stack that a spec is in; specs that are computed alone are left out.

    Specs with the same key are cut into parts of about equal size. Specs that differ only in their epochs stay in one
    part: the shorter run is the beginning of the longer, and has its very bits. A spec that needs other runs is stacked
    only with specs that need the same: no other should wait for them.
    """
    by_key: dict[Hashable, list[Spec]] = {}
    for spec in specs:
        if (its_key := key(spec)) is not None:
            by_key.setdefault((its_key, spec.needs), []).append(spec)
    stack_of: dict[str, tuple[Spec, ...]] = {}
    for members in by_key.values():
        families: dict[str, list[Spec]] = {}
        for spec in sorted(members, key=lambda spec: int(spec.settings["epochs"])):
            families.setdefault(canonical({**spec.settings, "epochs": 0}), []).append(spec)
        in_order = [families[name] for name in sorted(families)]
        parts = math.ceil(len(members) / LARGEST_STACK)
        cuts = [len(in_order) * part // parts for part in range(parts + 1)]
        for start, end in pairwise(cuts):
            stack = tuple(spec for family in in_order[start:end] for spec in family)
            stack_of.update((spec.id, stack) for spec in stack if len(stack) > 1)
    return stack_of
