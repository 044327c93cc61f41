import json
import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.votes import Votes, inspect_votes, krippendorff_alpha, pairwise_agreement

tables = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any), min_size=1, max_size=8)


def ballots(counts):
    """One list of labels per item with two votes or more."""
    lists = [[label for label, n in enumerate(row) for _ in range(n)] for row in counts]
    return [votes for votes in lists if len(votes) > 1]


@settings(deadline=None)
@given(tables)
def test_alpha_and_pairwise_agreement_are_what_counting_all_pairs_gives(counts):
    items = ballots(counts)
    everyone = [label for votes in items for label in votes]
    ours = krippendorff_alpha(np.array(counts)), pairwise_agreement(np.array(counts))
    if len(set(everyone)) < 2:
        assert ours[0] is None
    else:
        weights = [1 / (len(votes) - 1) for votes in items]
        observed = sum(w * (a != b) for w, votes in zip(weights, items, strict=True) for a, b in permutations(votes, 2))
        expected = sum(a != b for a, b in permutations(everyone, 2)) / (len(everyone) - 1)
        assert ours[0] == pytest.approx(1 - observed / expected)
    if items:
        shares = [np.mean([a == b for a, b in permutations(votes, 2)]) for votes in items]
        assert ours[1] == pytest.approx(np.mean(shares))
    else:
        assert ours[1] is None


def test_alpha_of_krippendorffs_own_example_is_his():
    # Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), example C: 4 observers, 12 units, nominal 0.743.
    units = ["111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11", "3"]
    counts = np.array([[unit.count(str(label)) for label in range(1, 6)] for unit in units])
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


def test_what_is_inspected_adds_up():
    votes = Votes.from_counts([[3, 0, 0], [1, 1, 0], [2, 1, 1], [0, 0, 1]], classes=["cat", "dog", "owl"])
    facts = inspect_votes(votes)
    assert (facts["items"], facts["votes"], facts["annotators"]) == (4, 10, None)
    assert facts["classes"] == {"cat": 6, "dog": 2, "owl": 2}
    assert facts["votes_per_item"] == {"fewest": 1, "mean": 2.5, "most": 4}
    assert (facts["unanimous_items"], facts["tied_items"]) == (2, 1)
    assert facts["mean_entropy"] == pytest.approx((np.log(2) + 1.5 * np.log(2)) / 4)
    assert facts["krippendorff_alpha"] == krippendorff_alpha(votes.counts)
    histogram = facts["entropy_histogram"]
    assert histogram["zero"] + sum(histogram["counts"]) == 4
    assert histogram["edges"][-1] == pytest.approx(np.log(3), abs=1e-6)
    json.dumps(facts)


def test_people_who_agree_on_everything_have_no_alpha():
    facts = inspect_votes(Votes.from_counts([[2], [3]]))
    assert facts["krippendorff_alpha"] is None
    assert (facts["mean_entropy"], facts["tied_items"], facts["entropy_histogram"]["zero"]) == (0, 0, 2)


def test_inspecting_a_file_imports_no_torch(tmp_path):
    votes = tmp_path / "votes.csv"
    votes.write_text("item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\n")
    program = f"""
import sys
from dissensus.cli import main
sys.argv = ["dissensus", "inspect", {str(votes)!r}]
try:
    main()
finally:
    print("torch" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "no unique majority    1 items (50.0%)" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "False"
