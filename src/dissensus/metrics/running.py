"""Metrics that are fed batch by batch: `update`, `compute`, `reset`, as torchmetrics has them, without needing it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor, distributed

from dissensus.errors import InputError
from dissensus.metrics.agreement import majority, second_best_agreement
from dissensus.metrics.calibration import top_label
from dissensus.metrics.ceiling import soft_brier_unbiased, soft_nll_floor
from dissensus.metrics.checks import checked_counts, checked_gold, checked_log_probs, checked_target
from dissensus.metrics.proper import js, kl, nll_gold, soft_brier, soft_nll
from dissensus.metrics.scoring import METRICS


class RunningMetric:
    """A metric of `METRICS` that is a mean over items, or a number of items, fed batch by batch.

    `PER_ITEM` has their names. The others (ECE, correlations, ceilings) need all predictions at once: collect them and
    call `score`. The result is that of `score` on all batches together; where `score` gives None, it is infinite, or NaN
    if no item counts. All that is kept are a sum and a number of items, in float64.

    Where `torch.distributed` is initialised, `compute` adds up over all processes, so all of them must call it; with
    `sync_on_compute=False` each gives its own. For NCCL move the metric to the GPU with `to`.

    >>> metric = RunningMetric("soft_nll")
    >>> metric.update(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]))
    >>> metric.compute()
    tensor(0.6931, dtype=torch.float64)
    """

    def __init__(self, name: str, *, sync_on_compute: bool = True) -> None:
        if name not in PER_ITEM:
            hint = f"Collect all predictions and call score; means over items are {', '.join(PER_ITEM)}"
            what = "needs all predictions at once" if name in METRICS else "is not a metric"
            raise InputError(f"{name!r} {what}", where="metric", hint=hint, state="")
        self.name, self.sync_on_compute = name, sync_on_compute
        self._sums = torch.zeros(2, dtype=torch.float64)  # of the values, and of the items that have one

    @property
    def higher_is_better(self) -> bool | None:
        """None where neither is."""
        return {"higher": True, "lower": False}.get(METRICS[self.name].direction)

    @property
    def device(self) -> torch.device:
        """Where the sums are."""
        return self._sums.device

    def update(
        self,
        log_probs: Tensor,
        target: Tensor,
        gold: Tensor | None = None,
        counts: Tensor | None = None,
        truth: Tensor | None = None,
    ) -> None:
        """Add a batch. The arguments are those of `score`; `counts` and `truth` are for the metrics that need them."""
        self._sums += self._batch(log_probs, target, gold, counts, truth)

    def __call__(
        self,
        log_probs: Tensor,
        target: Tensor,
        gold: Tensor | None = None,
        counts: Tensor | None = None,
        truth: Tensor | None = None,
    ) -> Tensor:
        """Add a batch, and give the value of this batch alone."""
        sums = self._batch(log_probs, target, gold, counts, truth)
        self._sums += sums
        return self._value(sums)

    def compute(self) -> Tensor:
        """The metric over everything since the last `reset`, float64, shape []."""
        sums = self._sums.clone()
        if self.sync_on_compute and distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(sums)
        return self._value(sums)

    def reset(self) -> None:
        """Forget all batches."""
        self._sums.zero_()

    def merge_state(self, other: RunningMetric) -> None:
        """Add what another metric of the same name has seen."""
        if other.name != self.name:
            raise InputError(f"{other.name} cannot be added to {self.name}", where="metric", state="")
        self._sums += other._sums.to(self.device)

    def to(self, device: torch.device | str) -> Self:
        """Keep the sums on this device."""
        self._sums = self._sums.to(device)
        return self

    def __repr__(self) -> str:
        return f"RunningMetric({self.name!r})"

    def _batch(
        self, log_probs: Tensor, target: Tensor, gold: Tensor | None, counts: Tensor | None, truth: Tensor | None
    ) -> Tensor:
        values = PER_ITEM[self.name](_Batch.checked(log_probs, target, gold, counts, truth))
        kept = ~values.isnan()
        return torch.stack([values[kept].sum(), kept.sum().double()]).to(self.device)

    def _value(self, sums: Tensor) -> Tensor:
        return sums[0] if METRICS[self.name].unit == "items" else sums[0] / sums[1]


@dataclass(frozen=True, eq=False)
class _Batch:
    """What a batch gives to a metric, checked; what several parts of a metric share is computed once."""

    log_probs: Tensor
    target: Tensor
    gold: Tensor
    given_counts: Tensor | None
    given_truth: Tensor | None

    @classmethod
    def checked(
        cls, log_probs: Tensor, target: Tensor, gold: Tensor | None, counts: Tensor | None, truth: Tensor | None
    ) -> _Batch:
        log_probs = checked_log_probs(log_probs)
        target = checked_target(target, log_probs)
        return cls(
            log_probs,
            target,
            majority(target) if gold is None else checked_gold(gold, log_probs),
            None if counts is None else checked_counts(counts, log_probs),
            None if truth is None else checked_target(truth, log_probs),
        )

    @cached_property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        return top_label(self.log_probs, self.gold)

    @property
    def counts(self) -> Tensor:
        return _needed(self.given_counts, "counts")

    @property
    def truth(self) -> Tensor:
        return _needed(self.given_truth, "truth")


def _needed(given: Tensor | None, name: str) -> Tensor:
    if given is None:
        raise InputError(f"this metric needs `{name}`", where="update", hint=f"Pass {name}=", state="")
    return given


Values = Callable[[_Batch], Tensor]


def _finite(values: Tensor) -> Tensor:
    return values.where(values.isfinite(), math.nan)


def _that_may_be_infinite(name: str, values: Values) -> dict[str, Values]:
    return {
        name: values,
        f"{name}_infinite_items": lambda batch: values(batch).isinf().double(),
        f"{name}_finite_mean": lambda batch: _finite(values(batch)),
    }


PER_ITEM: dict[str, Values] = {
    **_that_may_be_infinite("soft_nll", lambda batch: soft_nll(batch.log_probs, batch.target)),
    **_that_may_be_infinite("kl", lambda batch: kl(batch.log_probs, batch.target)),
    "js": lambda batch: js(batch.probs, batch.target),
    "soft_brier": lambda batch: soft_brier(batch.probs, batch.target),
    **_that_may_be_infinite("nll_gold", lambda batch: nll_gold(batch.log_probs, batch.gold)),
    "accuracy": lambda batch: batch.top[1].double(),
    "second_best_accuracy": lambda batch: second_best_agreement(batch.log_probs, batch.target),
    "second_best_accuracy_well_defined": lambda batch: second_best_agreement(
        batch.log_probs, batch.target, well_defined=True
    ),
    "brier_top": lambda batch: (batch.top[0] - batch.top[1].double()).square(),
    "confidence_right": lambda batch: batch.top[0].where(batch.top[1], math.nan),
    "confidence_wrong": lambda batch: batch.top[0].where(~batch.top[1], math.nan),
    "soft_nll_floor": lambda batch: soft_nll_floor(batch.target),
    "soft_brier_unbiased": lambda batch: soft_brier_unbiased(batch.probs, batch.counts),
    "soft_brier_unbiased_left_out": lambda batch: soft_brier_unbiased(batch.probs, batch.counts).isnan().double(),
    "kl_to_truth": lambda batch: kl(batch.log_probs, batch.truth),
    "soft_nll_of_truth": lambda batch: soft_nll(batch.truth.log(), batch.target),
}
"""The metrics of `METRICS` that are means over items (or numbers of items): one value per item, NaN for one left out."""
