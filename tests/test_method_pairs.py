"""Two methods run for run, and what they say of single items, on predictions small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dissensus import stats
from dissensus.engine.measures import Examples, MeanScore, Paired, Untied
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run, Spec
from finished import measured

PEOPLE = np.array([[0.5, 0.5, 0.0], [0.6, 0.2, 0.2], [0.9, 0.1, 0.0], [0.8, 0.1, 0.1]])
LABELS = PEOPLE.argmax(1)


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
    result = measured(Paired(), ledger, *first, *second)
    scores = result.scores
    assert scores["relative_improvement_kl"] == pytest.approx(1 - np.mean(lower) / np.mean(higher))
    assert scores["relative_improvement_entropy_pearson"] == pytest.approx(0.5)
    assert scores["p_t_kl"] == stats.paired_t(lower, higher).p
    assert scores["p_wilcoxon_kl"] == 0.25
    assert scores["p_t_accuracy"] is None  # all differences are 0
    assert scores["difference_kl"] == pytest.approx((kl(FAIR) - kl(SURE)).mean(), abs=1e-6)
    assert scores["low_kl_over_items"] < scores["difference_kl"] < scores["high_kl_over_items"]
    assert result.facts == {"runs": 3, "items": 4}
    with pytest.raises(InputError, match="3 runs are not two of every pair"):
        measured(Paired(), ledger, *first)


def test_the_mean_of_scores_is_over_those_that_all_have(tmp_path):
    ledger, ids = Ledger(tmp_path), []
    for number, scores in enumerate(({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": None}, {"a": 5.0, "c": 1.0})):
        run = Run(Spec("relate", {"name": "x", "n": number}), scores, {}, {}, {})
        ledger.publish(run, {}, {})
        ids.append(run.id)
    assert measured(MeanScore(), ledger, *ids).scores == {"a": 3.0}


def test_accuracy_on_untied_items_leaves_out_those_without_one_winner(tmp_path):
    ledger = Ledger(tmp_path)
    result = measured(Untied(), ledger, publish(ledger, "sure", SURE))
    assert result.scores["accuracy_untied"] == pytest.approx(2 / 3)  # the first item is tied, the last wrong
    assert result.facts["items"] == {"untied": 3, "evaluation": 4}


def test_examples_are_chosen_by_rule(tmp_path):
    ledger = Ledger(tmp_path)
    pair = publish(ledger, "soft", FAIR), publish(ledger, "hard", SURE)
    names = ("Soft", "Hard")
    facts = measured(Examples(names, "disputed", items=2), ledger, *pair).facts
    assert [one["name"] for one in facts["examples"]] == ["toy, item b", "toy, item a"]
    one = facts["examples"][0]
    assert one["shares"]["People"] == PEOPLE[1].tolist()
    assert one["shares"]["Hard"] == pytest.approx(SURE[1])
    assert one["said"] == f"KL from people: Soft {kl(FAIR)[1]:.2f}, Hard {kl(SURE)[1]:.2f}"
    facts = measured(Examples(names, "agreeing", items=4), ledger, *pair).facts
    assert facts["candidates"] == 2  # the first is tied, and of the last Hard says something else
    gains = kl(SURE) - kl(FAIR)
    assert gains[2] < gains[1]
    assert [one["name"] for one in facts["examples"]] == ["toy, item c", "toy, item b"]


def test_examples_of_runs_with_other_items_are_refused(tmp_path):
    ledger = Ledger(tmp_path)
    pair = publish(ledger, "soft", FAIR), publish(ledger, "hard", SURE, rows=np.arange(4, 8))
    with pytest.raises(InputError, match="judged on the same items"):
        measured(Examples(("Soft", "Hard"), "disputed"), ledger, *pair)
