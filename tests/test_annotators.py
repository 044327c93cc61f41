import json
import re
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.cli import main
from dissensus.report.inspection_page import inspection_html
from dissensus.votes import Votes, inspect_votes, krippendorff_alpha, write_votes
from dissensus.votes.annotators import RULES, describe_annotators
from dissensus.votes.inspection import alpha_interval
from dissensus.votes.votes import row_names


def votes_of(triples, classes=3, annotators=6):
    item, who, label = (np.array(values) for values in zip(*triples, strict=True))
    seen, item = np.unique(item, return_inverse=True)
    return Votes(
        item, label, row_names(len(seen)), tuple("abcd"[:classes]), who, tuple("ABCDEFGHIJKLMNOPQR"[:annotators])
    )


triples = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 2)), min_size=1, max_size=30)


@settings(deadline=None)
@given(triples)
def test_agreement_chance_and_confusion_are_what_counting_vote_by_vote_gives(drawn):
    votes = votes_of(drawn)
    first = {}
    for item, who, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        first.setdefault((item, who), label)
    people = {person.name: person for person in describe_annotators(votes)}
    assert set(people) == {votes.annotators[who] for _, who in first}
    for name, person in people.items():
        me = votes.annotators.index(name)
        own = {item: label for (item, who), label in first.items() if who == me}
        others = {item: [y for (i, who), y in first.items() if i == item and who != me] for item in own}
        judged = [item for item in own if others[item]]
        assert (person.votes, person.judged) == (len(own), len(judged))
        if not judged:
            assert (person.agreement, person.chance, person.confusion) == (None, None, {})
            continue
        assert person.agreement == pytest.approx(np.mean([np.mean([y == own[i] for y in others[i]]) for i in judged]))
        shuffled = [np.mean([y == label for y in others[i]]) for i in judged for label in own.values()]
        assert person.chance == pytest.approx(np.mean(shuffled))
        confusion = Counter()
        for i in judged:
            ranked = Counter(others[i]).most_common()
            if len(ranked) == 1 or ranked[0][1] > ranked[1][1]:
                confusion[votes.classes[ranked[0][0]], votes.classes[own[i]]] += 1
        assert {(o, y): n for o, row in person.confusion.items() for y, n in row.items()} == dict(confusion)


def planted(items=200, seed=0):
    """Twelve annotators on four classes: two guess, one gives one class, two hand in the same votes, one came once."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 4, items)
    rows = {who: np.where(rng.random(items) < 0.75, gold, rng.integers(0, 4, items)) for who in range(12)}
    rows[0], rows[1] = rng.integers(0, 4, items), rng.integers(0, 4, items)
    rows[2] = np.full(items, 3)
    rows[4] = rows[3].copy()
    drawn = [(i, who, int(rows[who][i])) for i in range(items) for who in rows if who != 11 or i == 0]
    return votes_of(drawn, classes=4, annotators=12)


def test_the_suspicious_are_found_and_the_others_are_left_in_peace():
    people = {person.name: person for person in describe_annotators(planted())}
    expected = {
        "A": ("near chance",), "B": ("near chance",), "C": ("one class",),
        "D": ("copy",), "E": ("copy",), "L": ("too few",),
    }  # fmt: skip
    assert {name: person.suspicious for name, person in people.items() if person.suspicious} == expected
    assert (people["D"].copies, people["E"].copies) == (("E",), ("D",))
    assert set().union(*expected.values()) == set(RULES)


@pytest.mark.parametrize("seed", range(5))
def test_a_crowd_of_experts_has_no_copies_though_they_agree_almost_always(seed):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 4, 500)
    rows = [np.where(rng.random(500) < 0.97, gold, rng.integers(0, 4, 500)) for _ in range(10)]
    votes = votes_of([(i, who, int(row[i])) for who, row in enumerate(rows) for i in range(500)], 4, 10)
    assert all(person.suspicious == () for person in describe_annotators(votes))


def test_where_nearly_everything_is_one_class_giving_it_always_is_not_suspicious():
    rng = np.random.default_rng(0)
    rows = [(rng.random(60) < 0.01).astype(int) for _ in range(5)]
    rows[0][:] = 0
    people = describe_annotators(votes_of([(i, who, int(row[i])) for who, row in enumerate(rows) for i in range(60)]))
    assert people[0].suspicious == ()


def test_counts_have_no_annotators_to_describe():
    votes = Votes.from_counts([[2, 1], [0, 2]])
    assert describe_annotators(votes) is None
    assert inspect_votes(votes)["annotator_table"] is None


@pytest.mark.parametrize("per_item", [3, 40], ids=["few kinds of items", "as many kinds as items"])
def test_the_interval_of_alpha_is_that_of_resampling_items_one_by_one(per_item):
    rng = np.random.default_rng(0)
    counts = np.stack([rng.multinomial(per_item, p) for p in rng.dirichlet([0.4] * 4, 80)])
    alphas = [krippendorff_alpha(counts[rng.integers(80, size=80)]) for _ in range(1500)]
    expected = np.quantile(alphas, [0.025, 0.975])
    ours = alpha_interval(Votes.from_counts(counts))
    assert ours == pytest.approx(expected, abs=0.02)
    assert ours[0] < krippendorff_alpha(counts) < ours[1]


def test_items_with_one_vote_or_no_disagreement_give_no_interval():
    assert alpha_interval(Votes.from_counts([[1, 0], [0, 1]])) is None
    assert alpha_interval(Votes.from_counts([[2, 0], [3, 0]])) is None


def test_the_most_disputed_items_come_first_and_unanimous_ones_not_at_all():
    votes = Votes.from_counts([[4, 0, 0], [1, 1, 0], [2, 2, 0], [1, 1, 1], [3, 1, 0]], classes=["x", "y", "z"])
    disputed = inspect_votes(votes)["disputed_items"]
    assert [item["item"] for item in disputed] == ["3", "2", "1", "4"]
    assert disputed[3]["counts"] == {"x": 3, "y": 1}
    assert disputed[1]["entropy"] == pytest.approx(np.log(2))


@pytest.fixture
def inspected(tmp_path, capsys, monkeypatch):
    def call(*arguments):
        write_votes(planted(), tmp_path / "votes.csv")
        monkeypatch.setattr(sys, "argv", ["dissensus", "inspect", str(tmp_path / "votes.csv"), *map(str, arguments)])
        try:
            main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr()
        return 0, capsys.readouterr()

    return call


def test_the_command_lists_the_suspicious_with_their_rules(inspected):
    code, printed = inspected()
    assert code == 0
    assert "95% interval over items" in printed.out
    assert re.search(r"D +200 .*copy of E", printed.out)
    assert "most disputed items" in printed.out
    assert f"one class: {RULES['one class']}" in printed.out
    assert "too few       1 have fewer than 10 votes" in printed.out


def test_json_has_every_annotator(inspected):
    facts = json.loads(inspected("--json")[1].out)
    assert [row["name"] for row in facts["annotator_table"]] == list("ABCDEFGHIJKL")
    assert facts["annotator_table"][3]["copies"] == ["E"]
    assert len(facts["krippendorff_alpha_interval"]) == 2


def test_the_page_stands_alone_and_shows_what_json_has(inspected, tmp_path):
    code, printed = inspected("--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert code == 0
    assert str(tmp_path / "page.html") in printed.out
    assert not re.search(r"<script|<link|@import|https?://|src=", page)
    assert page.count('<tr><th scope="row">') == 20 + 12 + 4  # disputed items, annotators, confusions
    for rule in RULES:
        assert f"<dt>{rule}</dt>" in page


def test_a_page_that_cannot_be_written_is_said_without_a_traceback(inspected, tmp_path):
    code, printed = inspected("--html", tmp_path / "absent" / "page.html")
    assert code == 2
    assert "cannot be written" in printed.err


def test_names_cannot_smuggle_markup_into_the_page():
    evil = "<script>alert(1)</script>\"'&"
    votes = Votes([0, 0], [0, 1], [evil + "item"], [evil, evil + "2"], [0, 1], [evil + "who", "x"])
    page = inspection_html(evil, inspect_votes(votes))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_names_that_are_read_from_right_to_left_leave_numbers_where_they_stand():
    hebrew = "\u05e9\u05dc\u05d5\u05dd"
    votes = Votes([0, 0, 0], [0, 0, 1], ["i"], [hebrew, "b"], [0, 1, 2], ["x", "y", "z"])
    page = inspection_html("votes.csv", inspect_votes(votes))
    assert f"<bdi>{hebrew}</bdi>: 2, <bdi>b</bdi>: 1" in page


def test_a_name_over_several_lines_takes_one(tmp_path, capsys, monkeypatch):
    file = tmp_path / "votes.csv"
    file.write_text('item,label\ni,"two\nlines"\ni,other\nk,other\n')
    monkeypatch.setattr(sys, "argv", ["dissensus", "inspect", str(file)])
    with pytest.raises(SystemExit, match="0"):
        main()
    printed = capsys.readouterr()
    assert "2 classes: other, two lines" in printed.err
    assert any(line.strip().startswith("two lines") for line in printed.out.splitlines())
