"""How sharp the loss is around a run's weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial

from dissensus import metrics
from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.probes.curvature_estimators import EIGENVALUES, TRACES
from dissensus.probes.estimate import Estimate
from dissensus.probes.hessian import HessianOperator
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Hessian(Measure):
    """The largest eigenvalue and the trace of the Hessian of soft NLL on the items that a run held out.

    `slices`: `full` is all of these items, `high` those of high disagreement. `items` caps how many of each slice are
    used, drawn by the run's seed: a product with the Hessian takes time in proportion. `eigenvalues` and `traces` name
    estimators; the score of the first one has the short name.
    """

    checkpoint: str = "best"
    slices: tuple[str, ...] = ("full", "high")
    items: int | None = None
    eigenvalues: tuple[str, ...] = ("power_iteration", "lanczos")
    traces: tuple[str, ...] = ("hutchinson",)
    eigenvalue_tolerance: float = 1e-3
    most_products: int = 100
    trace_tolerance: float = 0.02
    most_probes: int = 1000
    micro_batch: int = 50

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        held_out, people = run.setup.held_out, run.setup.data.people
        rows_of = {"full": held_out, "high": held_out[metrics.high_disagreement(people[held_out])]}
        scores: Json = {}
        facts: Json = {"checkpoint": run.checkpoint, "items": {"evaluation": len(held_out)}, "estimates": {}}
        for number, name in enumerate(self.slices):
            rows = at_most(rows_of[name], self.items, run.seed)
            matrix = HessianOperator(run.model, run.setup.x(rows), people[rows], micro_batch=self.micro_batch)
            estimates = self._estimates(matrix, run.seed, number * self._products_per_slice, tell)
            for quantity, methods in (("lambda_max", self.eigenvalues), ("trace", self.traces)):
                for index, method in enumerate(methods):
                    key = f"{quantity}_{name}" if index == 0 else f"{quantity}_{name}_{method}"
                    scores[key] = finite(estimates[method].value)
            soft_nll = metrics.soft_nll(run.predict(rows).log_probs, people[rows])
            scores[f"soft_nll_{name}"] = finite(float(soft_nll.mean()))
            facts["items"][name] = len(rows)
            facts["estimates"][name] = {
                method: {**asdict(estimate), "value": finite(estimate.value), "error": finite(estimate.error)}
                for method, estimate in estimates.items()
            }
        return MeasureResult(scores, facts)

    @property
    def _products_per_slice(self) -> int:
        """At most."""
        return len(self.eigenvalues) * self.most_products + len(self.traces) * self.most_probes

    def _estimates(self, matrix: HessianOperator, seed: int, before: int, tell: Tell) -> dict[str, Estimate]:
        """By the name of the estimator. `tell` hears of every product; earlier slices took at most `before` of them."""
        estimates = {}
        for estimators, methods, tolerance, max_products in (
            (EIGENVALUES, self.eigenvalues, self.eigenvalue_tolerance, self.most_products),
            (TRACES, self.traces, self.trace_tolerance, self.most_probes),
        ):
            for method in methods:
                progress = partial(_tell, tell, before, self._products_per_slice * len(self.slices))
                estimates[method] = estimators[method](
                    matrix, seed=seed, tolerance=tolerance, max_products=max_products, progress=progress
                )
                before += max_products
        return estimates


def _tell(tell: Tell, before: int, total: int, estimate: Estimate) -> None:
    tell(before + estimate.products, total)
