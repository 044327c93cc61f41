"""Where sampled labels put noise on the gradient."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dissensus import metrics
from dissensus.engine.measures.finished_run import FinishedRun, at_most, on_device
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.probes.gradient_variance import last_layer_gradient_variance, sampled_gradient_variance
from dissensus.probes.requirements import features_of, head_of
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json
from dissensus.training import evaluate


@dataclass(frozen=True)
class GradientVariance(Measure):
    """How the label noise of the last layer's gradient goes with vote entropy, over a run's training items.

    In closed form; for `checked` items also by drawing `draws` labels each. Beside it the same for the network before any
    training, and for 1 − ‖p‖² alone, which no network enters: what they reach is no finding about training.
    """

    checkpoint: str = "best"
    checked: int = 100
    draws: int = 1000
    bins: int = 20

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run, probe = FinishedRun.load(run_id, ledger, self.checkpoint), "gradient_variance"
        setup, head = run.setup, head_of(run.model, probe)
        rows, people = setup.train, setup.data.people[setup.train]
        untrained = evaluate.predict(on_device(setup.model(), setup), run.x(rows))
        features = {"trained": run.features(rows, probe), "untrained": features_of(untrained, probe)}
        variance = {
            name: last_layer_gradient_variance(people, h, bias=head.bias is not None, scale=head.scale).numpy()
            for name, h in features.items()
        }
        variance["labels_alone"] = (1 - people.square().sum(1)).clamp(min=0).numpy()
        entropy = metrics.entropy(people).numpy()
        scores: Json = {
            f"spearman_{name}": metrics.correlation(entropy, values, kind="spearman") for name, values in variance.items()
        }
        disputed = torch.nonzero(people.amax(1) < 1).flatten()  # of a unanimous item both are 0, and agree for free
        checked = at_most(disputed, self.checked, run.seed)
        sampled = sampled_gradient_variance(
            head, people[checked], features["trained"][checked], draws=self.draws, seed=run.seed
        )
        ratio = (sampled / torch.from_numpy(variance["trained"])[checked]).numpy()
        scores["sampled_over_closed_form"] = finite(float(ratio.mean())) if len(ratio) else None
        facts: Json = {
            "checkpoint": run.checkpoint,
            "items": {"train": len(rows), "checked": len(checked)},
            "sampled_over_closed_form_sd": finite(float(ratio.std(ddof=1))) if len(ratio) > 1 else None,
            "bins": {name: metrics.zero_then_equal_mass(entropy, values, self.bins) for name, values in variance.items()},
        }
        return MeasureResult(scores, facts)
