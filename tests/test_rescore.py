"""Finished runs get the metrics that were added or corrected after them, and nothing else of them changes."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from dissensus import __version__, datasets
from dissensus.cli import cli
from dissensus.engine.measures import Evaluation, measure_spec
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.rescore import Rescored, rescore
from dissensus.metrics import METRICS, Metric
from dissensus.models import Linear
from dissensus.store import ledger as ledger_module
from dissensus.store.ledger import Ledger
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Recipe
from dissensus.training.splits import Holdout

DATA = datasets.load("digits")
RECIPE = Recipe(
    model=Linear(), optimiser=AdamW(lr=0.1), epochs=2, batch=256, split=Holdout(0.05), best=Best("evaluation")
)
ONE_THREAD = Execution(threads=1)
NOTHING = Rescored((), ())


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "runs")


@pytest.fixture
def run(ledger):
    """Of a time when there was no `kl`, and an `older` metric."""
    today = dict(METRICS)
    del METRICS["kl"]
    METRICS["older"] = Metric("older", "lower", "", "target", "a metric that was removed", lambda case: 7.0)
    try:
        return execute(RECIPE.spec(DATA, 0), ledger, ONE_THREAD)
    finally:
        METRICS.clear()
        METRICS.update(today)  # in the order that it had


def test_a_run_gets_a_metric_that_was_added_after_it(ledger, run, tmp_path):
    assert "kl" not in ledger.summaries()[0].raw
    others = {name: content for name, content in ledger.files(run.id).items() if name not in ("run.json", "checksums")}
    assert rescore(ledger, run.id) == Rescored(added=("kl",), changed=())
    fresh = execute(RECIPE.spec(DATA, 0), Ledger(tmp_path / "fresh"), ONE_THREAD)
    rescored = ledger.read(run.id)
    for checkpoint in ("last", "best"):
        for calibration, scores in fresh.scores[checkpoint].items():
            assert rescored.scores[checkpoint][calibration] == {**scores, "older": 7.0}
    assert rescored.facts == {**run.facts, "rescored": {"with": __version__, "added": ["kl"], "changed": []}}
    assert (rescored.curve, rescored.provenance) == (run.curve, run.provenance)
    assert ledger.summaries()[0].raw["kl"] == fresh.scores["last"]["raw"]["kl"]
    assert ledger.verify(run.id) == []
    assert {name: ledger.files(run.id)[name] for name in others} == others


def test_a_second_rescoring_changes_no_byte(ledger, run):
    rescore(ledger, run.id)
    before = ledger.files(run.id)
    assert rescore(ledger, run.id) == NOTHING
    assert ledger.files(run.id) == before


@pytest.mark.parametrize("has_gold", [True, False])
def test_a_run_of_today_has_nothing_to_rescore(ledger, has_gold, monkeypatch, tmp_path):
    data = DATA if has_gold else replace(DATA, gold=None)
    monkeypatch.setattr("dissensus.engine.setup.datasets.load", lambda name: data)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))  # what was loaded before does not count
    run = execute(RECIPE.spec(data, 0), ledger, ONE_THREAD)
    assert run.scores["last"]["raw"]["gold"] == ("given" if has_gold else "majority")
    assert rescore(ledger, run.id) == NOTHING


def test_a_value_that_changed_is_corrected_and_one_that_only_rounding_moved_is_left(ledger, run):
    scores = json.loads(json.dumps(run.scores))
    raw = scores["best"]["raw"]
    raw["soft_nll"], raw["js"], raw["soft_brier"] = raw["soft_nll"] * 1.01, raw["js"] * (1 + 1e-12), None
    ledger.rewrite(replace(run, scores=scores))
    assert rescore(ledger, run.id) == Rescored(added=("kl",), changed=("soft_brier", "soft_nll"))
    now = ledger.read(run.id).scores["best"]["raw"]
    assert now["soft_nll"] == run.scores["best"]["raw"]["soft_nll"]
    assert now["js"] == raw["js"]


def test_what_was_rescored_before_is_remembered(ledger, run):
    rescore(ledger, run.id)
    rescored = ledger.read(run.id)
    del rescored.scores["last"]["raw"]["js"]
    ledger.rewrite(rescored)
    rescore(ledger, run.id)
    assert ledger.read(run.id).facts["rescored"]["added"] == ["js", "kl"]


def test_runs_without_predictions_are_left_alone(ledger, run):
    slim = execute(replace(RECIPE, keep="curve", best=None).spec(DATA, 0), ledger, ONE_THREAD)
    measured = execute(measure_spec(Evaluation(), (run.id,)), ledger, ONE_THREAD)
    for other in (slim, measured):
        before = ledger.files(other.id)
        assert rescore(ledger, other.id) is None
        assert ledger.files(other.id) == before


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_killed_at_any_moment_the_record_is_the_old_one_or_the_new_one_and_the_next_rescoring_ends_it(
    ledger, run, monkeypatch, writes
):
    left = [writes]

    def killed(file, content):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write_whole(file, content)

    write_whole = ledger_module.write_whole
    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            rescore(ledger, run.id)
    assert ledger.verify(run.id) == []
    assert ("kl" in ledger.read(run.id).scores["last"]["raw"]) == (writes == 2)
    rescore(ledger, run.id)
    assert "kl" in ledger.read(run.id).scores["last"]["raw"]
    assert ledger.verify(run.id) == []


def test_who_reads_while_a_record_is_written_again_gets_the_new_one(ledger, run, monkeypatch):
    checksums, rewritten = Ledger._checksums, []

    def meanwhile(self, run_id):
        if not rewritten:
            rewritten.append(run_id)
            rescore(Ledger(ledger.folder), run_id)
        return checksums(self, run_id)

    monkeypatch.setattr(Ledger, "_checksums", meanwhile)
    assert "kl" in ledger.read(run.id).scores["last"]["raw"]


def test_the_command_says_what_it_did_and_a_dry_run_does_nothing(ledger, run):
    execute(measure_spec(Evaluation(), (run.id,)), ledger, ONE_THREAD)
    before = ledger.files(run.id)
    rescoring = ["runs", "rescore", str(ledger.folder)]
    left = "left alone, no training run or without stored predictions: 1 run"
    dry = CliRunner().invoke(cli, [*rescoring, "--dry-run"]).output
    assert dry.splitlines() == ["to be rescored: 1 run", "  metrics added: kl", "unchanged: 0 runs", left]
    assert ledger.files(run.id) == before
    wet = CliRunner().invoke(cli, rescoring).output
    assert wet.splitlines() == ["rescored: 1 run", "  metrics added: kl", "unchanged: 0 runs", left]
    assert ledger.files(run.id) != before
    again = CliRunner().invoke(cli, rescoring).output
    assert again.splitlines() == ["rescored: 0 runs", "unchanged: 1 run", left]
