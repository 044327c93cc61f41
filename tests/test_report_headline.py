"""The answer at the top of the report: how sure it may be of a difference."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from dissensus import report, stats
from dissensus.store.ledger import Ledger
from fake_study import GOOD, Fake, experiment_of, page_of, score_table, shown


def headline(tmp_path: Path, shifts: Mapping[str, Sequence[float]], split: str = "holdout", **changes: object) -> str:
    """The answer where each method's soft NLL is that of the first plus a known shift for each seed."""
    fake = Fake(Ledger(tmp_path / "ledger"), keep=False, split=split)
    cells = {
        label: {
            "": {
                str(seed): fake.publish("", label, seed, sharpness=1.0, blur=0.0, shift=by)
                for seed, by in enumerate(of_seed)
            }
        }
        for label, of_seed in shifts.items()
    }
    page = page_of(report.write(experiment_of(score_table("table", cells, **changes)), fake.ledger, tmp_path))
    return page.text


def test_a_clear_difference_is_told_with_its_size_and_interval(tmp_path):
    text = headline(tmp_path, {"A": [0] * 5, "B": [0.21, 0.22, 0.20, 0.21, 0.21], "C": [-0.1, -0.11, -0.1, -0.1, -0.09]})
    found = re.search(r"B is worse than A by 0\.21 nats \(95% interval (0\.\d+) to (0\.\d+)\)", text)
    test = stats.corrected_t([0.21, 0.22, 0.20, 0.21, 0.21], [0.0] * 5, test_to_train=0.25)
    assert found is not None
    assert [float(end) for end in found.groups()] == pytest.approx([test.low, test.high], abs=5e-3)
    assert "C is better by 0.10 nats" in text


def test_differences_around_zero_cannot_be_told_and_what_is_possible_is_said(tmp_path):
    text = headline(tmp_path, {"A": [0] * 5, "B": [0.01, -0.01, 0.02, -0.02, 0.003]})
    high = stats.corrected_t([0.01, -0.01, 0.02, -0.02, 0.003], [0.0] * 5, test_to_train=0.25).high
    assert "B shows no clear difference from A" in text
    assert f"by up to {high:.3f} nats" in text
    assert "p = 0.062 at best" in text


def test_rows_with_fewer_seeds_are_named_with_them_and_hide_more(tmp_path):
    text = headline(tmp_path, {"A": [0] * 5, "B": [0.01, -0.01, 0.02, -0.02, 0.003], "C": [0.01, 0.05]})
    high = {
        name: stats.corrected_t(of, [0.0] * len(of), test_to_train=0.25).high
        for name, of in (("B", [0.01, -0.01, 0.02, -0.02, 0.003]), ("C", [0.01, 0.05]))
    }
    assert "B and C (2 seeds) show no clear difference from A" in text
    assert f"by up to {high['B']:.3f} nats; with 2 seeds by up to {high['C']:.2f} nats." in text
    assert "in every seed" not in text  # two are too few to say it of


def test_a_difference_of_one_sign_in_every_seed_is_said_though_it_is_not_shown(tmp_path):
    above, below = [0.001, 0.05, 0.002, 0.06, 0.001], [-0.001, -0.04, -0.002, -0.05, -0.001]
    text = headline(tmp_path, {"A": [0] * 5, "B": above, "C": below})
    assert "C and B show no clear difference from A" in text
    assert "B is worse in every seed, though not by enough to tell." in text
    assert "C is better in every seed, though not by enough to tell." in text


def test_a_difference_that_does_not_survive_holm_is_only_said_to_look_so(tmp_path):
    leaning = [0.02, 0.045, 0.03, 0.06, 0.025]
    noise = {name: [0.01, -0.01, 0.02, -0.02, 0.003] for name in ("C", "D", "E", "F")}
    text = headline(tmp_path, {"A": [0] * 5, "B": leaning, **noise})
    p = stats.corrected_t(leaning, [0.0] * 5, test_to_train=0.25).p
    assert p < 0.05 < 5 * p  # or this test would test nothing
    assert "B looks worse than A by" in text
    assert "B is worse" not in text


def test_with_one_seed_no_test_is_claimed(tmp_path):
    text = headline(tmp_path, {"A": [0.1], "B": [0.0]})
    assert "B has the lowest soft NLL" in text
    assert "one seed allows no test" in text
    assert "no clear difference" not in text


def test_seeds_that_share_a_split_are_tested_without_the_correction_and_the_page_says_so(tmp_path):
    shifts = [0.02, 0.04, 0.03, 0.05, 0.02]
    text = headline(tmp_path, {"A": [0] * 5, "B": shifts}, split="folds")
    test = stats.paired_t(shifts, [0.0] * 5)
    assert f"{shown(test.low, 4)} to {shown(test.high, 4)}" in text
    assert "All seeds share one split" in text


def test_where_more_is_better_a_negative_difference_is_worse(tmp_path):
    fake = Fake(Ledger(tmp_path / "ledger"), keep=False)
    methods = {"Good": GOOD, "Bad": {"sharpness": 0.3, "blur": 1.5}}
    table = fake.table("table", methods, range(5), primary="entropy_pearson")
    page = page_of(report.write(experiment_of(table), fake.ledger, tmp_path))
    assert "Bad is worse than Good by" in page.text
