"""Finished runs keep their predictions: they can get the scores of a metric that was added or corrected later."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from dissensus.engine.judging import judge_by_labels, judge_logits
from dissensus.engine.run_result import versions
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import Arrays, check_predictions
from dissensus.store.spec import Json, Run


@dataclass(frozen=True)
class Rescored:
    """The names of metrics that a run did not have, and of those whose value changed by more than rounding."""

    added: tuple[str, ...]
    changed: tuple[str, ...]


def rescore(ledger: Ledger, run_id: str, *, dry_run: bool = False) -> Rescored | None:
    """Score the stored predictions of a training run again, and write its record again where a score is new or differs.

    Scores whose metric no longer exists are kept. None where the run kept no predictions: it is left as it is.
    """
    run = ledger.read(run_id)
    predictions = {checkpoint: ledger.predictions(run_id, checkpoint) for checkpoint in run.scores}
    if run.spec.kind != "train" or not any(predictions.values()):
        return None
    scores, temperatures = dict(run.scores), dict(run.facts["temperatures"])
    added, changed = set[str](), set[str]()
    for checkpoint, arrays in predictions.items():
        if arrays is None:
            continue
        check_predictions(arrays, run_id)
        fresh, fitted = _judged(run, arrays)
        scores[checkpoint] = dict(run.scores[checkpoint])
        for calibration, values in fresh.items():
            before = run.scores[checkpoint].get(calibration, {})
            new = {name for name in values if name not in before}
            different = {name for name in before.keys() & values.keys() if _differs(before[name], values[name])}
            updates = {name: value for name, value in values.items() if name in new | different}
            scores[checkpoint][calibration] = {**before, **updates}
            added |= new
            changed |= different
        if _differs(temperatures.get(checkpoint), fitted):
            temperatures[checkpoint] = fitted
    rescored = Rescored(tuple(sorted(added)), tuple(sorted(changed)))
    if (added or changed) and not dry_run:
        facts = {**run.facts, "temperatures": temperatures, "rescored": _history(run, rescored)}
        ledger.rewrite(replace(run, scores=scores, facts=facts))
    return rescored


def _judged(run: Run, arrays: Arrays) -> tuple[Json, Json]:
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items() if name != "ids"}
    if not run.facts.get("voted", True):
        seed = int(run.spec.settings["seed"])
        return judge_by_labels(tensors["logits"], tensors["labels"], rows=tensors["rows"], seed=seed)
    return judge_logits(
        tensors["logits"],
        tensors["people"],
        tensors["labels"],
        rows=tensors["rows"],
        seed=int(run.spec.settings["seed"]),
        has_gold=run.facts["gold"] == "given",
        counts=tensors.get("counts"),
        truth=tensors.get("truth"),
    )


def _differs(before: object, after: object) -> bool:
    """By more than rounding: another torch, or fewer threads, move the last bits."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() != after.keys() or any(_differs(before[name], after[name]) for name in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) != len(after) or any(map(_differs, before, after))
    if isinstance(before, (int, float)) and isinstance(after, (int, float)):
        return not math.isclose(before, after, rel_tol=1e-6, abs_tol=1e-9)
    return before != after


def _history(run: Run, rescored: Rescored) -> Json:
    """With which version a run was rescored, and what that and former rescorings did."""
    former = run.facts.get("rescored", {"added": [], "changed": []})
    return {
        "with": versions()["dissensus"],
        "added": sorted({*former["added"], *rescored.added}),
        "changed": sorted({*former["changed"], *rescored.changed}),
    }
