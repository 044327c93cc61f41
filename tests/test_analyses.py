"""All analyses together: a new one is tested by being listed in ASKED."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace

import pytest
import torch

from dissensus import datasets
from dissensus.engine import measures as analyses
from dissensus.engine.measures import ANALYSES, LONG, compute
from dissensus.engine.measures.finished_run import Subject
from dissensus.engine.one_run import execute
from dissensus.errors import InputError
from dissensus.metrics import soft_nll
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec, canonical
from finished import HARD, SOFT, finished, named

DIGITS = datasets.load("digits")

ASKED = {
    "evaluation": lambda soft, hard, other, ledger: analyses.evaluation(soft, flip=True),
    "ensemble": lambda soft, hard, other, ledger: analyses.ensemble((soft, hard)),
    "lowest": lambda soft, hard, other, ledger: analyses.lowest((soft, hard), "train_loss"),
    "convergence": lambda soft, hard, other, ledger: analyses.convergence(soft),
    "reliability": lambda soft, hard, other, ledger: analyses.reliability((soft, other)),
    "slices": lambda soft, hard, other, ledger: analyses.slices(soft),
    "sparse_target": lambda soft, hard, other, ledger: analyses.sparse_target((hard, soft)),
    "hessian": lambda soft, hard, other, ledger: analyses.hessian(soft, items=30, most_products=5, most_probes=20),
    "barrier": lambda soft, hard, other, ledger: analyses.barrier((hard, soft), points=3),
    "gradient_variance": lambda soft, hard, other, ledger: analyses.gradient_variance(hard, checked=5, draws=50),
    "ood": lambda soft, hard, other, ledger: analyses.out_of_distribution(soft, named(DIGITS), items=100),
    "paired": lambda soft, hard, other, ledger: analyses.paired((soft, hard)),
    "untied": lambda soft, hard, other, ledger: analyses.untied(soft),
    "examples": lambda soft, hard, other, ledger: analyses.examples((soft, hard), ("soft", "hard"), "disputed"),
    "mean_score": lambda soft, hard, other, ledger: analyses.mean_score(
        tuple(execute(analyses.slices(run), ledger).id for run in (soft, hard))
    ),
    "vote_statistics": lambda soft, hard, other, ledger: analyses.vote_statistics(
        ledger.read(soft).spec.settings["data"]
    ),
    "cka": lambda soft, hard, other, ledger: analyses.cka((soft, other)),
    "grad_cam": lambda soft, hard, other, ledger: analyses.grad_cam((soft, other)),
}
every_analysis = pytest.mark.parametrize("name", [*ANALYSES, *LONG])


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def asked(name: str, ledger: Ledger) -> Spec:
    return ASKED[name](finished(ledger), finished(ledger, HARD), finished(ledger, seed=1), ledger)


def numbers(document):
    """Every leaf."""
    if isinstance(document, dict):
        return [leaf for part in document.values() for leaf in numbers(part)]
    return [leaf for part in document for leaf in numbers(part)] if isinstance(document, list) else [document]


@every_analysis
def test_what_a_record_keeps_is_small_plain_and_finite(name, ledger):
    scores, facts, _ = compute(asked(name, ledger), ledger)
    assert len(canonical(scores)) + len(canonical(facts)) < 20_000  # and neither NaN nor infinity, or this raises
    assert scores or name in ("lowest", "examples")  # which name a winner, and show items
    assert None not in numbers(scores)


@every_analysis
def test_the_same_spec_gives_the_same_outcome(name, ledger):
    spec = asked(name, ledger)
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again.id == spec.id
    assert compute(again, ledger)[:2] == compute(spec, ledger)[:2]


@every_analysis
def test_every_default_of_a_spec_maker_is_written_into_the_spec(name, ledger):
    maker = {"ood": "out_of_distribution"}.get(name, name)
    parameters = inspect.signature(getattr(analyses, maker)).parameters.values()
    runs = ("of", "one", "other", "hard", "soft", "outside", "options")
    settings = asked(name, ledger).settings
    assert {one.name for one in parameters} - set(runs) <= set(settings)


def test_the_best_checkpoint_is_taken_where_there_is_one_and_else_the_last(ledger):
    with_best, without = finished(ledger), finished(ledger, replace(SOFT, best=None))
    assert compute(analyses.slices(with_best, "best"), ledger)[1]["checkpoint"] == "best"
    assert compute(analyses.slices(without, "best"), ledger)[1]["checkpoint"] == "last"
    assert compute(analyses.gradient_variance(without, "best"), ledger)[1]["checkpoint"] == "last"
    with pytest.raises(InputError, match="'first' is not one of last, best"):
        compute(analyses.slices(without, "first"), ledger)


def test_an_unknown_analysis_is_refused(ledger):
    with pytest.raises(InputError, match="'horoscope' is not one of"):
        compute(Spec("measure", {"name": "horoscope"}, {"of": ("f" * 16,)}), ledger)


# evaluation with a flip


def test_a_flip_averages_the_probabilities_of_image_and_mirror_image(ledger):
    run = finished(ledger)
    scores, _, arrays = compute(analyses.evaluation(run, flip=True), ledger)
    subject = Subject.of(run, ledger, "last")
    x, people = subject.stage.x(subject.stage.held_out) / 255, subject.stage.data.people[subject.stage.held_out]
    with torch.no_grad():
        mean = (subject.model(x).softmax(1).double() + subject.model(x.flip(-1)).softmax(1).double()) / 2
    assert scores["last"]["raw"]["soft_nll"] == pytest.approx(float(soft_nll(mean.log(), people).mean()), rel=1e-5)
    plain = compute(analyses.evaluation(run), ledger)[0]
    assert plain["last"]["raw"]["soft_nll"] != scores["last"]["raw"]["soft_nll"]
    assert len(arrays["predictions"]["rows"]) == len(people)
