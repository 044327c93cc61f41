"""Exhibits, claims and records: what a report shows beside its tables, from records alone."""

import csv
import importlib.util
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from xml.etree import ElementTree

import pytest

from dissensus import report, stats
from dissensus.errors import InputError
from dissensus.experiments.description import (
    BarChart,
    Claim,
    Curve,
    CurvePlot,
    Experiment,
    GapTable,
    PaperNumber,
    Printed,
    ValueTable,
    from_json,
    to_json,
)
from dissensus.experiments.values import EpochCurve, Measured, Score, fact
from dissensus.report.judged_claims import judge_claims
from dissensus.store import records
from dissensus.store.ledger import Ledger
from dissensus.store.records import Records
from dissensus.store.spec import Run, Spec

V, W = Measured("v"), Measured("w")


def experiment(*exhibits, claims=(), apart=()):
    return Experiment(
        key="t/x",
        title="A title",
        question="Why?",
        scale="laptop",
        command="dissensus run t/x --out o",
        exhibits=exhibits,
        claims=claims,
        apart=apart,
    )


def table(runs, columns=None, **options):
    fixed = {"key": "t", "title": "T", "cells": {name: {"": ids} for name, ids in runs.items()}}
    return ValueTable(**{**fixed, "columns": columns or {"v": V}, **options})


def judged(claim, ledger):
    (one,) = judge_claims(experiment(claims=(claim,)), ledger)
    return one


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "runs")


@pytest.fixture
def publish(ledger):
    def of(name, seed, scores=None, facts=None, curve=None, *, kind="train", fixed=0, made_from=()):
        split = {"name": "holdout", "fraction": 0.2, "fixed": fixed}
        settings = {"name": name, "seed": seed} | ({"split": split} if kind == "train" else {})
        spec = Spec(kind, settings, {"of": made_from} if made_from else {})
        ledger.publish(Run(spec, scores or {}, curve or {}, facts or {}, {"torch": "2"}), {}, {})
        return spec.id

    return of


def groups(publish, **values):
    """Runs whose score `v` has these values, one group per name."""
    return {
        name: {str(seed): publish(name, seed, {"v": value}) for seed, value in enumerate(of_group)}
        for name, of_group in values.items()
    }


def written(planned, ledger, tmp_path):
    report.write(planned, ledger, tmp_path / "out")
    lines = list(csv.DictReader(io.StringIO((tmp_path / "out" / "results.csv").read_text())))
    return (tmp_path / "out" / "report.html").read_text(), (tmp_path / "out" / "results.md").read_text(), lines


def test_a_value_is_read_from_scores_facts_and_curve():
    run = Run(Spec("measure", {}), {"last": {"raw": {"kl": 0.5}}, "v": 2}, {"loss": [3, 2]}, {"a": {"b": 1}}, {})
    assert Score("kl").read(run) == 0.5
    assert V.read(run) == 2
    assert fact("a", "b").read(run) == 1
    assert EpochCurve("loss").read(run) == [3, 2]
    assert Score("nothing").read(run) is fact("no", "such").read(run) is EpochCurve("x").read(run) is None


def test_a_printed_number_for_no_cell_is_refused(publish):
    runs = groups(publish, a=[1.0])
    number = PaperNumber("", "b", "v", 2.25, 0.5, 3, "paper, Table 1")
    for row, value in (("b", "v"), ("a", "w")):
        with pytest.raises(InputError, match="stands beside no cell"):
            table(runs, printed=(Printed(number, row, value),))


def test_a_table_has_means_p_values_and_the_papers_number_beside(publish, ledger, tmp_path):
    runs = groups(publish, a=[1.0, 2.0, 3.0], b=[1.5, 2.6, 3.7])
    number, other = (
        PaperNumber("", "b", "v", 2.25, 0.5, 3, "paper, Table 1"),
        PaperNumber("", "c", "v", 9.0, None, 3, "paper"),
    )
    exhibit = table(runs, baseline="a", printed=(Printed(number, "b", "v"),))
    html, text, lines = written(experiment(exhibit, apart=(other,)), ledger, tmp_path)
    p = stats.wilcoxon([1.5, 2.6, 3.7], [1, 2, 3]).p
    t = stats.paired_t([1.5, 2.6, 3.7], [1, 2, 3]).p
    cell = f"2.600 ± {stdev([1.5, 2.6, 3.7]):.3f}<br>p {p:.2g}, Holm {p:.2g}, t {t:.2g}<br>paper 2.25 ± 0.50"
    assert f"| b | {cell} |" in text
    assert "p of the paired t test, not corrected" in text
    assert "paper 2.25 ± 0.50" in html
    assert "Printed in the paper, without a cell here" in html
    assert {line["value"] for line in lines if line["row"] == "b" and line["statistic"] == "value"} == {
        "1.5",
        "2.6",
        "3.7",
    }
    assert [float(line["value"]) for line in lines if line["statistic"] == "mean"] == [2.0, fmean([1.5, 2.6, 3.7])]


def test_other_statistics_that_the_paper_prints_stand_beside_ours(publish, ledger, tmp_path):
    runs = groups(publish, a=[1.0, 2.0, 3.5], b=[0.5, 1.0, 1.5])
    told = {"lowest": 0.25, "highest": 0.75, "below": 35.7, "p": 0.031}
    printed = tuple(
        Printed(PaperNumber("", "b", "v", value, None, 3, "paper, §5"), "b", "v", statistic=statistic)
        for statistic, value in told.items()
    )
    exhibit = table(runs, baseline="a", printed=printed)
    html, text, _ = written(experiment(exhibit), ledger, tmp_path)
    p, gap = stats.wilcoxon([0.5, 1.0, 1.5], [1.0, 2.0, 3.5]).p, [0.5, 1.0, 2.0]
    t = stats.paired_t([0.5, 1.0, 1.5], [1.0, 2.0, 3.5]).p
    for line in (
        f"p {p:.2g}, Holm {p:.2g}, t {t:.2g}, paper p 0.031",
        "lowest 0.500, paper 0.25",
        "highest 1.500, paper 0.75",
        f"below a by {fmean(gap):.3f} ± {stdev(gap):.3f}, paper 35.7",
    ):
        assert line in text
        assert line in html
    other = replace(printed[2], row="a")  # the other way round: a is above b, which is below by less than nothing
    turned = experiment(replace(exhibit, baseline="b", printed=(other,)))
    assert f"below b by −{fmean(gap):.3f} ± {stdev(gap):.3f}, paper 35.7" in written(turned, ledger, tmp_path)[1]


@pytest.mark.parametrize("picture", ["dots", "lines"])
def test_every_series_and_panel_is_drawn(picture, publish, ledger, tmp_path):
    cells = {
        name: {
            k: {
                str(seed): publish(f"{name}{k}", seed, {"v": len(name) + int(k) + seed, "w": -1.0 * seed})
                for seed in (0, 1)
            }
            for k in ("5", "50")
        }
        for name in ("soft", "sampled")
    }
    columns = {"first": V, "second": W}
    exhibit = table({}, columns, cells=cells, picture=picture, axes=("votes", "nats"), note="A note.")
    html, text, _ = written(experiment(exhibit), ledger, tmp_path)
    pictures = sorted((tmp_path / "out" / "figures").glob("*.svg"))
    assert len(pictures) == 2
    for file in pictures:
        ElementTree.parse(file)
        assert f"](figures/{file.name})" in text
        assert "soft" in file.read_text()
        assert "sampled" in file.read_text()
    assert "first" in html
    assert "A note." in html


def gap_table(cells):
    return GapTable(key="gaps", title="Gaps", cells=cells, columns={"v": V})


def test_a_gap_is_taken_in_pairs_and_shown_with_its_interval(publish, ledger, tmp_path):
    runs = groups(publish, soft=[1.0, 2.0, 3.0], hard=[1.5, 2.6, 3.7], alone=[4.0])
    cells = {
        "plain": {"soft": runs["soft"], "hard": {**runs["hard"], "7": runs["alone"]["0"]}},
        "unpaired": {"soft": {}, "hard": runs["hard"]},
    }
    html, text, lines = written(experiment(gap_table(cells)), ledger, tmp_path)
    test = stats.paired_t([1.5, 2.6, 3.7], [1.0, 2.0, 3.0])
    low, high = re.search(r"\| plain \| 0\.600 ± 0\.100<br>95% interval (\S+) to (\S+)<br>soft 2\.0", text).groups()
    assert (float(low), float(high)) == pytest.approx((test.low, test.high), abs=0.006)
    assert "<br>3 pairs |" in text
    assert "| unpaired | – |" in text
    assert html.count("no difference") == 1
    gaps = [
        float(line["value"]) for line in lines if line["checkpoint"] == "hard minus soft" and line["statistic"] == "value"
    ]
    assert gaps == pytest.approx([0.5, 0.6, 0.7])


@pytest.mark.parametrize("second", [{}, {"soft": {}, "other": {}}, {"soft": {}}])
def test_gaps_are_between_the_same_two_points_in_every_row(second):
    with pytest.raises(InputError, match="same two points"):
        gap_table({"plain": {"soft": {}, "hard": {}}, "other": second})


def test_a_curve_is_the_mean_where_every_run_has_it(publish, ledger, tmp_path):
    ids = {
        "0": publish("a", 0, facts={"x": [0, 1, 2], "y": [1.0, 2.0, 3.0]}),
        "1": publish("a", 1, facts={"x": [0, 1], "y": [3.0, 4.0]}),
    }
    exhibit = CurvePlot(key="f", title="F", cells={"a": {"": ids}}, curves={"y": Curve(fact("y"), fact("x"))})
    _, _, lines = written(experiment(exhibit), ledger, tmp_path)
    assert [(line["seed"], line["value"]) for line in lines] == [("0", "2.0"), ("1", "3.0")]


def test_a_place_that_a_run_has_nothing_for_is_the_mean_of_the_others(publish, ledger, tmp_path):
    ids = {
        "0": publish("a", 0, facts={"x": [0.0, 1.0, 2.0], "y": [5.0, 1.0, 3.0]}),
        "1": publish("a", 1, facts={"x": [None, 1.0, 4.0], "y": [None, 2.0, 9.0]}),
    }
    exhibit = CurvePlot(key="f", title="F", cells={"a": {"": ids}}, curves={"y": Curve(fact("y"), fact("x"))})
    _, _, lines = written(experiment(exhibit), ledger, tmp_path)
    assert [(line["seed"], line["value"]) for line in lines] == [("0", "5.0"), ("1", "1.5"), ("3", "6.0")]


def test_without_a_path_for_x_a_curve_counts_from_one(publish, ledger, tmp_path):
    ids = {"0": publish("a", 0, curve={"l": [5.0, None, 3.0]})}
    exhibit = CurvePlot(key="f", title="F", cells={"a": {"": ids}}, curves={"l": Curve(EpochCurve("l"))})
    _, _, lines = written(experiment(exhibit), ledger, tmp_path)
    assert [(line["seed"], line["value"]) for line in lines] == [("1", "5.0"), ("3", "3.0")]


def test_bars_show_each_items_distributions(publish, ledger, tmp_path):
    item = {"name": "one <b>", "said": "s", "classes": ["yes", "no"], "shares": {"People": [0.75, 0.25], "a": [1.0, 0.0]}}
    ids = {"0": publish("a", 0, facts={"items": [item]})}
    exhibit = BarChart(key="f", title="F", cells={"a": {"": ids}}, items=fact("items"))
    html, _, lines = written(experiment(exhibit), ledger, tmp_path)
    assert "People: yes 75%, no 25%" in html
    assert "one &lt;b&gt;" in html
    assert [line["value"] for line in lines] == ["0.75", "0.25", "1.0", "0.0"]


@pytest.mark.parametrize(
    "change", [{"shares": {}}, {"classes": [], "shares": {"People": []}}, {"shares": {"People": [0.0, 0.0]}},
               {"shares": {"People": [-1.0, 2.0]}}, {"shares": {"People": [1.0]}}]
)  # fmt: skip
def test_an_item_without_shares_is_refused(change, publish, ledger, tmp_path):
    item = {"name": "one", "said": "s", "classes": ["yes", "no"], "shares": {"People": [0.75, 0.25]}, **change}
    ids = {"0": publish("a", 0, facts={"items": [item]})}
    exhibit = BarChart(key="f", title="F", cells={"a": {"": ids}}, items=fact("items"))
    with pytest.raises(InputError, match="'one' has"):
        written(experiment(exhibit), ledger, tmp_path)


def test_what_is_not_finished_is_said(publish, ledger, tmp_path):
    runs = {"a": {"0": "absent", "1": publish("a", 0, {"v": 1.0})}, "b": {"0": "none"}}
    claim = Claim("a beats b", "lower", {"a": {"0": "absent"}, "b": {"0": "none"}}, (V,))
    html, text, _ = written(experiment(table(runs, picture="dots"), claims=(claim,)), ledger, tmp_path)
    assert "2 runs of this exhibit not finished" in html
    assert "2 runs of this exhibit not finished" in text
    for page in (html, text):
        assert "1 claim is not finished: runs that would decide it are missing." in page


def test_a_planned_experiment_survives_json(publish):
    runs = groups(publish, a=[1.0], b=[2.0])
    number = PaperNumber("", "a", "v", 1.0, None, 3, "paper")
    exhibits = (
        table(runs, {"V": V, "S": Score("kl", "best")}, axes=("x", "y"), printed=(Printed(number, "a", "v"),)),
        CurvePlot(key="c", title="C", cells={"a": {"": runs["a"]}}, curves={"y": Curve(fact("y"), fact("x"))}),
        BarChart(key="b", title="B", cells={"a": {"": runs["a"]}}, items=fact("items")),
    )
    claim = Claim("c", "lower", runs, (V,), 0.5, "p. 3")
    planned = experiment(*exhibits, claims=(claim,), apart=(number,))
    assert from_json(json.loads(json.dumps(to_json(planned)))) == planned


FIVE, NEAR = [1.0, 1.1, 1.2, 1.05, 1.0], [1.01, 1.08, 1.21, 1.04, 1.02]
LOW, HIGH, NOISE = [1.0, 1.1, 1.2, 1.05], [2.0, 2.2, 2.1, 2.15], [1.1, 1.0, 1.25, 1.0]


@pytest.mark.parametrize(
    ("test", "values", "word"),
    [
        ("lower", {"a": LOW, "b": HIGH}, "holds"),
        ("lower", {"a": HIGH, "b": LOW}, "does not hold"),
        ("lower", {"a": LOW, "b": NOISE}, "not shown"),
        ("lower", {"a": LOW[:1], "b": HIGH[:1]}, "not shown"),
        ("not_higher", {"a": LOW, "b": NOISE}, "holds"),
        ("not_higher", {"a": HIGH, "b": LOW}, "does not hold"),
        ("not_higher", {"a": NOISE[::-1], "b": [1.0, 1.2, 1.0, 1.05]}, "not shown"),
        ("alike", {"a": FIVE, "b": NEAR}, "holds"),
        ("alike", {"a": FIVE, "b": [value + 0.3 for value in NEAR]}, "does not hold"),  # all of it beyond the margin
        ("alike", {"a": FIVE, "b": NEAR, "c": [value + 0.3 for value in NEAR]}, "does not hold"),
        ("alike", {"a": FIVE, "b": [1.4, 0.7, 1.6, 0.9, 1.3]}, "not shown"),  # noise is no likeness
        ("alike", {"a": FIVE[:4], "b": NEAR[:4]}, "not shown"),  # four pairs are too few, however alike
        ("between", {"a": [1.6, 1.7, 1.65, 1.7]}, "holds"),
        ("between", {"a": LOW}, "does not hold"),
        ("between", {"a": [2.4, 2.5, 2.45, 2.4]}, "does not hold"),
        ("between", {"a": [1.4, 1.7, 1.65, 1.7]}, "not shown"),
        ("above", {"a": HIGH}, "holds"),
        ("above", {"a": LOW}, "does not hold"),
        ("above", {"a": [1.0, 3.0]}, "not shown"),  # a mean above it, but not by more than its noise
        ("above", {"a": [1.4, 2.5, 2.6, 2.5, 2.6, 2.5, 2.6]}, "holds"),  # one run is not, but the interval is
        ("below", {"a": LOW, "b": [1.0, 3.0]}, "not shown"),
        ("below", {"a": LOW, "b": NOISE}, "holds"),
        ("below", {"a": LOW, "b": HIGH}, "does not hold"),
        ("above", {"a": [1.51, 5.0, 1.6]}, "not shown"),  # every run is, but the interval is not
        ("above", {"a": HIGH[:1]}, "not shown"),
        ("rising", {"a": LOW, "b": HIGH, "c": [3.0, 3.1, 3.3, 3.1]}, "holds"),
        ("rising", {"a": LOW, "b": [1.1, 1.0, 1.4, 1.2], "c": HIGH}, "not shown"),  # the means do, a to b by chance
        ("rising", {"a": LOW, "b": HIGH, "c": NOISE}, "does not hold"),
        ("rising", {"a": LOW, "b": LOW, "c": HIGH}, "not shown"),
    ],
)
def test_a_claim_gets_the_word_its_numbers_carry(test, values, word, publish, ledger):
    limit = None if test == "lower" else 1.5
    claim = Claim("it is so", test, groups(publish, **values), (V,), threshold=limit, upper=2.0, margin=0.1)
    one = judged(claim, ledger)
    assert one.word == word


@pytest.mark.parametrize(
    ("test", "share", "word", "why"),
    [
        ("cells_lower", 1.0, "does not hold", "2 of 3 cells have the lower mean; not: e"),
        ("cells_lower", 0.6, "holds", "2 of 3"),
        ("cells_unanimous", 0.3, "holds", "1 of 3 cells are lower in every pair of runs; not: c and e"),
        ("cells_unanimous", 0.5, "does not hold", "1 of 3"),
        ("cells_significant", 0.0, "not shown", "0 of 3 cells are lower after Holm's correction"),
    ],
)
def test_cells_are_counted_as_papers_count_them(test, share, word, why, publish, ledger):
    cells = groups(publish, a=LOW, b=HIGH, c=LOW, d=[1.2, 1.05, 1.3, 1.2], e=HIGH, f=LOW)
    one = judged(Claim("so many", test, cells, (V,), threshold=share), ledger)
    assert one.word == word
    assert one.why.startswith(why)


def test_cells_pair_their_own_seeds_and_may_have_values_of_their_own(publish, ledger):
    cells = groups(publish, a=[1.0, 1.0, 1.0, 1.0], b=[2.0, 2.0, 2.0, 2.0], c=[3.0, 3.0, 3.0], d=[2.0, 2.0, 2.0, 99.0])
    one = judged(Claim("so many", "cells_lower", cells, (V, V), threshold=1.0), ledger)
    assert one.why == "1 of 2 cells have the lower mean; not: c."
    assert one.word == "does not hold"
    two = {name: {seed: run for seed, run in runs.items() if seed in "01"} for name, runs in cells.items()}
    assert judged(Claim("so many", "cells_lower", two, (V,), threshold=0.5), ledger).word == "not shown"
    cells["c"] = {"0": "absent"}
    assert "1 of 2 cells are not finished" in judged(Claim("c", "cells_lower", cells, (V,), threshold=1.0), ledger).why


def test_enough_seeds_can_survive_the_correction(publish, ledger):
    cells = groups(publish, a=[0.0] * 8, b=[1.0 + seed / 10 for seed in range(8)])
    one = judged(Claim("none", "cells_significant", cells, (V,), threshold=0.0), ledger)
    assert one.word == "does not hold"
    assert one.why.startswith("1 of 1 cells are lower after Holm's correction")


def test_that_nothing_survives_the_correction_holds_only_where_something_could(publish, ledger):
    noise = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8]
    for seeds, word in ((4, "not shown"), (8, "holds")):
        cells = groups(publish, a=noise[:seeds], b=[0.0] * seeds)
        one = judged(Claim("none", "cells_significant", cells, (V,), threshold=0.0), ledger)
        assert one.word == word, one.why


@pytest.mark.parametrize(
    ("test", "share", "word"),
    [
        ("cells_lower", 1.0, "not finished"),  # the third cell may be an exception
        ("cells_lower", 0.6, "holds"),
        ("cells_unanimous", 0.9, "does not hold"),  # one exception is enough
        ("cells_unanimous", 0.6, "not finished"),
        ("cells_significant", 0.0, "not finished"),
    ],
)
def test_a_count_waits_for_the_cells_that_can_change_it(test, share, word, publish, ledger):
    cells = groups(publish, a=LOW, b=HIGH, c=[1.0, 1.1, 2.2, 1.0], d=[1.2, 1.3, 2.1, 1.2], e=LOW, f=HIGH)
    cells["e"] = {"0": "absent"}
    assert judged(Claim("so many", test, cells, (V,), threshold=share), ledger).word == word


@pytest.mark.parametrize("test", ["alike", "between", "above", "cells_lower"])
def test_a_claim_without_what_decides_it_is_refused(test, publish):
    with pytest.raises(InputError, match="cannot be judged with no "):
        Claim("c", test, groups(publish, a=LOW, b=HIGH), (V,))


@pytest.mark.parametrize(("by", "word"), [(0.5, "holds"), (1.0, "not shown"), (1.5, "does not hold")])
def test_lower_by_so_much_asks_for_so_much(by, word, publish, ledger):
    assert judged(Claim("c", "lower", groups(publish, a=LOW, b=HIGH), (V,), threshold=by), ledger).word == word


def test_the_effect_of_a_claim_is_the_difference_that_decides_it(publish, ledger):
    effect = judged(Claim("c", "lower", groups(publish, a=LOW, b=HIGH), (V,)), ledger).effect
    test = stats.paired_t(LOW, HIGH)
    assert (effect.mean, effect.low, effect.high, effect.runs) == (test.mean_difference, test.low, test.high, 4)


def test_differences_that_do_not_vary_are_said_to_be_why_there_is_no_test(publish, ledger):
    one = judged(Claim("c", "lower", groups(publish, a=LOW, b=LOW), (V,)), ledger)
    assert one.word == "not shown"
    assert "no test with 4 pairs, all with the same difference" in one.why


def test_a_threshold_claim_tells_the_interval_that_decides_it(publish, ledger):
    claim = Claim("c", "above", groups(publish, a=[1.0, 3.0, 2.0], b=[2.0]), (V,), threshold=1.5)
    one = judged(claim, ledger)
    low, high = 2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5  # Student's t with 2 degrees of freedom
    assert f"a 2.0 ± 1.0 (95% interval {low:.3f} to {high:.3f}".replace("-", "−") in one.why
    assert "b 2; 3 of 4 runs are above 1.5" in one.why  # one run has no interval


def test_an_order_is_told_step_by_step_and_from_its_beginning(publish, ledger):
    runs = groups(publish, a=LOW, b=HIGH, c=[3.0, 3.1, 2.0, 3.1])
    one = judged(Claim("c", "rising", runs, (V,)), ledger)
    assert one.word == "not shown"
    for step in ("b minus a +1.0250", "c minus b +0.6875", "c minus a +1.7125", "in that order in 3 of 4 seeds"):
        assert step in one.why


def test_pairs_are_by_seed_and_an_unfinished_partner_leaves_its_pair_out(publish, ledger):
    runs = groups(publish, a=[1.0, 1.1, 1.2, 99.0], b=[2.0, 2.2, 2.1])
    runs["b"]["3"] = "absent"
    one = judged(Claim("c", "lower", runs, (V,)), ledger)
    assert one.word == "holds"
    assert "3 pairs" in one.why
    assert "99" not in one.why


def test_what_is_measured_in_runs_is_tested_as_their_splits_ask(publish, ledger, tmp_path):
    first, second = [100.0, 120.0, 150.0], [120.0, 160.0, 180.0]  # shown by a plain t test, not by the corrected one
    runs = {}
    for name, values in (("a", first), ("b", second)):
        sizes = {"items": {"train": 8000, "evaluation": 2000}}
        behind = [publish(name, seed, facts=sizes, fixed=None) for seed in range(3)]
        runs[name] = {
            str(seed): publish(
                "sharp", seed, {"v": value}, {"items": {"slice": 50}}, kind="measure", made_from=(behind[seed],)
            )
            for seed, value in enumerate(values)
        }
    claim = Claim("c", "lower", runs, (V,))
    one = judged(claim, ledger)
    assert stats.paired_t(first, second).high < 0
    assert one.word == "not shown"
    html, text, _ = written(experiment(table(runs, baseline="b"), claims=(claim,)), ledger, tmp_path)
    corrected = stats.corrected_t(first, second, test_to_train=0.25).p
    assert f"t {corrected:.2g}" in text
    for page in (html, text):
        assert "Nadeau and Bengio" in page
        assert "How finished runs were measured" in page
        assert "slice: 50 items" in page
        assert "holdout" in page


def test_estimates_that_stopped_short_are_told_by_what_they_are_of(publish, ledger, tmp_path):
    for seed, met in enumerate((True, False, False)):
        estimates = {"full": {"lanczos": {"converged": True}}, "high": {"hutchinson": {"converged": met}}}
        behind = publish("a", seed)
        publish("sharp", 0, {"v": 1.0}, {"estimates": estimates}, kind="measure", made_from=(behind,))
    measured = [run for run in ledger.ids() if ledger.read(run).spec.kind == "measure"]
    runs = {"a": {str(index): run for index, run in enumerate(measured)}}
    _, text, _ = written(experiment(table(runs)), ledger, tmp_path)
    assert "hutchinson, high: 2 of 3 estimates stopped short of tolerance" in text
    assert "lanczos, full" not in text


def test_what_remains_of_a_gap_is_a_share(publish, ledger):
    runs = {
        "hard": {str(i): publish("hard", i, {"raw": 2.0 + 1.001 * i, "tempered": 1.2 + i}) for i in range(3)},
        "soft": {str(i): publish("soft", i, {"raw": 1.0 + i, "tempered": 1.0 + i}) for i in range(3)},
    }
    one = judged(Claim("c", "remaining", runs, (Measured("raw"), Measured("tempered"))), ledger)
    assert one.word == "measured"
    assert "20% of the gap remains" in one.why


def test_of_a_gap_that_was_never_shown_no_share_remains(publish, ledger):
    runs = {
        name: {str(i): publish(name, i, {"raw": value, "tempered": value}) for i, value in enumerate(values)}
        for name, values in (("a", LOW), ("b", NOISE))
    }
    one = judged(Claim("c", "remaining", runs, (Measured("raw"), Measured("tempered"))), ledger)
    assert one.word == "no gap shown"
    assert "%" not in one.why


def test_a_gap_that_goes_the_other_way_is_not_one_to_close(publish, ledger):
    runs = {
        name: {str(i): publish(name, i, {"raw": value, "tempered": value}) for i, value in enumerate(values)}
        for name, values in (("a", LOW), ("b", HIGH))
    }
    one = judged(Claim("c", "remaining", runs, (Measured("raw"), Measured("tempered"))), ledger)
    assert one.word == "no gap shown"
    assert "There is no gap to close: a is the lower" in one.why


def test_records_are_a_ledger_without_arrays_and_bring_the_runs_they_were_made_from(publish, ledger, tmp_path):
    first = publish("a", 0, {"v": 1.0})
    above = Run(Spec("relate", {"name": "b"}, {"of": (first,)}), {"v": 2.0}, {}, {}, {})
    ledger.publish(above, {}, {})
    publish("other", 0, {"v": 3.0})
    assert records.pack(ledger, [above.id, "absent"], tmp_path / "r.gz") == 2
    kept = Records(tmp_path / "r.gz")
    assert kept.ids() == sorted([first, above.id])
    assert kept.read(above.id) == above
    assert above.id in kept
    assert kept.predictions(above.id, "last") is None
    before = (tmp_path / "r.gz").read_bytes()
    records.pack(ledger, [first, above.id], tmp_path / "r.gz")
    assert (tmp_path / "r.gz").read_bytes() == before
    with pytest.raises(InputError, match="there is no run"):
        kept.read("absent")


@pytest.mark.parametrize("content", [b"", b"no gzip", None])
def test_a_file_that_holds_no_records_is_bad_input(content, tmp_path):
    if content is not None:
        (tmp_path / "r.gz").write_bytes(content)
    with pytest.raises(InputError, match="no records can be read"):
        Records(tmp_path / "r.gz")


def test_the_result_pages_are_what_their_records_say():
    file = Path(__file__).parent.parent / "docs" / "result_pages.py"
    spec = importlib.util.spec_from_file_location("result_pages", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for page, text in module.pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page}: run `python docs/result_pages.py`"


EVIL = "=HYPERLINK(1) | <script> `x` [a](http://b.example) *c* www.d.example e@f.example\n- g\x1b[2J"


def test_no_cell_of_the_numbers_is_a_formula_and_numbers_stay_numbers(publish, ledger, tmp_path):
    runs = groups(publish, **{EVIL: [-1.5, -2.5], "+sum": [1.0, 2.0], "@a": [0.5, 1.0], "-b": [1.0, 1.0]})
    _, _, lines = written(experiment(table(runs, title="=T")), ledger, tmp_path)
    assert {line["row"][:2] for line in lines} == {"'=", "'+", "'@", "'-"}
    assert {line["table"] for line in lines} == {"'=T"}
    assert [float(line["value"]) for line in lines if line["statistic"] == "value"][:2] == [-1.5, -2.5]


def test_markdown_shows_what_users_wrote_and_obeys_none_of_it(publish, ledger, tmp_path):
    runs = groups(publish, **{EVIL: [1.0, 2.0], "b": [1.0, 1.0]})
    number = PaperNumber(EVIL, "b", EVIL, 1.0, None, 3, EVIL, words=EVIL)
    exhibit = table(runs, {EVIL: V}, title=EVIL, note=EVIL, baseline="b", printed=(Printed(number, "b", "v"),))
    claim = Claim(EVIL, "lower", runs, (V,), source=EVIL)
    planned = replace(
        experiment(exhibit, claims=(claim,), apart=(number,)),
        **{"title": EVIL, "question": EVIL, "notes": (EVIL, "1. no list", "---"), "command": "a\n```\n# not a heading"},
    )
    _, text, _ = written(planned, ledger, tmp_path)
    body, code = text.split("Made by:")
    for obeyed in (
        r"<(?!br>)",
        "`",
        r"\*c",
        r"\](?=\()",
        r"http:",
        r"www\.d",
        "@",
        "\x1b",
        r"\n- g",
        r"\n1\. no",
        r"\n---\n",
    ):
        assert not re.search(rf"(?<!\\){obeyed}", body), obeyed
    assert code.strip().startswith("````\n")
    assert code.strip().endswith("\n````")
    rows = [line for line in body.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


@pytest.mark.parametrize("key", ["../../x", "a/b", "", "a b", "x" * 200])
def test_a_key_that_could_lead_a_file_elsewhere_is_refused(key):
    with pytest.raises(InputError, match="key"):
        table({}, key=key)
