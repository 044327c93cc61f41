"""What people said, and two methods run for run, on data and predictions small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissensus import datasets, stats
from dissensus.engine import measures as analyses
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec
from test_popquorn import official
from test_popquorn import write as write_popquorn

PEOPLE = np.array([[0.5, 0.5, 0.0], [0.6, 0.2, 0.2], [0.9, 0.1, 0.0], [0.8, 0.1, 0.1]])
LABELS = PEOPLE.argmax(1)


def said(*ratings):
    return official(
        *(
            f"{item},{rater},text {item},{rating}.0"
            for item, row in enumerate(ratings)
            for rater, rating in enumerate(row)
        )
    )


def named(root, monkeypatch):
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    return {"name": "popquorn", "options": {}, "digest": datasets.load("popquorn").digest}


def test_vote_statistics_are_those_one_counts(tmp_path, monkeypatch):
    write_popquorn(tmp_path, said("11", "12", "1122", "112", "1112345"))
    scores, facts, _ = analyses.compute(analyses.vote_statistics(named(tmp_path, monkeypatch)), Ledger(tmp_path / "runs"))
    third, seventh = 2 / 3 * math.log(3 / 2) + math.log(3) / 3, 3 / 7 * math.log(7 / 3) + 4 / 7 * math.log(7)
    entropies = [0.0, math.log(2), math.log(2), third, seventh]
    normalised = np.array(entropies) / math.log(5)
    assert scores["classes"] == 5
    assert scores["items"] == 5
    assert scores["votes_an_item"] == pytest.approx(18 / 5)
    assert scores["normalised_entropy"] == pytest.approx(normalised.mean())
    assert scores["normalised_entropy_sd"] == pytest.approx(normalised.std(ddof=1))
    assert scores["unanimous"] == 0.2
    assert scores["tied"] == 0.4
    assert sum(facts["entropies"]["y"]) == pytest.approx(1)
    near, far = facts["examples"]
    assert near["name"] == "popquorn, item 3"  # the least entropy above 0
    assert far["name"] == "popquorn, item 4"
    assert far["shares"]["People"] == pytest.approx([3 / 7, 1 / 7, 1 / 7, 1 / 7, 1 / 7])


def test_data_on_which_all_agree_have_no_disputed_item(tmp_path, monkeypatch):
    write_popquorn(tmp_path, said("11", "22"))
    with pytest.raises(InputError, match="people agree on every item"):
        analyses.compute(analyses.vote_statistics(named(tmp_path, monkeypatch)), Ledger(tmp_path / "runs"))


def test_data_that_changed_since_the_plan_are_refused(tmp_path, monkeypatch):
    write_popquorn(tmp_path, said("12", "22"))
    spec = analyses.vote_statistics(named(tmp_path, monkeypatch))
    write_popquorn(tmp_path, said("12", "23"))
    monkeypatch.setenv("DISSENSUS_DATA", f"{tmp_path}/.")  # what was loaded from a folder is kept
    with pytest.raises(InputError, match="was planned on"):
        analyses.compute(spec, Ledger(tmp_path / "runs"))


def publish(ledger, name, probs, rows=None, **metrics):
    """A finished run that said this of the four items, with these metrics."""
    spec = Spec("train", {"data": {"name": "toy"}, "of": name})
    arrays = {
        "rows": np.arange(4) if rows is None else rows,
        "logits": np.log(probs).astype(np.float32),
        "people": PEOPLE,
        "labels": LABELS,
        "ids": np.array(list("abcd")),
    }
    scores = {"kl": 0.5, "accuracy": 0.5, "entropy_pearson": 0.5, **metrics}
    run = Run(spec, {"best": {"raw": scores}}, {}, {"classes": ["x", "y", "z"]}, {})
    ledger.publish(run, {"predictions_best": arrays}, {})
    return run.id


def nearly(probs):
    return np.asarray(probs, dtype=np.float64)


SURE = nearly([[0.8, 0.1, 0.1], [0.9, 0.05, 0.05], [0.98, 0.01, 0.01], [0.1, 0.8, 0.1]])
FAIR = nearly([[0.45, 0.45, 0.1], [0.55, 0.25, 0.2], [0.85, 0.1, 0.05], [0.7, 0.2, 0.1]])


def kl(probs):
    terms = np.where(PEOPLE > 0, PEOPLE * np.log(np.where(PEOPLE > 0, PEOPLE, 1) / probs), 0)
    return terms.sum(1)


def test_paired_tests_and_improvements_are_of_the_first_half_of_the_runs_against_the_second(tmp_path):
    ledger = Ledger(tmp_path)
    lower, higher = [0.2, 0.25, 0.21], [0.4, 0.5, 0.39]
    first = [publish(ledger, f"soft {k}", FAIR, kl=value, entropy_pearson=0.3) for k, value in enumerate(lower)]
    second = [publish(ledger, f"hard {k}", SURE, kl=value, entropy_pearson=0.2) for k, value in enumerate(higher)]
    spec = analyses.paired((*first, *second))
    scores, facts, _ = analyses.compute(spec, ledger)
    assert scores["relative_improvement_kl"] == pytest.approx(1 - np.mean(lower) / np.mean(higher))
    assert scores["relative_improvement_entropy_pearson"] == pytest.approx(0.5)
    assert scores["p_t_kl"] == stats.paired_t(lower, higher).p
    assert scores["p_wilcoxon_kl"] == 0.25
    assert scores["p_t_accuracy"] is None  # all differences are 0
    assert scores["difference_kl"] == pytest.approx((kl(FAIR) - kl(SURE)).mean(), abs=1e-6)
    assert scores["low_kl_over_items"] < scores["difference_kl"] < scores["high_kl_over_items"]
    assert facts == {"runs": 3, "items": 4}
    with pytest.raises(InputError, match="3 runs are not two of every pair"):
        analyses.compute(analyses.paired((*first,)), ledger)


def test_the_mean_of_scores_is_over_those_that_all_have(tmp_path):
    ledger, ids = Ledger(tmp_path), []
    for number, scores in enumerate(({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": None}, {"a": 5.0, "c": 1.0})):
        run = Run(Spec("relate", {"name": "x", "n": number}), scores, {}, {}, {})
        ledger.publish(run, {}, {})
        ids.append(run.id)
    assert analyses.compute(analyses.mean_score(tuple(ids)), ledger)[0] == {"a": 3.0}


def test_accuracy_on_untied_items_leaves_out_those_without_one_winner(tmp_path):
    ledger = Ledger(tmp_path)
    scores, facts, _ = analyses.compute(analyses.untied(publish(ledger, "sure", SURE)), ledger)
    assert scores["accuracy_untied"] == pytest.approx(2 / 3)  # the first item is tied, the last wrong
    assert facts["items"] == {"untied": 3, "evaluation": 4}


def test_examples_are_chosen_by_rule(tmp_path):
    ledger = Ledger(tmp_path)
    pair = publish(ledger, "soft", FAIR), publish(ledger, "hard", SURE)
    names = ("Soft", "Hard")
    _, facts, _ = analyses.compute(analyses.examples(pair, names, "disputed", items=2), ledger)
    assert [one["name"] for one in facts["examples"]] == ["toy, item b", "toy, item a"]
    one = facts["examples"][0]
    assert one["shares"]["People"] == PEOPLE[1].tolist()
    assert one["shares"]["Hard"] == pytest.approx(SURE[1])
    assert one["said"] == f"KL from people: Soft {kl(FAIR)[1]:.2f}, Hard {kl(SURE)[1]:.2f}"
    _, facts, _ = analyses.compute(analyses.examples(pair, names, "agreeing", items=4), ledger)
    assert facts["candidates"] == 2  # the first is tied, and of the last Hard says something else
    gains = kl(SURE) - kl(FAIR)
    assert gains[2] < gains[1]
    assert [one["name"] for one in facts["examples"]] == ["toy, item c", "toy, item b"]


def test_examples_of_runs_with_other_items_are_refused(tmp_path):
    ledger = Ledger(tmp_path)
    pair = publish(ledger, "soft", FAIR), publish(ledger, "hard", SURE, rows=np.arange(4, 8))
    with pytest.raises(InputError, match="judged on the same items"):
        analyses.compute(analyses.examples(pair, ("Soft", "Hard"), "disputed"), ledger)
