"""What people said, on data small enough to count by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dissensus import datasets
from dissensus.engine.measures import VoteStatistics, compute, measure_spec
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from finished import ref_to
from test_popquorn import official
from test_popquorn import write as write_popquorn


def rated(*ratings):
    return official(
        *(
            f"{item},{rater},text {item},{rating}.0"
            for item, row in enumerate(ratings)
            for rater, rating in enumerate(row)
        )
    )


def statistics(root, monkeypatch):
    monkeypatch.setenv("DISSENSUS_DATA", str(root))
    return measure_spec(VoteStatistics(ref_to(datasets.load("popquorn"))))


def test_vote_statistics_are_those_one_counts(tmp_path, monkeypatch):
    write_popquorn(tmp_path, rated("11", "12", "1122", "112", "1112345"))
    result = compute(statistics(tmp_path, monkeypatch), Ledger(tmp_path / "runs"))
    scores, facts = result.scores, result.facts
    third, seventh = 2 / 3 * math.log(3 / 2) + math.log(3) / 3, 3 / 7 * math.log(7 / 3) + 4 / 7 * math.log(7)
    entropies = [0.0, math.log(2), math.log(2), third, seventh]
    normalised = np.array(entropies) / math.log(5)
    assert scores["classes"] == 5
    assert scores["items"] == 5
    assert scores["votes_per_item"] == pytest.approx(18 / 5)
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
    write_popquorn(tmp_path, rated("11", "22"))
    with pytest.raises(InputError, match="people agree on every item"):
        compute(statistics(tmp_path, monkeypatch), Ledger(tmp_path / "runs"))


def test_data_that_changed_since_the_plan_are_refused(tmp_path, monkeypatch):
    write_popquorn(tmp_path, rated("12", "22"))
    spec = statistics(tmp_path, monkeypatch)
    write_popquorn(tmp_path, rated("12", "23"))
    monkeypatch.setenv("DISSENSUS_DATA", f"{tmp_path}/.")  # what was loaded from a folder is kept
    with pytest.raises(InputError, match="was planned on"):
        compute(spec, Ledger(tmp_path / "runs"))
