"""POPQUORN politeness ratings: on small files in the official columns, and on the real one where it is."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from scipy.special import entr

from dissensus import datasets
from dissensus.datasets import popquorn
from dissensus.errors import InputError

OFFICIAL = "instance_id,user_id,text,politeness,gender,race,age,occupation,education\n"


def write(root: Path, content: str) -> None:
    (root / "popquorn").mkdir(exist_ok=True)
    (root / "popquorn" / "politeness_ratings.csv").write_text(content, encoding="utf-8")


def official(*rows: str) -> str:
    return OFFICIAL + "".join(f"{row},Woman,White,35-39,Student,College degree\n" for row in rows)


def test_every_rating_is_a_vote_of_its_rater(tmp_path):
    write(tmp_path, official('7,0,"Hey, E",3.0', "9,0,Send it.,1.0", '7,41,"Hey, E",5.0'))
    data = datasets.load("popquorn", root=tmp_path)
    assert data.ids == ("7", "9")
    assert data.texts == ("Hey, E", "Send it.")
    assert data.classes == ("1", "2", "3", "4", "5")
    votes = data.votes
    said = [
        (votes.items[i], votes.annotators[a], votes.classes[c])
        for i, a, c in zip(votes.item, votes.annotator, votes.label, strict=True)
    ]
    assert said == [("7", "0", "3"), ("9", "0", "1"), ("7", "41", "5")]
    assert data.notes == ("3 of 25,042 ratings of POPQUORN are here and were used.",)
    assert popquorn.sizes(tmp_path) == {"ratings": (3, 25_042)}


def test_whole_numbers_and_other_columns_are_read_too(tmp_path):
    write(tmp_path, "source,politeness,text,user_id,instance_id\nenron,4,Hi,a,x\nrevised,2,Hi,b,x\n")
    assert datasets.load("popquorn", root=tmp_path).votes.counts.tolist() == [[0, 1, 0, 1, 0]]


@pytest.mark.parametrize(
    ("content", "what", "where"),
    [
        ("instance_id,user_id,politeness\n1,2,3\n", "there is no column text", "csv"),
        (official("1,2,Hi,3.0", "1,3,Hi,6.0"), "politeness is 6, not one of 1, 2, 3, 4, 5", "csv:3"),
        (official("1,2,Hi,3.0", "1,3,Hi,2.5"), "politeness is 2.5", "csv:3"),
        (official("1,2,Hi,"), "politeness is nan", "csv:2"),
        (official("1,2,Hi,very"), "not every cell of politeness is a number", "csv"),
        (official("1,2,Hi,3.0", "1,3,Ho,2.0"), "instance 1 has another text above", "csv:3"),
        (official("1,2,Hi,3.0", "1,,Hi,2.0"), "user_id is empty", "csv:3"),
    ],
)
def test_what_is_no_rating_is_refused_where_it_stands(tmp_path, content, what, where):
    write(tmp_path, content)
    with pytest.raises(InputError, match=what) as caught:
        datasets.load("popquorn", root=tmp_path)
    assert caught.value.where.endswith(where)
    assert "dissensus data get popquorn" in caught.value.hint


def test_a_set_that_is_not_here_says_how_to_get_it(tmp_path):
    with pytest.raises(InputError, match="dissensus data get popquorn"):
        datasets.load("popquorn", root=tmp_path)
    assert popquorn.sizes(tmp_path) == {"ratings": (0, 25_042)}


HERE = "DISSENSUS_DATA" in os.environ and popquorn.sizes(datasets.data_root())["ratings"][0] > 0


@pytest.mark.skipif(not HERE, reason="DISSENSUS_DATA names no folder with popquorn")
def test_popquorn_is_as_published():
    data = datasets.load("popquorn")
    counts = data.votes.counts
    assert (len(data), data.votes.n_votes, len(data.votes.annotators)) == (3_718, 25_042, 506)
    tied = (counts == counts.max(1, keepdims=True)).sum(1) > 1
    assert tied.mean() == pytest.approx(0.189, abs=0.0005)
    normalised = entr(data.votes.soft).sum(1) / math.log(5)
    assert normalised.mean() == pytest.approx(0.601, abs=0.001)  # 002, table 1, has 0.62 ± 0.18 for 3,700 texts
    assert normalised.std(ddof=1) == pytest.approx(0.18, abs=0.005)
