"""Which method a report tells its reader to use: the simplest, unless another is shown to be better."""

import json
from dataclasses import replace

import pytest

from dissensus import report
from dissensus.experiments.description import Candidates, from_json, to_json
from dissensus.random import numpy_generator
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from fake_study import GOOD, Fake, Page, experiment_of, score_table

SEEDS = range(6)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished run per split."""
    fake = Fake(Ledger(tmp_path_factory.mktemp("finished")), items=16, keep=False)
    return [fake.ledger.read(fake.publish("Methods", "Soft", seed, **GOOD)) for seed in SEEDS]


@pytest.fixture
def recommended(tmp_path, finished):
    """A study in which each method is worse than Soft by so much, give or take a little from split to split."""
    ledger = Ledger(tmp_path / "runs")

    def published(name, run, gap):
        seed = run.spec.settings["seed"]
        wobble = 0.0 if name.endswith("Soft") else 0.004 * numpy_generator(seed, "probe", name).standard_normal()
        scores = {**run.scores["last"]["raw"], "soft_nll": run.scores["last"]["raw"]["soft_nll"] + gap + wobble}
        spec = Spec("train", {**run.spec.settings, "target": {"name": name}})
        ledger.publish(replace(run, spec=spec, scores={"last": {"raw": scores}}), {}, {})
        return spec.id

    def write(gaps, references=None):
        tables = []
        for title, rows in {"Methods": {"Soft": 0.0, **gaps}, "Baselines": {"Soft": 0.0, **(references or {})}}.items():
            cells = {
                label: {"": {str(seed): published(f"{title} {label}", run, gap) for seed, run in enumerate(finished)}}
                for label, gap in rows.items()
            }
            tables.append(score_table(title, cells, replicate="split"))
        commands = {label: f"dissensus fit votes.csv --target {label.lower()}" for label in ("Soft", *gaps)}
        study = experiment_of(
            *tables, candidates=Candidates("methods", "baselines", commands, 0.25, blind=("Class prior",))
        )
        return report.write(from_json(to_json(study)), ledger, tmp_path / "out")

    return write


@pytest.mark.parametrize(
    ("gaps", "label", "words"),
    [
        ({"Majority": 0.0, "Sampled": 0.0}, "Soft", "No method is shown to differ"),
        ({"Majority": 0.2, "Sampled": 0.0}, "Soft", "No method is shown to be better"),
        ({"Majority": 0.2, "Sampled": -0.1}, "Sampled", "shown to be better"),
        ({"Majority": -0.1, "Sampled": -0.1001}, "Majority", "shown to be better"),  # the simpler of two alike
        ({"Majority": -0.05, "Sampled": -0.2}, "Sampled", "shown to be better"),  # the best, where they differ
    ],
)
def test_the_simplest_is_used_unless_another_is_shown_to_be_better(recommended, gaps, label, words):
    advice = recommended(gaps).recommendation
    assert advice.label == label
    assert words in advice.headline


def test_the_page_opens_with_the_recommendation_and_its_command(tmp_path, recommended):
    written = recommended({"Majority": 0.2})
    text = Page(written.html.read_text(encoding="utf-8")).text
    assert text.index("Use Soft.") < text.index("dissensus fit votes.csv --target soft") < text.index("The answer")
    assert "mean ± sd over 6 splits" in text
    assert "dissensus fit votes.csv --target soft" in written.markdown.read_text(encoding="utf-8")
    document = json.loads((tmp_path / "out" / "recommendation.json").read_text(encoding="utf-8"))
    assert document["use"] == "Soft"
    assert document["compared_with"]["Majority"]["verdict"] == "worse"
    assert document["compared_with"]["Majority"]["difference"] == pytest.approx(0.2, abs=0.01)


def test_what_could_have_been_missed_is_said_where_no_difference_is_shown(recommended):
    advice = recommended({"Majority": 0.0}).recommendation
    assert 0.001 < advice.detectable < 0.05
    assert any("would have been found with a probability of 80%" in reason for reason in advice.reasons)


@pytest.mark.parametrize(
    ("references", "words"),
    [({"Linear": -0.1}, "Look at this"), ({"Linear": 0.0}, "may do as well"), ({"Linear": 0.1}, "Soft beats Linear")],
)
def test_a_baseline_that_is_as_good_is_not_passed_over(recommended, references, words):
    reasons = recommended({"Majority": 0.2}, references).recommendation.reasons
    assert any(words in reason for reason in reasons)


@pytest.mark.parametrize(("gap", "told"), [(-0.004, True), (-0.1, True), (0.1, False)])
def test_features_that_tell_nothing_are_the_first_thing_said(tmp_path, recommended, gap, told):
    """A method that does not beat what knows nothing of an item is no answer, however simple it is."""
    advice = recommended({"Majority": 0.2}, {"Class prior": gap, "Linear": 0.1}).recommendation
    assert advice.headline.startswith("Look for other features first.") == told
    assert ("Class prior" in advice.headline) == told
    assert any(reason.startswith("Use Soft.") for reason in advice.reasons) == told
    assert not any("linear head" in reason for reason in advice.reasons)
    document = json.loads((tmp_path / "out" / "recommendation.json").read_text(encoding="utf-8"))
    assert document["not_shown_better_than"] == ["Class prior"] * told


def test_what_is_better_than_nothing_on_average_is_not_called_hopeless(recommended):
    advice = recommended({"Majority": 0.2}, {"Class prior": 0.002}).recommendation
    assert advice.headline.startswith("Use Soft.")
    assert advice.unbeaten == ("Class prior",)
    assert "better than Class prior on average, and that is not shown" in advice.reasons[0]
