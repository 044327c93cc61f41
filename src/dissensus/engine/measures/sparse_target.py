"""Where does hard delivery help when votes are few?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics
from dissensus.engine.measures.finished_run import FinishedRun, load_pair
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json
from dissensus.votes.votes import Floats


@dataclass(frozen=True)
class SparseTarget(Measure):
    """What a hard delivery gains over soft labels per item, against how far the item's few votes are from all votes.

    Of the hard run and the soft one, in this order, of the same seed and with the same few votes. The error of an item's
    sparse target is its JS distance and its L1 distance to the full votes; the improvement is the item's soft NLL under
    the soft run minus that under the hard one. On training items, whose sparse target was learned, and on evaluation
    items, whose draw nobody saw: a control. Each also on the tenth of its items with the highest vote entropy.
    """

    checkpoint: str = "last"
    bins: int = 5

    runs: ClassVar[int | None] = 2

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        hard, soft = load_pair(run_ids, ledger, self.checkpoint)
        _check_pair(hard, soft)
        setup, few = hard.setup, hard.setup.seen().people
        scores: Json = {}
        facts: Json = {"checkpoints": [hard.checkpoint, soft.checkpoint], "items": {}, "left_out": {}, "bins": {}}
        for part, rows in (("train", setup.train), ("evaluation", setup.held_out)):
            people = setup.data.people[rows]
            improvement = _nll(soft, rows, people) - _nll(hard, rows, people)
            errors = {
                "js": metrics.js_distance(few[rows], people).numpy(),
                "l1": (few[rows] - people).abs().sum(1).numpy(),
            }
            errors["js"][errors["l1"] == 0] = 0.0  # not 1e-9 by rounding: these items are a bin of their own
            known = np.isfinite(improvement)
            entropy, high = metrics.entropy(people).numpy(), metrics.high_disagreement(people).numpy()
            for name, kept in ((part, known), (f"{part}_high", known & high)):
                facts["items"][name], facts["bins"][name] = int(kept.sum()), {}
                for distance, error in errors.items():
                    pair = error[kept], improvement[kept]
                    scores[f"spearman_{distance}_{name}"] = _spearman(*pair)
                    scores[f"partial_spearman_{distance}_{name}"] = _partial_spearman(*pair, entropy[kept])
                    facts["bins"][name][distance] = metrics.zero_then_equal_mass(*pair, self.bins)
                scores[f"improvement_{name}"] = float(improvement[kept].mean()) if kept.any() else None
            facts["left_out"][part] = int((~known).sum())
        return MeasureResult(scores, facts)


def _check_pair(hard: FinishedRun, soft: FinishedRun) -> None:
    a, b = hard.setup, soft.setup
    same_items = a.data.digest == b.data.digest and torch.equal(a.train, b.train)
    if not same_items or a.seed != b.seed or a.recipe.votes != b.recipe.votes:
        raise InputError(
            "these runs did not see the same votes of the same items",
            where="sparse_target",
            hint="Compare two runs of one seed that differ in delivery alone",
            state="",
        )
    if a.recipe.votes is None:
        raise InputError(
            "these runs saw all votes: no target is sparse",
            where="sparse_target",
            hint="Use recipes with votes=Resampled(…)",
            state="",
        )


def _nll(run: FinishedRun, rows: Tensor, people: Tensor) -> Floats:
    values: Floats = metrics.soft_nll(run.predict(rows).log_probs, people).numpy()
    return values


def _spearman(error: Floats, improvement: Floats) -> float | None:
    return metrics.correlation(error, improvement, kind="spearman") if len(error) > 1 else None


def _partial_spearman(error: Floats, improvement: Floats, entropy: Floats) -> float | None:
    return metrics.partial_correlation(error, improvement, entropy, kind="spearman") if len(error) > 2 else None
