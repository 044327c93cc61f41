"""Does a run keep its accuracy under an attack?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.metrics.agreement import majority
from dissensus.models.predictions import Predictions
from dissensus.probes.attacks import pgd
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class Attack(Measure):
    """Accuracy on the items that a run held out, before and after an attack on their labels; `attack_decrease` between.

    One step of size `epsilon` (FGSM) by default; more steps, of `step_size`, are PGD. `items` caps how many items are
    attacked, drawn by the run's seed. `naive` takes the plain float32 gradient, which flatters over-confident networks.
    """

    epsilon: float = 0.005
    steps: int = 1
    step_size: float | None = None
    random_start: bool = False
    checkpoint: str = "last"
    items: int | None = None
    naive: bool = False

    spec_name: ClassVar[str] = "attack"

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        rows = at_most(run.setup.held_out, self.items, run.seed)
        labels = run.setup.data.labels[rows]
        x = run.x(rows)
        attacked = pgd(
            run.model,
            x,
            labels,
            epsilon=self.epsilon,
            steps=self.steps,
            step_size=self.epsilon if self.step_size is None else self.step_size,
            random_start=self.random_start,
            seed=run.seed,
            naive=self.naive,
            progress=tell,
        )
        accuracy, after = (
            float((majority(Predictions(logits).log_probs) == labels).double().mean())
            for logits in (attacked.clean_logits, attacked.logits)
        )
        losses = attacked.losses.mean(1)
        scores = {
            "accuracy": accuracy,
            "accuracy_attacked": after,
            "attack_decrease": accuracy - after,
            "nll_gold": finite(float(losses[0])),
            "nll_gold_attacked": finite(float(losses[-1])),
        }
        facts = {
            "checkpoint": run.checkpoint,
            "items": {"evaluation": len(rows)},
            "losses": [finite(float(loss)) for loss in losses],
        }
        return MeasureResult(scores, facts)
