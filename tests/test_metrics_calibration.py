import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.metrics import brier_decomposition, confidence_right, confidence_wrong, ece, smooth_ece, smooth_reliability
from dissensus.metrics.smooth import cosines, mean_absolute

events = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)


def unzip(pairs):
    confidence, correct = zip(*pairs, strict=True)
    return torch.tensor(confidence, dtype=torch.float64), torch.tensor(correct)


def kernel(t, x, sigma):
    """The reflected Gaussian as its definition says: a sum over all mirror images of x. [t, x]."""
    reach = int(6 * sigma) + 2
    images = np.concatenate([sign * x + 2 * k for k in range(-reach, reach + 1) for sign in (1, -1)])
    values = np.exp(-(((t[:, None] - images) / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
    return values.reshape(len(t), -1, len(x)).sum(1)


def brute_force(confidence, residual, sigma):
    points = 2001 + int(200 / sigma)
    t = np.linspace(0, 1, points)
    r = np.abs(kernel(t, confidence, sigma) @ residual / len(residual))
    return (r.sum() - (r[0] + r[-1]) / 2) / (points - 1)


def test_width_bins_are_closed_on_the_right_and_0_falls_in_the_first():
    right = torch.tensor([True, True, False])
    # 0 and 0.1 share the first of ten bins, 0.3 stands in the third: |0 + 0.1 − 2| and |0.3 − 0|.
    assert ece(torch.tensor([0, 0.1, 0.3], dtype=torch.float64), right, binning="width", bins=10) == pytest.approx(
        2.2 / 3
    )
    # The border is 0.3 itself: 0.1 + 0.2, the next number above it, shares the fourth bin with 0.35.
    pair = torch.tensor([0.1 + 0.2, 0.35], dtype=torch.float64)
    assert ece(pair, torch.tensor([True, False]), binning="width", bins=10) == pytest.approx(abs(0.65 - 1) / 2)


def test_mass_bins_are_those_of_array_split():
    confidence = torch.tensor([0.9, 0.1, 0.5, 0.6, 0.2], dtype=torch.float64)
    correct = torch.tensor([True, False, True, False, True])
    # Sorted: .1 .2 .5 | .6 .9, right: F T T | F T
    assert ece(confidence, correct, binning="mass", bins=2) == pytest.approx((abs(0.8 - 2) + abs(1.5 - 1)) / 5)


@pytest.mark.parametrize("binning", ["width", "mass"])
@given(events)
def test_ece_lies_between_the_mean_gap_and_the_mean_absolute_gap(binning, pairs):
    confidence, correct = unzip(pairs)
    gap = confidence - correct.double()
    for bins in (1, 10, 15):
        assert abs(float(gap.mean())) - 1e-12 <= ece(confidence, correct, binning=binning, bins=bins)
        assert ece(confidence, correct, binning=binning, bins=bins) <= float(gap.abs().mean()) + 1e-12
    assert ece(confidence, correct, binning=binning, bins=1) == pytest.approx(abs(float(gap.mean())))


@given(events)
def test_the_five_parts_sum_to_the_brier_score(pairs):
    parts = brier_decomposition(*unzip(pairs))
    total = (
        parts.reliability - parts.resolution + parts.uncertainty + parts.within_bin_variance - parts.within_bin_covariance
    )
    assert total == pytest.approx(parts.score, abs=1e-12)
    confidence, correct = unzip(pairs)
    assert parts.score == pytest.approx(float((confidence - correct.double()).square().mean()))


def test_brier_parts_of_a_case_worked_by_hand():
    confidence, correct = torch.tensor([0.6, 0.8, 0.9, 0.9], dtype=torch.float64), torch.tensor([False, True, True, True])
    parts = brier_decomposition(confidence, correct, bins=2)  # bins .6 .8 (right half the time) and .9 .9 (always)
    assert parts.reliability == pytest.approx((2 * 0.2**2 + 2 * 0.1**2) / 4)
    assert parts.resolution == pytest.approx((2 * 0.25**2 + 2 * 0.25**2) / 4)
    assert parts.uncertainty == pytest.approx(0.75 * 0.25)
    assert parts.within_bin_variance == pytest.approx(2 * 0.1**2 / 4)
    assert parts.within_bin_covariance == pytest.approx(2 * (0.1 * 0.5 * 2) / 4)


def test_confidence_right_and_wrong_are_means_over_those_items():
    confidence, correct = torch.tensor([0.6, 0.8, 0.9]), torch.tensor([False, True, True])
    assert confidence_right(confidence, correct) == pytest.approx(0.85)
    assert confidence_wrong(confidence, correct) == pytest.approx(0.6)


@pytest.mark.parametrize("sigma", [0.01, 0.03, 0.1, 0.4, 1.0, 3.0])
def test_the_smoothed_residual_is_what_the_mirror_images_give(sigma):
    rng = np.random.default_rng(3)
    confidence = np.concatenate([[0, 1, 1 - 1e-9], rng.random(20), 1 - rng.random(20) / 50])
    residual = rng.normal(size=len(confidence))
    ours = mean_absolute(cosines(confidence, residual / len(residual), sigma), sigma)
    assert ours == pytest.approx(brute_force(confidence, residual, sigma), rel=1e-5)


@settings(deadline=None, max_examples=30)
@given(events)
def test_smooth_ece_is_a_fixed_point_of_the_brute_force(pairs):
    confidence, correct = unzip(pairs)
    value = smooth_ece(confidence, correct)
    residual = correct.double().numpy() - confidence.numpy()
    if value > 0.02:  # the brute-force grid resolves no narrower kernel
        assert brute_force(confidence.numpy(), residual, value) == pytest.approx(value, rel=1e-4)
    assert abs(residual.mean()) - 1e-9 <= value <= np.abs(residual).mean() + 1e-9


def test_a_very_wide_kernel_leaves_the_mean_gap():
    rng = np.random.default_rng(0)
    confidence, residual = rng.random(50), rng.normal(size=50)
    assert mean_absolute(cosines(confidence, residual / 50, 1e6), 1e6) == pytest.approx(abs(residual.mean()), rel=1e-12)


def test_smooth_ece_of_an_over_confident_model_is_its_mean_gap():
    confidence = torch.linspace(0.9, 1, 1000, dtype=torch.float64)
    correct = torch.arange(1000) % 2 == 0
    assert smooth_ece(confidence, correct) == pytest.approx(0.45, abs=1e-3)


def test_smooth_ece_of_one_confidence_is_its_gap():
    confidence, correct = torch.full((10,), 0.8, dtype=torch.float64), torch.arange(10) < 5
    assert smooth_ece(confidence, correct) == pytest.approx(0.3, abs=1e-9)


def test_smooth_ece_of_an_almost_certain_model_that_is_always_right_is_its_mean_doubt():
    confidence = 1 - torch.linspace(0, 1e-5, 100, dtype=torch.float64)
    right = torch.ones(100, dtype=torch.bool)
    assert smooth_ece(confidence, right) == pytest.approx(5e-6, rel=1e-6)  # all gaps have one sign: nothing cancels
    wider = 1 - 8 * (1 - confidence)
    assert smooth_ece(wider, right) == pytest.approx(4e-5, rel=1e-6)


def test_smooth_ece_of_a_calibrated_model_vanishes_with_more_items():
    rng = np.random.default_rng(0)
    values = []
    for n in (100, 1_000, 10_000, 100_000):
        confidence = 0.5 + rng.random(n) / 2
        values.append(smooth_ece(torch.from_numpy(confidence), torch.from_numpy(rng.random(n) < confidence)))
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.01


def test_the_reliability_curve_is_the_kernel_estimate_of_its_definition():
    rng = np.random.default_rng(5)
    confidence = 0.9 + 0.1 * rng.random(200)
    correct = rng.random(200) < confidence
    curve = smooth_reliability(torch.from_numpy(confidence), torch.from_numpy(correct), points=51)
    weights = kernel(curve.grid, confidence, curve.sigma)
    seen = ~np.isnan(curve.accuracy)
    assert curve.sigma == max(smooth_ece(torch.from_numpy(confidence), torch.from_numpy(correct)), 1 / 50)
    assert curve.density == pytest.approx(weights.mean(1), abs=1e-9)
    assert curve.accuracy[seen] == pytest.approx((weights @ correct / np.maximum(weights.sum(1), 1e-300))[seen], abs=1e-6)
    assert seen[-1]
    assert not seen[0]


def test_the_reliability_curve_is_supported_where_three_items_lie_under_the_kernel():
    confidence, correct = torch.tensor([0.1] + [0.9] * 9, dtype=torch.float64), torch.tensor([False] + [True] * 9)
    curve = smooth_reliability(confidence, correct)
    height = 1 / (curve.sigma * np.sqrt(2 * np.pi))  # of the kernel; under it lie √2 items of every one at its middle
    items = curve.density * curve.items / height * np.sqrt(2)
    assert curve.items == 10
    assert (curve.is_supported == (items >= 3)).all()
    assert curve.is_supported[np.abs(curve.grid - 0.9).argmin()]
    assert not curve.is_supported[np.abs(curve.grid - 0.1).argmin()]


def test_outcomes_that_are_not_true_or_false_and_confidences_outside_0_to_1_raise():
    with pytest.raises(InputError, match="not true or false"):
        smooth_ece(torch.tensor([0.5]), torch.tensor([0.5]))
    with pytest.raises(InputError, match="outside 0…1"):
        smooth_ece(torch.tensor([1.5]), torch.tensor([True]))
    with pytest.raises(InputError, match="not one of each per item"):
        ece(torch.tensor([0.5, 0.5]), torch.tensor([True]), binning="mass", bins=15)
