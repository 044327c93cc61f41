"""What is computed from finished runs: measure (of one), relate (of several), select (of a grid).

A spec of these kinds has settings {"name": …, …} and names its runs under `inputs["of"]`. One file a topic; each has a
table `ANALYSES` of its own, by the names that specs use; those that take minutes, and tell how far they are, in `LONG`.
"""

from __future__ import annotations

from dissensus.analyses import curves, disagreement, geometry, ood, pairs, people, representation, scores
from dissensus.analyses.curves import convergence, reliability, slices
from dissensus.analyses.disagreement import sparse_target
from dissensus.analyses.geometry import barrier, gradient_variance, hessian
from dissensus.analyses.ood import out_of_distribution
from dissensus.analyses.outcome import Analysis, LongAnalysis, Outcome, Tell
from dissensus.analyses.pairs import examples, mean_score, paired, untied
from dissensus.analyses.people import vote_statistics
from dissensus.analyses.representation import cka, grad_cam
from dissensus.analyses.scores import ensemble, evaluation, lowest
from dissensus.errors import InputError
from dissensus.ledger import Ledger
from dissensus.runs import Spec

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
