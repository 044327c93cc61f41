"""What is computed from finished runs: measure (of one), relate (of several), select (of a grid).

A spec of these kinds has settings {"name": …, …} and names its runs under `inputs["of"]`. One file a topic; each has a
table `ANALYSES` of its own, by the names that specs use; those that take minutes, and tell how far they are, in `LONG`.
"""

from __future__ import annotations

from dissensus.engine.measures import basins_geometry as geometry
from dissensus.engine.measures import checkpoint_scores as scores
from dissensus.engine.measures import from_records as curves
from dissensus.engine.measures import method_pairs as pairs
from dissensus.engine.measures import out_of_distribution as ood
from dissensus.engine.measures import similarity as representation
from dissensus.engine.measures import sparse_target as disagreement
from dissensus.engine.measures import vote_statistics as people
from dissensus.engine.measures.basins_geometry import barrier, gradient_variance, hessian
from dissensus.engine.measures.checkpoint_scores import ensemble, evaluation, lowest
from dissensus.engine.measures.from_records import convergence, reliability, slices
from dissensus.engine.measures.measure import Analysis, LongAnalysis, Outcome, Tell
from dissensus.engine.measures.method_pairs import examples, mean_score, paired, untied
from dissensus.engine.measures.out_of_distribution import out_of_distribution
from dissensus.engine.measures.similarity import cka, grad_cam
from dissensus.engine.measures.sparse_target import sparse_target
from dissensus.engine.measures.vote_statistics import vote_statistics
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

ANALYSES: dict[str, Analysis] = {
    name: analysis
    for topic in (scores, curves, disagreement, geometry, ood, pairs, people, representation)
    for name, analysis in topic.ANALYSES.items()
}


LONG: dict[str, LongAnalysis] = geometry.LONG


def compute(spec: Spec, ledger: Ledger, tell: Tell = lambda done, of: None) -> Outcome:  # noqa: ARG005
    """The outcome of a measure, relate or select spec."""
    name = spec.settings["name"]
    if name in LONG:
        return LONG[name](spec, ledger, tell)
    if name in ANALYSES:
        return ANALYSES[name](spec, ledger)
    raise InputError(f"{name!r} is not one of {', '.join([*ANALYSES, *LONG])}", where=f"{spec.kind} spec", state="")


__all__ = [
    "ANALYSES",
    "LONG",
    "Analysis",
    "LongAnalysis",
    "Outcome",
    "Tell",
    "barrier",
    "cka",
    "compute",
    "convergence",
    "ensemble",
    "evaluation",
    "examples",
    "grad_cam",
    "gradient_variance",
    "hessian",
    "lowest",
    "mean_score",
    "out_of_distribution",
    "paired",
    "reliability",
    "slices",
    "sparse_target",
    "untied",
    "vote_statistics",
]
