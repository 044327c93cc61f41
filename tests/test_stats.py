import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from dissensus.errors import InputError
from dissensus.random import numpy_generator
from dissensus.stats import corrected_t, holm, mean_sd, paired_bootstrap, paired_t, power, sensitivity, wilcoxon

ALTERNATIVES = ["two-sided", "less", "greater"]
RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.normal(0.3, 1, size=9), RNG.normal(size=9)


def enumerated(difference, alternative):
    """Wilcoxon's p by trying every sign."""
    moved = difference[difference != 0]
    ranks = scipy_stats.rankdata(np.abs(moved))
    sums = np.array(
        [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in product([0, 1], repeat=len(moved))]
    )
    reached = ranks[moved > 0].sum()
    below, above = (sums <= reached).mean(), (sums >= reached).mean()
    return {"less": below, "greater": above, "two-sided": min(1, 2 * min(below, above))}[alternative]


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_wilcoxon_with_zeros_and_ties_counts_every_sign(alternative, difference):
    difference = np.array(difference, dtype=float)
    ours = wilcoxon(difference, np.zeros(len(difference)), alternative=alternative)
    assert ours.p == enumerated(difference, alternative)
    assert ours.zeros == (difference == 0).sum()
    assert ours.mean_difference == pytest.approx(difference.mean())


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [1, 2, 5, 10, 40])
def test_wilcoxon_without_zeros_and_ties_is_scipys_exact_one(alternative, n):
    # With ties SciPy's "exact" is the distribution of the ranks 1…n, not of the midranks: no oracle there.
    first = np.random.default_rng(n).normal(0.4, 1, size=n)
    theirs = scipy_stats.wilcoxon(first, alternative=alternative, method="exact")
    ours = wilcoxon(first, np.zeros(n), alternative=alternative)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-9)
    if alternative != "two-sided":  # there SciPy's statistic is the smaller of both rank sums
        assert ours.statistic == theirs.statistic


def test_rounding_does_not_part_equal_differences():
    right = np.array([[1692, 1717, 1690, 1710, 1704], [1687, 1712, 1685, 1705, 1709]])
    shares = right / 2000
    assert len({abs(a - b) for a, b in zip(*shares, strict=True)}) > 1
    assert wilcoxon(*shares).p == wilcoxon(*right).p


def test_the_mean_difference_of_wilcoxon_is_not_rounded():
    first = np.random.default_rng(4).normal(size=7)
    assert wilcoxon(first, np.zeros(7)).mean_difference == first.mean()


def test_wilcoxon_of_equal_methods_finds_nothing():
    same = wilcoxon([1, 2, 3], [1, 2, 3])
    assert (same.p, same.statistic, same.n, same.zeros) == (1, 0, 3, 3)


def test_wilcoxon_of_thousands_of_items_points_to_the_bootstrap():
    with pytest.raises(InputError, match="use paired_bootstrap"):
        wilcoxon(np.arange(10_000), np.zeros(10_000))


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_paired_t_is_scipys(alternative):
    theirs = scipy_stats.ttest_rel(FIRST, SECOND, alternative=alternative)
    ours = paired_t(FIRST, SECOND, alternative=alternative)
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    both_sides = scipy_stats.ttest_rel(FIRST, SECOND).confidence_interval()
    assert (ours.low, ours.high) == pytest.approx((both_sides.low, both_sides.high))


def test_the_corrected_t_of_ten_folds_worked_by_hand():
    difference = np.array([1, 2, 3, 4, 5], dtype=float)
    test = corrected_t(difference, np.zeros(5), test_to_train=1 / 4)
    error = math.sqrt(2.5 * (1 / 5 + 1 / 4))
    assert test.statistic == pytest.approx(3 / error)
    assert test.p == pytest.approx(2 * scipy_stats.t.sf(3 / error, 4))
    assert (test.low, test.high) == pytest.approx(scipy_stats.t.interval(0.95, 4, 3, error))


def test_the_corrected_t_claims_less_than_the_plain_one():
    assert corrected_t(FIRST, SECOND, test_to_train=0.25).p > paired_t(FIRST, SECOND).p


def test_the_corrected_t_keeps_its_level_on_overlapping_splits_where_the_plain_one_does_not():
    """Two equally good methods on 100 items, compared on ten random splits, 500 times over."""
    rng = np.random.default_rng(0)
    claims = np.zeros(2)
    for _ in range(500):
        items = rng.normal(size=100)  # the difference on each item; both methods are equal on average
        found = [items[rng.permutation(100)[:20]].mean() for _ in range(10)]
        claims += [
            paired_t(found, np.zeros(10)).p < 0.05,
            corrected_t(found, np.zeros(10), test_to_train=20 / 80).p < 0.05,
        ]
    plain, corrected = claims / 500
    assert plain > 0.15
    assert corrected < 0.08


@pytest.mark.parametrize("values", [[1.0], [2.0, 2.0, 2.0]])
def test_differences_that_do_not_vary_have_no_t(values):
    test = paired_t(values, np.zeros(len(values)))
    assert (test.statistic, test.p, test.low, test.high) == (None, None, None, None)
    assert test.mean_difference == values[0]


def test_mean_and_sd_are_of_a_sample():
    assert mean_sd([1, 2, 3]).sd == 1
    assert mean_sd([4.0]).sd is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_exactly_what_stepping_down_rejects(p_values):
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.3):
        rejected = set()
        for place, cell in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if min(1.0, (len(p_values) - place) * p_values[cell]) > level:
                break
            rejected.add(cell)
        assert {cell for cell, p in enumerate(adjusted) if p <= level} == rejected


def test_holm_of_one_cell_is_the_cell():
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_the_bootstrap_interval_is_scipys():
    difference = np.random.default_rng(1).gamma(2, size=60)
    ours = paired_bootstrap(difference, np.zeros(60))
    theirs = scipy_stats.bootstrap((difference,), np.mean, method="percentile", rng=np.random.default_rng(0))
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.03)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.03)
    assert ours.mean_difference == pytest.approx(difference.mean())


def test_the_bootstrap_is_paired():
    hard = np.random.default_rng(2).normal(size=200) * 100  # items differ a lot, methods by 1 on every item
    interval = paired_bootstrap(hard + 1, hard)
    assert (interval.low, interval.high) == pytest.approx((1, 1))


def test_the_bootstrap_over_items_averages_the_seeds_of_each_item():
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(4, 300)), rng.normal(size=(4, 300))
    assert paired_bootstrap(first, second) == paired_bootstrap(first.mean(0), second.mean(0))
    assert paired_bootstrap(first, second).n == 300


def test_the_bootstrap_does_not_depend_on_when_it_is_called():
    first, second = np.tile(FIRST, 3), np.tile(SECOND, 3)
    assert paired_bootstrap(first, second) == paired_bootstrap(first, second)
    assert paired_bootstrap(first, second, seed=1) != paired_bootstrap(first, second)


@pytest.mark.parametrize(("values", "method"), [(3, "t"), (5, "t"), (19, "t"), (20, "bootstrap"), (60, "bootstrap")])
def test_an_interval_of_95_percent_covers_the_mean_about_that_often_however_few_the_values(values, method):
    rng = np.random.default_rng(values)
    intervals = [paired_bootstrap(rng.normal(size=values), np.zeros(values), draws=500) for _ in range(1000)]
    assert {interval.method for interval in intervals} == {method}
    assert 0.915 < np.mean([interval.low < 0 < interval.high for interval in intervals]) < 0.97


def test_one_pair_has_a_mean_difference_and_no_interval():
    interval = paired_bootstrap([2.0], [1.5])
    assert (interval.mean_difference, interval.low, interval.high, interval.method) == (0.5, None, None, "t")


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("seeds", [1, 3, 5, 10])
def test_no_result_of_a_design_beats_its_stated_power(seeds, alternative):
    best = min(wilcoxon(sign * np.arange(1, seeds + 1), np.zeros(seeds), alternative=alternative).p for sign in (-1, 1))
    assert power(seeds, alternative=alternative).best_p == best


def test_five_seeds_one_sided_cannot_survive_holm_over_twelve_cells():
    design = power(5, 12, alternative="greater")
    assert (design.best_p, design.best_p_after_holm, design.can_be_significant) == (0.03125, 0.375, False)
    assert "nothing can be significant at 0.05" in design.sentence
    assert design.best_p_after_holm == holm([0.03125] * 12)[0]
    assert design.seeds_needed == 8
    assert power(8, 12, alternative="greater").can_be_significant
    assert not power(7, 12, alternative="greater").can_be_significant
    assert power(10).sentence == "10 seeds, two-sided: p is at best 0.001953: significance at 0.05 is possible."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired_t([1, 2], [1]), "2 values cannot be paired with 1"),
        (lambda: wilcoxon([1, math.nan], [1, 2]), "one finite number per run"),
        (lambda: mean_sd([]), "one finite number per run"),
        (lambda: paired_bootstrap(np.zeros((2, 3)), np.zeros((3, 2))), "one finite number per run"),
        (lambda: power(0), "0 seeds and 1 cells are no design"),
        (lambda: paired_t([1, 2], [2, 4], alternative="both"), "'both' is not two-sided, less or greater"),
    ],
)
def test_a_comparison_of_what_cannot_be_compared_raises(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("splits", [5, 15])
def test_a_difference_of_the_stated_size_is_found_as_often_as_stated(splits):
    reach = sensitivity(splits, test_to_train=0.0, chance=0.8)
    draws = numpy_generator(0, "probe", "sensitivity").standard_normal((1500, splits)) + reach.difference(1.0)
    found = [paired_t(row, np.zeros(splits)).p <= 0.05 for row in draws]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)


def test_more_splits_of_the_same_items_help_only_so_far():
    few, many = (sensitivity(splits, test_to_train=0.25).effect for splits in (10, 10_000))
    assert few > many > 1.96 * 0.25**0.5
    with pytest.raises(InputError, match="no design"):
        sensitivity(1, test_to_train=0.25)
