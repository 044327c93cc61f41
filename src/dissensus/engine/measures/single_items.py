"""What runs say of single items: those with one winner among the votes, and examples to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from dissensus import metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.metrics.agreement import majority
from dissensus.store.ledger import GALLERY, Ledger


@dataclass(frozen=True)
class Untied(Measure):
    """Accuracy on the evaluation items whose votes have one winner, where no tie-break decides what is right."""

    checkpoint: str = "best"

    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        stored = StoredPredictions.read(run_id, ledger, self.checkpoint)
        untied, (_, correct) = stored.one_winner, stored.top(stored.labels)
        scores = {"accuracy_untied": float(correct[untied].double().mean()) if bool(untied.any()) else None}
        return MeasureResult(scores, {"items": {"untied": int(untied.sum()), "evaluation": len(untied)}})


@dataclass(frozen=True)
class Examples(Measure):
    """What people and two runs say of a few evaluation items, which a rule and not an eye has chosen.

    `names` are those of the runs. `disputed` chooses the items with the highest vote entropy. `agreeing` chooses items
    whose votes have one winner that both runs name, by how far the second run's KL exceeds the first's, around the
    median. Ties by row.
    """

    names: tuple[str, str]
    rule: Literal["disputed", "agreeing"]
    items: int = 1
    checkpoint: str = "best"

    runs: ClassVar[int | None] = 2
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = (StoredPredictions.read(run_id, ledger, self.checkpoint) for run_id in run_ids)
        if not torch.equal(first.rows, second.rows):
            raise InputError("these are not two runs that were judged on the same items", where="examples", state="")
        chosen = _disputed(first) if self.rule == "disputed" else _agreeing(first, second)
        record = ledger.read(run_ids[0])
        named = list(zip(self.names, (first, second), strict=True))
        items = [
            {
                "name": f"{record.spec.settings['data']['name']}, item {first.ids[item]}",
                "said": f"KL from people: {', '.join(f'{name} {run.kl[item]:.2f}' for name, run in named)}",
                "classes": record.facts["classes"],
                "shares": {
                    "People": first.people[item].tolist(),
                    **{name: run.log_probs.exp()[item].tolist() for name, run in named},
                },
            }
            for item in chosen[: self.items]
        ]
        return MeasureResult({}, {"examples": items, "candidates": len(chosen)})


@dataclass(frozen=True)
class SameFirstChoice(Measure):
    """Items on which people and a network agree in their first choice and differ most in the rest, with their pictures.

    Of one or more judgements of the network (`SplitScores`, or runs), whose items are put together. People must have one
    winner. Items are ranked by total variation, half the sum of absolute differences, the largest first, at most
    `per_class` of a winner. `network` is its name; `data` are what was judged, and give the pictures.
    """

    data: DataRef
    network: str
    items: int = 12
    per_class: int = 2
    checkpoint: str = "best"

    runs: ClassVar[int | None] = None

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        stored = [StoredPredictions.read(run_id, ledger, self.checkpoint) for run_id in run_ids]
        rows = torch.cat([part.rows for part in stored])
        people, probs = torch.cat([part.people for part in stored]), torch.cat([part.log_probs for part in stored]).exp()
        winner = majority(people)
        agree = torch.cat([part.one_winner for part in stored]) & (majority(probs) == winner)
        apart = torch.where(agree, (people - probs).abs().sum(1) / 2, -1.0)
        chosen = list[int]()
        for item in torch.argsort(apart, descending=True, stable=True).tolist():
            same = sum(int(winner[other]) == int(winner[item]) for other in chosen)
            if agree[item] and same < self.per_class and len(chosen) < self.items:
                chosen.append(item)
        examples = [
            {
                "name": f"{data.name}, item {data.ids[int(rows[item])]}",
                "said": f"first choice of both: {data.classes[int(winner[item])]}; total variation {apart[item]:.2f}",
                "classes": list(data.classes),
                "shares": {"People": people[item].tolist(), self.network: probs[item].tolist()},
            }
            for item in chosen
        ]
        facts = {"examples": examples, "candidates": int(agree.sum()), "notes": list(data.notes)}
        scores = {"total_variation": float(apart[agree].mean()) if bool(agree.any()) else None}
        pictures = {} if data.x is None or data.x.ndim != 4 else {"rows": rows[chosen], "x": data.x[rows[chosen]]}
        kept = {name: part.numpy() for name, part in pictures.items()}
        return MeasureResult(scores, facts, {GALLERY: kept} if kept else {})


def _disputed(stored: StoredPredictions) -> list[int]:
    order: list[int] = np.argsort(-metrics.entropy(stored.people).numpy(), kind="stable").tolist()
    return order


def _agreeing(first: StoredPredictions, second: StoredPredictions) -> list[int]:
    """From the median of the gain in KL outwards; empty where the runs name the people's one winner of no item."""
    winner = majority(first.people)
    candidates = np.flatnonzero((first.one_winner & first.top(winner)[1] & second.top(winner)[1]).numpy())
    gain = (second.kl - first.kl).numpy()[candidates]
    ordered: list[int] = candidates[np.argsort(gain, kind="stable")].tolist()
    middle = (len(ordered) - 1) // 2
    return [item for _, item in sorted(enumerate(ordered), key=lambda ranked: abs(ranked[0] - middle))]
