"""What is computed from finished runs, one file per measure or close family.

A measure is a frozen dataclass with one method. Its spec has the kind `measure` (of one run, or of data alone), `relate`
(of several) or `select` (of a grid), settings {"name": …, its options}, and names the runs under `inputs["of"]`.
"""

from __future__ import annotations

from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.baseline_scores import BaselineScores
from dissensus.engine.measures.checkpoint_scores import Ensemble, Evaluation, SplitScores
from dissensus.engine.measures.disagreement_slices import Slices
from dissensus.engine.measures.disputed_items import EntropyConcentration
from dissensus.engine.measures.gathered_scores import Gathered, ScoreDifference, ScoreRatio, WeightedMean
from dissensus.engine.measures.grid_winner import Lowest, WinnerScores
from dissensus.engine.measures.label_noise import GradientVariance
from dissensus.engine.measures.learning_point import LearningPoint
from dissensus.engine.measures.learning_speed import Convergence
from dissensus.engine.measures.loss_barrier import Barrier
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, with_digests
from dissensus.engine.measures.method_pairs import MeanScore, Paired
from dissensus.engine.measures.model_size import ModelSize
from dissensus.engine.measures.out_of_distribution import OutOfDistribution
from dissensus.engine.measures.own_uncertainty import OwnUncertainty
from dissensus.engine.measures.ranked_shares import RankedShares
from dissensus.engine.measures.reliability_curve import Reliability
from dissensus.engine.measures.robustness import Attack, AugmentedAttack, SoftAttack, TransferAttack
from dissensus.engine.measures.sharpness import Hessian
from dissensus.engine.measures.shifted_data import ShiftedScores
from dissensus.engine.measures.similarity import Cka, GradCam
from dissensus.engine.measures.single_items import Examples, SameFirstChoice, Untied
from dissensus.engine.measures.sparse_target import SparseTarget
from dissensus.engine.measures.vote_statistics import VoteStatistics
from dissensus.errors import InputError
from dissensus.models import ARCHITECTURES
from dissensus.store.encoding import decode, encode, name_of, table
from dissensus.store.ledger import Ledger
from dissensus.store.spec import RunKind, Spec
from dissensus.training.splits import SPLITS

__all__ = [
    "MEASURES",
    "Attack",
    "AugmentedAttack",
    "Barrier",
    "BaselineScores",
    "Cka",
    "Convergence",
    "Ensemble",
    "EntropyConcentration",
    "Evaluation",
    "Examples",
    "Gathered",
    "GradCam",
    "GradientVariance",
    "Hessian",
    "LearningPoint",
    "Lowest",
    "MeanScore",
    "Measure",
    "MeasureResult",
    "ModelSize",
    "OutOfDistribution",
    "OwnUncertainty",
    "Paired",
    "RankedShares",
    "Reliability",
    "SameFirstChoice",
    "ScoreDifference",
    "ScoreRatio",
    "ShiftedScores",
    "Slices",
    "SoftAttack",
    "SparseTarget",
    "SplitScores",
    "Tell",
    "TransferAttack",
    "Untied",
    "VoteStatistics",
    "WeightedMean",
    "WinnerScores",
    "compute",
    "measure_of",
    "measure_spec",
    "with_digests",
]

MEASURES: dict[str, type] = table(
    Attack,
    AugmentedAttack,
    Barrier,
    BaselineScores,
    Cka,
    Convergence,
    Ensemble,
    EntropyConcentration,
    Evaluation,
    Examples,
    Gathered,
    GradCam,
    GradientVariance,
    Hessian,
    LearningPoint,
    Lowest,
    MeanScore,
    ModelSize,
    OutOfDistribution,
    OwnUncertainty,
    Paired,
    RankedShares,
    Reliability,
    SameFirstChoice,
    ScoreDifference,
    ScoreRatio,
    ShiftedScores,
    Slices,
    SoftAttack,
    SparseTarget,
    SplitScores,
    TransferAttack,
    Untied,
    VoteStatistics,
    WeightedMean,
    WinnerScores,
)
"""By the names that specs use."""


def measure_spec(measure: Measure, run_ids: tuple[str, ...] = ()) -> Spec:
    """The spec of a measure of these runs."""
    if measure.runs != len(run_ids) and not (measure.runs is None and run_ids):
        takes = "one or more" if measure.runs is None else measure.runs
        raise InputError(
            f"the number of runs is {len(run_ids)}, and must be {takes}", where=name_of(type(measure)), state=""
        )
    kind: RunKind = "select" if isinstance(measure, Lowest) else "measure" if len(run_ids) < 2 else "relate"
    return Spec(kind, encode(measure), {"of": run_ids} if run_ids else {})


def measure_of(spec: Spec) -> Measure:
    """The measure that a spec describes."""
    name = spec.settings["name"]
    if name not in MEASURES:
        raise InputError(f"{name!r} is not one of {', '.join(MEASURES)}", where=f"{spec.kind} spec", state="")
    measure: Measure = decode(spec.settings, {**ARCHITECTURES, **MEASURES, **table(DataRef), **SPLITS})
    return measure


def compute(spec: Spec, ledger: Ledger, tell: Tell = lambda done, total: None) -> MeasureResult:  # noqa: ARG005
    """The result of a measure, relate or select spec."""
    return measure_of(spec).compute(spec.inputs.get("of", ()), ledger, tell)
