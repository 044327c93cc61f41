"""The numbers that the papers print: read without loss, and consistent with each other where the papers are.

Checks between numbers find slips of the eye and of the extraction. Where a paper contradicts itself, the test says so.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from importlib.resources import files

import pytest
from scipy.special import stdtrit

from dissensus.errors import InputError
from dissensus.experiments.description import PaperNumber
from dissensus.metrics import METRICS
from dissensus.probes.detectors import DETECTORS
from dissensus.recipes import printed as numbers
from dissensus.report.wording import paper_value
from dissensus.stats import holm

HARD_DELIVERY = ("SLS", "Multipass", "Deterministic")
KS = ("K = 5", "K = 10", "K = 25", "K = 50")
DATA_SETS = ("ChaosNLI", "POPQUORN", "CIFAR-10H-Hard")


def everything() -> Iterator[tuple[str, str, PaperNumber]]:
    for paper in numbers.papers():
        for exhibit in numbers.exhibits(paper):
            for one in numbers.printed_numbers(paper, exhibit):
                yield paper, exhibit, one


def cell(paper: str, exhibit: str, row: str, column: str, part: str = "") -> PaperNumber:
    (one,) = (n for n in numbers.printed_numbers(paper, exhibit) if (n.part, n.row, n.column) == (part, row, column))
    return one


def value(paper: str, exhibit: str, row: str, column: str, part: str = "") -> float:
    return cell(paper, exhibit, row, column, part).mean


# The files


def test_every_table_and_figure_of_the_papers_is_there():
    assert numbers.papers() == ("000", "001", "002", "003")
    assert numbers.exhibits("000") == ("table1", "parameters", "figure1", "text")
    of_001 = ("table1", "table2", "figure1", "figure2", "figure3", "figure4", "ensemble", "concentration", "text")
    assert sorted(numbers.exhibits("001")) == sorted(of_001)
    tables_and_figures = {"002": (4, 5), "003": (9, 12)}
    for paper, (tables, figures) in tables_and_figures.items():
        named = [f"table{n}" for n in range(1, tables + 1)] + [f"figure{n}" for n in range(1, figures + 1)] + ["text"]
        assert sorted(numbers.exhibits(paper)) == sorted(named)


def test_every_table_is_full():
    """Cells printed: methods × metrics, with the p-values that the table or the text about it adds."""
    expected = {
        ("000", "table1"): 5 * 6 * 4,
        ("000", "parameters"): 4,
        ("001", "table1"): 8 * 6 * 4 - 2 * 4 - 3 * 2 - (3 + 2),  # less what is illegible
        ("001", "table2"): 8 * 2 * 2,
        ("003", "table1"): 4 * 4 + 3 * 4 + 4,
        ("003", "table2"): 5 * 4 + 4,
        ("003", "table3"): 5 * 4 + 3,
        ("003", "table4"): 6 * 4,
        ("003", "table5"): 5 * 2,
        ("003", "table6"): 4 * 4,
        ("003", "table7"): 4 * 6 + 2,
        ("003", "table8"): 6 * 3,
        ("003", "table9"): 4 * 3,
        ("002", "table1"): 3 * 4,
        ("002", "table2"): 6 * 5,
        ("002", "table3"): 3 * 6 + 1,
        ("002", "table4"): 3 * 5 + 2,
    }
    assert {key: len(numbers.printed_numbers(*key)) for key in expected} == expected


def test_every_column_is_a_metric_or_detector_of_ours_or_explained_in_the_head_of_its_file():
    for paper in numbers.papers():
        head = (files("dissensus.recipes") / f"paper{paper}/printed.toml").read_text(encoding="utf-8").split("\n\n", 1)[0]
        known = {*METRICS, *DETECTORS, *re.findall(r"\w+", head)}
        for exhibit in set(numbers.exhibits(paper)) - {"text"}:
            for column in {one.column for one in numbers.printed_numbers(paper, exhibit)}:
                about = re.sub("^(p_wilcoxon|p_t|relative_improvement)_|_(full|high|min|max)$", "", column)
                assert known & {column, about, about.removeprefix("auroc_")}, column


def test_every_source_names_its_paper_and_no_number_is_there_twice():
    seen = set()
    for paper, exhibit, one in everything():
        assert one.source.startswith(f"{numbers.CITATIONS[paper]}, ")
        key = (paper, exhibit, one.part, one.row, one.column)
        assert key not in seen
        seen.add(key)


def test_a_note_is_shown_behind_the_source_and_a_number_may_have_seeds_and_a_source_of_its_own():
    text = """
    [table1]
    source = "004, Table 1"
    seeds = 5
    numbers = [
      { row = "Soft", column = "kl", mean = 1, sd = 0.25 },
      { part = "few", row = "Soft", column = "kl", value = 2.5, seeds = 3, source = "004, §1", note = "about" },
    ]
    """
    assert numbers.parse(text, "004.toml") == {
        "table1": (
            PaperNumber("", "Soft", "kl", 1.0, 0.25, 5, "004, Table 1"),
            PaperNumber("few", "Soft", "kl", 2.5, None, 3, "004, §1 (about)"),
        )
    }


@pytest.mark.parametrize(
    ("number", "what"),
    [
        ('{ row = "a", column = "b", mean = 1, median = 2 }', "there is no key 'median'"),
        ('{ row = "a", column = "b", mean = 1, sd = -0.1 }', "sd is -0.1"),
        ('{ row = "a", column = "b", value = 1, sd = 0.1 }', "sd is 0.1"),
        ('{ row = "a", column = "b", mean = 1, value = 1 }', "either a mean or a value"),
        ('{ row = "a", column = "b" }', "either a mean or a value"),
        ('{ row = "a", mean = 1 }', "there is no column"),
        ('{ row = "a", column = "b", mean = nan }', "mean is nan"),
        ('{ row = "a", column = "b", mean = true }', "mean is True"),
        ('{ row = "a", column = "b", mean = "0.5" }', "mean is '0.5'"),
        ('{ row = 3, column = "b", mean = 1 }', "row is 3"),
        ('{ row = "a", column = "b", mean = 1, seeds = 0 }', "seeds is 0"),
        ("0.5", "0.5 is not a table"),
        ('{ row = "first", column = "b", mean = 2 }', "('', 'first', 'b') is listed twice"),
    ],
)
def test_a_wrong_number_is_refused_and_the_error_says_which(number, what):
    text = f'[table1]\nsource = "x"\nnumbers = [{{ row = "first", column = "b", mean = 1 }}, {number}]'
    with pytest.raises(InputError) as error:
        numbers.parse(text, "004.toml")
    assert str(error.value).startswith("004.toml, table1, number 2: ")
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("table1 = 3", "004.toml, table1: 3 is not a table"),
        ('[table1]\nsource = "x"', "004.toml, table1: there is no numbers"),
        ('[table1]\nsource = "x"\nnumbers = []\nsd = 1', "004.toml, table1: there is no key 'sd'"),
        ("[table1", "004.toml: this is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(text, what):
    with pytest.raises(InputError) as error:
        numbers.parse(text, "004.toml")
    assert what in str(error.value)


def test_a_paper_or_an_exhibit_that_is_not_there_is_an_error_that_names_those_that_are():
    with pytest.raises(InputError, match="there is no exhibit 'table10'") as error:
        numbers.printed_numbers("003", "table10")
    assert "table9" in str(error.value)
    with pytest.raises(InputError, match="there is no paper '999'"):
        numbers.exhibits("999")


# Any number


RANGES = {  # by how a column's name begins; the first that fits
    "p_": (0, 1),
    "accuracy": (0, 1),
    "ece": (0, 1),
    "smooth_ece": (0, 1),
    "auroc_gain": (0, 1),
    "auroc_": (0.5, 1),
    "auroc": (0.4, 1),  # 000 prints some below chance
    "cka": (0, 1),
    "normalised_entropy": (0, 1),
    "entropy_spearman": (-1, 1),
    "entropy_pearson": (-1, 1),
    "spearman_trained": (-1, 1),
    "improvement_spearman": (-1, 1),
    "stability": (-1, 1),
    "relative_improvement": (0, 2),
    "soft_nll": (0, math.log(10)),
    "kl": (0, math.log(10)),
    "soft_brier": (0, 2),
    "": (0, math.inf),
}


def test_every_number_lies_in_the_range_of_its_metric():
    for _, _, one in everything():
        low, high = next(bounds for prefix, bounds in RANGES.items() if one.column.startswith(prefix))
        assert low <= one.mean <= high, one


def test_seeds_spread_less_than_their_mean_except_where_nothing_was_learned():
    wider = {one.row for _, _, one in everything() if one.sd is not None and one.sd >= abs(one.mean)}
    assert wider == {"Shuffled SLS"}


# 003


def test_the_paired_p_values_of_003_are_ones_that_an_exact_wilcoxon_test_of_so_many_seeds_can_give():
    """With n pairs and no ties, p is a multiple of 2⁻ⁿ; two-sided, an even one."""
    two_sided = {"table1": False, "table2": True, "table3": True, "table8": False}
    for exhibit, even in two_sided.items():
        tested = [one for one in numbers.printed_numbers("003", exhibit) if one.column.startswith("p_wilcoxon")]
        assert tested
        multiples = []
        for one in tested:
            decimals = 3 if exhibit == "table1" else 4
            multiple = round(one.mean * 2**one.seeds)
            assert multiple / 2**one.seeds == pytest.approx(one.mean, abs=0.5001 * 10**-decimals), one
            multiples.append(multiple)
        assert all(multiple % 2 == 0 for multiple in multiples) is even  # so table 8 is one-sided, though it does not say


def test_nine_of_the_twelve_sparse_cells_have_the_least_p_and_none_survives_holm():
    p = [value("003", "table1", row, "p_wilcoxon", k) for k in KS for row in HARD_DELIVERY]
    least = value("003", "table1", "Hard delivery", "p_wilcoxon_min")
    assert least == 2**-5
    at_least = [one for one in p if one == pytest.approx(least, abs=0.0005)]
    assert len(at_least) == value("003", "table1", "Hard delivery", "cells_all_seeds_agree")
    adjusted = holm(p)
    assert all(after >= before for after, before in zip(adjusted, p, strict=True))
    survive = sum(one < 0.05 for one in adjusted)
    assert survive == value("003", "table1", "Hard delivery", "cells_significant_after_holm")


def gaps() -> dict[str, list[float]]:
    """By K: how far each hard delivery is below Soft."""
    soft_nll = {k: value("003", "table1", "Soft", "soft_nll", k) for k in KS}
    return {k: [soft_nll[k] - value("003", "table1", row, "soft_nll", k) for row in HARD_DELIVERY] for k in KS}


def test_hard_delivery_is_below_soft_in_all_twelve_sparse_cells():
    better = sum(gap > 0 for row in gaps().values() for gap in row)
    for exhibit in ("table1", "figure1"):
        assert better == value("003", exhibit, "Hard delivery", "cells_better")


def test_known_discrepancy_003_calls_the_effect_strongest_at_k_5_and_10_but_it_is_wider_at_50_than_at_5():
    by_k = gaps()
    assert all(wide > narrow for wide, narrow in zip(by_k["K = 50"], by_k["K = 5"], strict=True))
    soft = [value("003", "table1", "Soft", "soft_nll", k) for k in KS]
    assert soft[3] > soft[2]  # because Soft with 50 votes is worse than with 25


def test_soft_nll_minus_kl_is_the_entropy_of_the_votes_whatever_the_method():
    rows = ("SLS", "Soft", "Majority", "Label smoothing", "Mixup")
    floors = [value("003", "table2", row, "soft_nll") - value("003", "table5", row, "kl") for row in rows]
    assert max(floors) - min(floors) <= 2e-4  # two roundings of 0.00005 on either side


def test_rows_that_003_copies_from_one_table_to_another_are_equal():
    for column in ("soft_nll", "accuracy", "ece_mass_15", "entropy_spearman"):
        copied, original = cell("003", "table3", "Soft", column), cell("003", "table2", "Soft", column)
        assert (copied.mean, copied.sd, copied.seeds) == (original.mean, original.sd, original.seeds)
    for detector in ("energy", "msp", "knn"):
        copied, original = (cell("003", table, "Soft", f"auroc_{detector}") for table in ("table9", "table8"))
        assert (copied.mean, copied.seeds) == (original.mean, original.seeds)


def test_known_discrepancy_003_has_two_values_for_sls_over_five_seeds():
    probe, family = cell("003", "figure4", "SLS", "soft_nll"), cell("003", "table3", "SLS", "soft_nll")
    assert probe.seeds == family.seeds == 5
    assert (probe.mean, family.mean) == (0.5027, 0.5035)  # not the same runs, or not the same seeds: it does not say


def test_labels_held_longer_are_worse_in_every_step():
    losses = [value("003", "figure4", row, "soft_nll") for row in ("SLS", "Held 5", "Held 10", "Held 50")]
    assert losses == sorted(losses)


def test_hard_delivery_is_flatter_than_soft_in_every_cell_of_the_hessian_tables():
    main, family = "Main comparison", "Hard-delivery family"
    for column in ("lambda_max_full", "trace_full", "lambda_max_high", "trace_high"):
        soft = value("003", "table4", "Soft", column, main)
        hard = [value("003", "table4", "SLS", column, main)]
        hard += [value("003", "table4", row, column, family) for row in (*HARD_DELIVERY, "Shuffled SLS")]
        assert max(hard) < soft / 2
    for k, column in itertools.product(KS, ("lambda_max_full", "lambda_max_high")):
        assert value("003", "table6", "SLS", column, k) < value("003", "table6", "Soft", column, k)


def test_a_trace_is_above_the_largest_eigenvalue():
    """True of these printed means; a Hessian with large negative eigenvalues could break it."""
    for one in numbers.printed_numbers("003", "table4"):
        if one.column.startswith("trace"):
            assert one.mean > value("003", "table4", one.row, one.column.replace("trace", "lambda_max"), one.part)


def test_hard_delivery_wins_five_detectors_of_six_on_svhn_and_the_control_is_highest_there():
    best, ahead = 0, 0
    for detector in DETECTORS:
        scores = {row: value("003", "table7", row, f"auroc_{detector}") for row in ("Soft", *HARD_DELIVERY)}
        ahead += all(scores[row] > scores["Soft"] for row in HARD_DELIVERY)
        best += max(scores, key=scores.__getitem__) == "Deterministic"
    assert ahead == value("003", "table7", "Hard delivery", "detectors_better")
    assert best == value("003", "table7", "Deterministic", "detectors_highest")


def test_sls_is_above_soft_with_every_detector_on_cifar_100():
    for detector in DETECTORS:
        assert value("003", "table8", "SLS", f"auroc_{detector}") > value("003", "table8", "Soft", f"auroc_{detector}")


def test_the_mean_correlation_of_gradient_variance_lies_in_its_range():
    low, mean, high = (value("003", "figure7", "SLS", f"spearman_trained{end}") for end in ("_min", "", "_max"))
    assert low < mean < high


# 002


def rounded_ratio(part: str, column: str) -> tuple[float, float]:
    """The least and the largest Soft / Hard that rounds to the printed pair of three decimals."""
    soft, hard = (value("002", "table4", row, column, part) for row in ("Soft", "Hard"))
    return (soft - 0.0005) / (hard + 0.0005), (soft + 0.0005) / (hard - 0.0005)


@pytest.mark.parametrize("part", DATA_SETS)
def test_the_printed_improvement_of_the_entropy_correlation_is_that_of_its_row(part):
    low, high = rounded_ratio(part, "entropy_pearson")
    stated = value("002", "table4", "Soft", "relative_improvement_entropy_pearson", part)
    assert low - 1 - 0.005 <= stated <= high - 1 + 0.005


def test_the_average_improvement_of_the_entropy_correlation_is_the_mean_of_its_rows():
    column = "relative_improvement_entropy_pearson"
    rows = [value("002", "table4", "Soft", column, part) for part in DATA_SETS]
    assert value("002", "table4", "Soft", column, "Average") == pytest.approx(sum(rows) / 3, abs=0.005)


def test_known_discrepancy_the_average_kl_improvement_of_002_is_that_of_cifar_alone():
    stated = value("002", "table4", "Soft", "relative_improvement_kl", "Average")
    bounds = {part: rounded_ratio(part, "kl") for part in DATA_SETS}
    largest_mean = sum(1 - low for low, _ in bounds.values()) / 3
    assert largest_mean < 0.21  # no rounding makes it 32%
    low, high = bounds["CIFAR-10H-Hard"]
    assert 1 - high - 0.005 <= stated <= 1 - low + 0.005


def test_tables_3_and_4_of_002_print_the_same_kl():
    for part, row in itertools.product(DATA_SETS, ("Soft", "Hard")):
        assert value("002", "table3", row, "kl", part) == value("002", "table4", row, "kl", part)


@pytest.mark.parametrize("metric", ["accuracy", "kl"])
@pytest.mark.parametrize("part", DATA_SETS)
def test_the_paired_t_tests_of_002_fit_its_means_and_sds(part, metric):
    """p gives t; t and the means give the sd of the differences, which lies between difference and sum of the sds."""
    soft, hard = (cell("002", "table3", row, metric, part) for row in ("Soft", "Hard"))
    p = value("002", "table3", "Soft", f"p_t_{metric}", part)
    t = float(stdtrit(soft.seeds - 1, 1 - p / 2))
    of_differences = abs(soft.mean - hard.mean) * math.sqrt(soft.seeds) / t
    assert abs(soft.sd - hard.sd) < of_differences < soft.sd + hard.sd


def test_002_finds_soft_closer_to_the_votes_on_all_data_sets_and_more_accurate_on_chaosnli_alone():
    level, bound = value("002", "text", "Tests", "level"), value("002", "table3", "Soft", "p_t_kl_max", "All")
    assert all(value("002", "table3", "Soft", "p_t_kl", part) < bound for part in DATA_SETS)
    differ = [part for part in DATA_SETS if value("002", "table3", "Soft", "p_t_accuracy", part) < level]
    assert differ == ["ChaosNLI"]


def test_the_selected_configurations_of_002_are_on_its_grid():
    grid: dict[str, set[float]] = {}
    for one in numbers.printed_numbers("002", "text"):
        if one.part == "Grid":
            grid.setdefault(one.column, set()).add(one.mean)
    assert math.prod(len(tried) for tried in grid.values()) == 108
    assert all(one.mean in grid[one.column] for one in numbers.printed_numbers("002", "table2"))


@pytest.mark.parametrize(
    ("mean", "sd", "shown"),
    [(0.857, 0.0107, "0.8570 ± 0.0107"), (240.0, 10.0, "240 ± 10"), (-3.0, 0.2, "−3.0 ± 0.2"), (0.5, None, "0.5")],
)
def test_a_mean_is_shown_with_the_decimals_of_its_sd(mean: float, sd: float | None, shown: str) -> None:
    assert paper_value(PaperNumber("", "Soft", "kl", mean, sd, 5, "004, Table 1")) == shown
