"""Where does hard delivery help when votes are few? (003, figures 2, 5 and 6)"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics
from dissensus.engine.measures.finished_run import Subject
from dissensus.engine.measures.measure import Analysis, Outcome
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Spec
from dissensus.votes.votes import Floats


def sparse_target(of: tuple[str, ...], checkpoint: str = "last", *, bins: int = 5) -> Spec:
    """Relate: what a hard delivery wins over soft labels on an item, against how far its few votes are from all votes.

    `of` is the hard run and the soft one, of the same seed and with the same few votes. The error of an item's sparse
    target is its JS distance and its L1 distance to the full votes; the improvement is the item's soft NLL under the soft
    run minus that under the hard one. On training items, whose sparse target was learned, and on evaluation items, whose
    draw nobody saw: a control. Each also on the tenth of its items with the highest vote entropy.
    """
    return Spec("relate", {"name": "sparse_target", "checkpoint": checkpoint, "bins": bins}, {"of": of})


def _sparse_target(spec: Spec, ledger: Ledger) -> Outcome:
    hard, soft = (Subject.of(run_id, ledger, spec.settings["checkpoint"]) for run_id in spec.inputs["of"])
    _check_pair(hard, soft)
    stage, few = hard.stage, hard.stage.seen().people
    scores: Json = {}
    facts: Json = {"checkpoints": [hard.checkpoint, soft.checkpoint], "items": {}, "left_out": {}, "bins": {}}
    for part, rows in (("train", stage.train), ("evaluation", stage.held_out)):
        people = stage.data.people[rows]
        improvement = _nll(soft, rows, people) - _nll(hard, rows, people)
        errors = {
            "js": metrics.js_distance(few[rows], people).numpy(),
            "l1": (few[rows] - people).abs().sum(1).numpy(),
        }
        errors["js"][errors["l1"] == 0] = 0.0  # not 1e-9 by rounding: these items are a bin of their own
        known = np.isfinite(improvement)
        entropy, high = metrics.entropy(people).numpy(), metrics.high_disagreement(people).numpy()
        for where, kept in ((part, known), (f"{part}_high", known & high)):
            facts["items"][where], facts["bins"][where] = int(kept.sum()), {}
            for name, error in errors.items():
                pair = error[kept], improvement[kept]
                scores[f"spearman_{name}_{where}"] = _spearman(*pair)
                scores[f"partial_spearman_{name}_{where}"] = _partial_spearman(*pair, entropy[kept])
                facts["bins"][where][name] = metrics.zero_then_equal_mass(*pair, spec.settings["bins"])
            scores[f"improvement_{where}"] = float(improvement[kept].mean()) if kept.any() else None
        facts["left_out"][part] = int((~known).sum())
    return scores, facts, {}


def _check_pair(hard: Subject, soft: Subject) -> None:
    one, other = hard.stage, soft.stage
    same = one.data.digest == other.data.digest and torch.equal(one.train, other.train)
    if not same or one.seed != other.seed or one.recipe.votes != other.recipe.votes:
        raise InputError(
            "these runs did not see the same votes of the same items",
            where="sparse_target",
            hint="Compare two runs of one seed that differ in delivery alone",
            state="",
        )
    if one.recipe.votes is None:
        raise InputError(
            "these runs saw all votes: no target is sparse",
            where="sparse_target",
            hint="Use recipes with votes=Resampled(…)",
            state="",
        )


def _nll(subject: Subject, rows: Tensor, people: Tensor) -> Floats:
    values: Floats = metrics.soft_nll(subject.predict(rows).log_probs, people).numpy()
    return values


def _spearman(error: Floats, improvement: Floats) -> float | None:
    return metrics.correlation(error, improvement, kind="spearman") if len(error) > 1 else None


def _partial_spearman(error: Floats, improvement: Floats, entropy: Floats) -> float | None:
    return metrics.partial_correlation(error, improvement, entropy, kind="spearman") if len(error) > 2 else None


ANALYSES: dict[str, Analysis] = {"sparse_target": _sparse_target}
