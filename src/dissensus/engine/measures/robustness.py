"""Does a run keep its accuracy under an attack?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dissensus import random
from dissensus.engine.measures.finished_run import FinishedRun, at_most, held_out_in_all, load_pair
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.metrics.agreement import majority
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.models.predictions import Predictions
from dissensus.probes.attacks import Attacked, matched_noise, pgd
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json
from dissensus.training import evaluate
from dissensus.training.augmentation import CropFlip


@dataclass(frozen=True)
class Attack(Measure):
    """Accuracy on the items that a run held out, before and after an attack on their labels; `attack_decrease` between.

    One step of size `epsilon` (FGSM) by default; more steps, of `step_size`, are PGD. `items` caps how many items are
    attacked, drawn by the run's seed. `naive` takes the plain float32 gradient, which flatters over-confident networks.
    Scores that end in `_noise` are those under Gaussian noise of the same norm. The fact `losses` is the mean loss before
    every step and at the end.
    """

    epsilon: float = 0.005
    steps: int = 1
    step_size: float | None = None
    random_start: bool = False
    checkpoint: str = "last"
    items: int | None = None
    naive: bool = False

    spec_name: ClassVar[str] = "attack"

    def target(self, run: FinishedRun, rows: Tensor) -> Tensor:
        """What the attack leads away from: the labels."""
        return run.setup.data.labels[rows]

    def candidates(self, run: FinishedRun) -> Tensor:
        """The rows of which some, or all, are attacked: those that the run held out."""
        return run.setup.held_out

    def images(self, run: FinishedRun, rows: Tensor) -> Tensor:
        """What is attacked: the images as they are stored."""
        return run.x(rows)

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        rows = at_most(self.candidates(run), self.items, run.seed)
        attacked = self.attack(run, rows, tell)
        noise = matched_noise(self.images(run, rows), attacked.x, seed=run.seed)
        noisy = evaluate.predict(run.model, _on_device(noise, run)).logits
        scores = before_and_after(run, rows, {"": attacked.clean_logits, "_attacked": attacked.logits, "_noise": noisy})
        scores["attack_decrease"] = scores["accuracy"] - scores["accuracy_attacked"]
        facts = {
            "checkpoint": run.checkpoint,
            "items": {"evaluation": len(rows)},
            "losses": [finite(float(loss)) for loss in attacked.losses.mean(1)],
        }
        return MeasureResult(scores, facts)

    def attack(self, run: FinishedRun, rows: Tensor, tell: Tell) -> Attacked:
        """The attack on these rows through the gradient of this run."""
        return pgd(
            run.model,
            self.images(run, rows),
            self.target(run, rows),
            epsilon=self.epsilon,
            steps=self.steps,
            step_size=self.epsilon if self.step_size is None else self.step_size,
            random_start=self.random_start,
            seed=run.seed,
            naive=self.naive,
            progress=tell,
        )


@dataclass(frozen=True)
class SoftAttack(Attack):
    """As `Attack`, but it leads away from what people said of each item, not from one label."""

    spec_name: ClassVar[str] = "soft_attack"

    def target(self, run: FinishedRun, rows: Tensor) -> Tensor:
        """What the attack leads away from: the people's distributions."""
        return run.setup.data.people[rows]


@dataclass(frozen=True)
class AugmentedAttack(Attack):
    """As `Attack`, but on all images of the data, those the run was trained on among them, cropped and flipped at random.

    So Table 2 of Peterson et al. 2019 was made, by its authors' code. It says less than an attack on held-out images.
    """

    padding: int = 4

    spec_name: ClassVar[str] = "augmented_attack"

    def candidates(self, run: FinishedRun) -> Tensor:
        """Every row."""
        return torch.arange(len(run.setup.data))

    def images(self, run: FinishedRun, rows: Tensor) -> Tensor:
        """Cropped and flipped, by the run's seed."""
        return CropFlip(self.padding)(run.x(rows), random.generator(run.seed, "attack", "augment"))


@dataclass(frozen=True)
class TransferAttack(Attack):
    """As `Attack` on the first of two runs, and beside it the attack that was made on the second one.

    On the items that both held out. A network whose `accuracy_attacked` is above its `accuracy_transferred` resists by
    hiding its gradient, not by being right: the attack from outside, which is the weaker one, finds more.
    `masked_gradient` is that difference where it is positive, else 0.
    """

    spec_name: ClassVar[str] = "transfer_attack"
    runs: ClassVar[int | None] = 2

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        run, other = load_pair(run_ids, ledger, self.checkpoint)
        rows = at_most(held_out_in_all(run.setup, other.setup), self.items, run.seed)
        white = self.attack(run, rows, lambda done, total: tell(done, 2 * total))
        transferred = self.attack(other, rows, lambda done, total: tell(total + done, 2 * total))
        noise = matched_noise(run.x(rows), white.x, seed=run.seed)
        outside = {
            name: evaluate.predict(run.model, _on_device(x, run)).logits
            for name, x in (("_transferred", transferred.x), ("_noise", noise))
        }
        scores = before_and_after(run, rows, {"": white.clean_logits, "_attacked": white.logits, **outside})
        scores["masked_gradient"] = max(0.0, scores["accuracy_attacked"] - scores["accuracy_transferred"])
        facts = {"checkpoints": [run.checkpoint, other.checkpoint], "items": {"evaluation": len(rows)}}
        return MeasureResult(scores, facts)


def before_and_after(run: FinishedRun, rows: Tensor, logits: dict[str, Tensor]) -> Json:
    """Accuracy and cross-entropy to the labels, and to people where there are votes, of each of these predictions."""
    data = run.setup.data
    labels = data.labels[rows]
    scores: Json = {}
    for name, part in logits.items():
        log_probs = Predictions(part).log_probs
        scores[f"accuracy{name}"] = float((majority(log_probs) == labels).double().mean())
        scores[f"nll_gold{name}"] = finite(float(-log_probs.gather(1, labels[:, None]).mean()))
        if data.voted:
            scores[f"soft_nll{name}"] = finite(float(unchecked_soft_nll(log_probs, data.people[rows]).mean()))
    return scores


def _on_device(x: Tensor, run: FinishedRun) -> Tensor:
    return x.to(next(run.model.parameters()).device)
