"""All measures together: a new one is tested by being listed in ASKED."""

from __future__ import annotations

import dataclasses
import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from dissensus import datasets
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import (
    MEASURES,
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
    Measure,
    MeasureResult,
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
    compute,
    measure_of,
    measure_spec,
    with_digests,
)
from dissensus.engine.measures import measure as seam
from dissensus.engine.measures.finished_run import FinishedRun
from dissensus.engine.one_run import execute
from dissensus.errors import InputError
from dissensus.metrics import soft_nll
from dissensus.models import Smallcnn
from dissensus.store.encoding import decode, encode, name_of, table
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec, canonical
from dissensus.training.splits import Folds
from finished import HARD, SOFT, finished, measured, ref_to

RESULTS = Path(__file__).parents[1] / "docs" / "results"
DIGITS = ref_to(datasets.load("digits"))

ASKED: dict[str, tuple[Measure, str]] = {
    "evaluation": (Evaluation(flip=True), "soft"),
    "ensemble": (Ensemble(), "soft hard"),
    "lowest": (Lowest("train_loss"), "soft hard"),
    "winner_scores": (WinnerScores("train_loss"), "soft hard"),
    "baseline_scores": (BaselineScores(DIGITS, "class_prior", Folds(5, 1)), ""),
    "learning_point": (LearningPoint(DIGITS, Folds(5, 1), items=40, votes=2), ""),
    "convergence": (Convergence(), "soft"),
    "reliability": (Reliability(), "soft other"),
    "slices": (Slices(), "soft"),
    "sparse_target": (SparseTarget(), "hard soft"),
    "hessian": (Hessian(items=30, most_products=5, most_probes=20), "soft"),
    "barrier": (Barrier(points=3), "hard soft"),
    "gradient_variance": (GradientVariance(checked=5, draws=50), "hard"),
    "ood": (OutOfDistribution(DIGITS, items=100), "soft"),
    "paired": (Paired(), "soft hard"),
    "untied": (Untied(), "soft"),
    "examples": (Examples(("soft", "hard"), "disputed"), "soft hard"),
    "mean_score": (MeanScore(), "slices slices"),
    "vote_statistics": (VoteStatistics(DIGITS), ""),
    "entropy_concentration": (EntropyConcentration(DIGITS), ""),
    "ranked_shares": (RankedShares(), "soft"),
    "cka": (Cka(), "soft other"),
    "grad_cam": (GradCam(), "soft other"),
    "attack": (Attack(epsilon=0.05, items=30), "soft"),
    "soft_attack": (SoftAttack(epsilon=0.05, items=30), "soft"),
    "transfer_attack": (TransferAttack(epsilon=0.05, items=30), "soft hard"),
    "uncertainty": (OwnUncertainty(DIGITS, items=30), "soft"),
    "shifted": (ShiftedScores(DIGITS, items=60), "soft"),
    "gathered": (Gathered(), "soft slices"),
    "score_difference": (ScoreDifference(), "slices slices"),
    "score_ratio": (ScoreRatio(), "slices slices"),
    "weighted_mean": (WeightedMean((1.0, 2.0)), "slices slices"),
    "split_scores": (SplitScores(DIGITS, Folds(5, 1)), "soft other"),
    "augmented_attack": (AugmentedAttack(epsilon=0.05, items=30, padding=1), "soft"),
    "same_first_choice": (SameFirstChoice(DIGITS, "soft", items=2), "soft"),
    "model_size": (ModelSize(Smallcnn(4, 8), (1, 8, 8)), ""),
}
CHEAP = {
    *("convergence", "reliability", "slices", "paired", "mean_score", "untied", "examples", "lowest"),
    *("gathered", "score_difference", "winner_scores", "ranked_shares", "score_ratio", "weighted_mean"),
}
every_measure = pytest.mark.parametrize("name", MEASURES)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def asked(name: str, ledger: Ledger) -> Spec:
    measure, runs = ASKED[name]
    ids = {"soft": finished(ledger), "hard": finished(ledger, HARD), "other": finished(ledger, seed=1)}
    ids["slices"] = execute(measure_spec(Slices(), (ids["soft"],)), ledger).id
    return measure_spec(measure, tuple(ids[run] for run in runs.split()))


def numbers(document):
    """Every leaf."""
    if isinstance(document, dict):
        return [leaf for part in document.values() for leaf in numbers(part)]
    return [leaf for part in document for leaf in numbers(part)] if isinstance(document, list) else [document]


@every_measure
def test_what_a_record_keeps_is_small_plain_and_finite(name, ledger):
    result = compute(asked(name, ledger), ledger)
    assert len(canonical(result.scores)) + len(canonical(result.facts)) < 20_000  # neither NaN nor infinity: this raises
    assert result.scores or name in ("lowest", "examples")  # which name a winner, and show items
    assert None not in numbers(result.scores) or name == "baseline_scores"  # the entropy of the prior does not vary


@every_measure
def test_the_same_spec_gives_the_same_result(name, ledger):
    spec = asked(name, ledger)
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again.id == spec.id
    first, second = compute(again, ledger), compute(spec, ledger)
    assert (first.scores, first.facts) == (second.scores, second.facts)


@every_measure
def test_every_option_is_a_field_and_is_written_into_the_spec_which_gives_the_measure_back(name, ledger):
    measure, _ = ASKED[name]
    spec = asked(name, ledger)
    assert set(spec.settings) == {"name"} | {field.name for field in dataclasses.fields(measure)}
    assert spec.settings["name"] == name
    assert measure_of(Spec.from_json(json.loads(json.dumps(spec.to_json())))) == measure
    assert hash(measure) == hash(dataclasses.replace(measure))
    with pytest.raises(dataclasses.FrozenInstanceError):
        measure.checkpoint = "best"


@every_measure
def test_the_kind_of_a_spec_follows_from_the_number_of_runs(name, ledger):
    spec = asked(name, ledger)
    runs = ASKED[name][1].split()
    expected = "select" if name == "lowest" else "measure" if len(runs) < 2 else "relate"
    assert spec.kind == expected
    assert set(spec.inputs) == ({"of"} if runs else set())


class Weightless(Ledger):
    """Records and stored predictions, without weights."""

    def weights(self, run_id, checkpoint):
        raise AssertionError("a cheap measure asked for weights")


@every_measure
def test_cheap_measures_read_records_and_stored_predictions_alone(name, ledger, monkeypatch):
    assert ASKED[name][0].cheap == (name in CHEAP)
    if name in CHEAP:
        spec = asked(name, ledger)
        monkeypatch.setattr(datasets, "load", None)
        compute(spec, Weightless(ledger.folder))


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*/records.jsonl.gz")), ids=lambda file: file.parent.name)
def test_every_committed_record_of_a_measure_has_the_spec_that_its_measure_writes_today(file):
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    of_measures = [record for record in records if record["spec"]["kind"] != "train"]
    assert of_measures
    for record in of_measures:
        spec = Spec.from_json(record["spec"])
        again = measure_spec(measure_of(spec), spec.inputs.get("of", ()))
        assert again == spec
        assert again.id == record["id"]


def test_a_measure_of_too_many_or_too_few_runs_is_refused_when_it_is_planned():
    with pytest.raises(InputError, match="hessian: the number of runs is 2, and must be 1"):
        measure_spec(Hessian(), ("a", "b"))
    with pytest.raises(InputError, match="barrier: the number of runs is 1, and must be 2"):
        measure_spec(Barrier(), ("a",))
    with pytest.raises(InputError, match="ensemble: the number of runs is 0, and must be one or more"):
        measure_spec(Ensemble())
    with pytest.raises(InputError, match="vote_statistics: the number of runs is 1, and must be 0"):
        measure_spec(VoteStatistics(DIGITS), ("a",))


def test_an_unknown_measure_is_refused(ledger):
    with pytest.raises(
        InputError,
        match=r"measure spec: 'horoscope' is not one of attack, augmented_attack, barrier, baseline_scores, cka",
    ):
        compute(Spec("measure", {"name": "horoscope"}, {"of": ("f" * 16,)}), ledger)


@dataclass(frozen=True)
class Items(Measure):
    """Somebody's own: how many items a run held out, times `times`."""

    times: int = 1

    def compute(self, run_ids, ledger, tell):
        items = ledger.read(run_ids[0]).facts["items"]["evaluation"]
        tell(1, 1)
        return MeasureResult({"items": self.times * items})


def test_a_measure_from_outside_is_one_class_and_one_entry(ledger, monkeypatch):
    monkeypatch.setitem(MEASURES, "items", Items)
    spec = measure_spec(Items(times=2), (finished(ledger),))
    heard = []
    run = execute(Spec.from_json(spec.to_json()), ledger, progress=lambda *progress: heard.append(progress))
    assert run.scores == {"items": 2 * ledger.read(finished(ledger)).facts["items"]["evaluation"]}
    assert heard == [(1, 1, None)]


def test_the_best_checkpoint_is_taken_where_there_is_one_and_else_the_last(ledger):
    with_best, without = finished(ledger), finished(ledger, replace(SOFT, best=None))
    assert measured(Slices("best"), ledger, with_best).facts["checkpoint"] == "best"
    assert measured(Slices("best"), ledger, without).facts["checkpoint"] == "last"
    assert measured(GradientVariance("best"), ledger, without).facts["checkpoint"] == "last"
    with pytest.raises(InputError, match="'first' is not one of last, best"):
        measured(Slices("first"), ledger, without)


# data in a spec


def test_data_in_a_spec_have_one_form_whatever_the_order_of_their_options():
    one, other = DataRef("digits", (("votes", 3), ("items", 9))), DataRef("digits", (("items", 9), ("votes", 3)))
    assert encode(one) == encode(other)
    assert encode(one) == {"name": "data_ref", "dataset": "digits", "options": [["items", 9], ["votes", 3]], "digest": ""}
    assert decode(json.loads(json.dumps(encode(one))), table(DataRef)) == one


def test_a_plan_fills_in_the_digest_of_every_data_set_and_changes_nothing_else():
    measure = OutOfDistribution(DataRef("svhn"), items=7)
    assert with_digests(measure, lambda ref: f"of {ref.dataset}") == replace(measure, data=DataRef("svhn", (), "of svhn"))
    assert with_digests(Hessian(items=3), lambda ref: "never") == Hessian(items=3)


def test_a_class_may_have_a_name_of_its_own_in_specs():
    assert name_of(OutOfDistribution) == "ood"
    assert name_of(seam.MeasureResult) == "measure_result"


# evaluation with a flip


def test_a_flip_averages_the_probabilities_of_image_and_mirror_image(ledger):
    run_id = finished(ledger)
    result = measured(Evaluation(flip=True), ledger, run_id)
    run = FinishedRun.load(run_id, ledger, "last")
    x, people = run.setup.x(run.setup.held_out) / 255, run.setup.data.people[run.setup.held_out]
    with torch.no_grad():
        mean = (run.model(x).softmax(1).double() + run.model(x.flip(-1)).softmax(1).double()) / 2
    flipped = result.scores["last"]["raw"]["soft_nll"]
    assert flipped == pytest.approx(float(soft_nll(mean.log(), people).mean()), rel=1e-5)
    assert measured(Evaluation(), ledger, run_id).scores["last"]["raw"]["soft_nll"] != flipped
    assert len(result.arrays["predictions"]["rows"]) == len(people)
