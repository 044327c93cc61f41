"""The formula behind `dissensus plan`, and the worth of a next vote."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dissensus.errors import InputError
from dissensus.experiments.vote_budget import (
    CurveFit,
    Spending,
    compared,
    fit_curve,
    gains,
    last_step,
    next_vote_values,
)
from dissensus.random import numpy_generator

POINTS = [(items, votes) for items in (100, 200, 400, 800) for votes in (1, 2, 5, 10)]


def curves(truth, repeats=6, noise=1e-4):
    draw = numpy_generator(0, "probe", "curves")
    return {
        str(repeat): {point: truth.at(*point) + noise * draw.standard_normal() for point in POINTS}
        for repeat in range(repeats)
    }


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("c", "a", "b", "alpha"), [(0.4, 2.0, 3.0, 0.5), (-0.2, 5.0, 0.0, 1.0), (1.0, 0.0, 9.0, 0.75)])
def test_the_formula_is_found_again_in_its_own_points(sign, c, a, b, alpha):
    truth = CurveFit(c, a, b, alpha, sign, 0.0)
    fit = fit_curve({point: truth.at(*point) for point in POINTS}, sign)
    assert fit.residual < 1e-6
    assert_allclose([fit.at(1600, 10), fit.at(800, 20)], [truth.at(1600, 10), truth.at(800, 20)], atol=1e-4)


@pytest.mark.parametrize(
    ("truth", "better"),
    [
        (CurveFit(0.4, 5.0, 0.0, 0.5, 1, 0.0), "items"),  # the votes are not noisy
        (CurveFit(0.4, 0.01, 5.0, 0.2, 1, 0.0), "votes"),  # they are nearly all of the loss, and items average slowly
        (CurveFit(-0.9, 5.0, 0.0, 0.5, -1, 0.0), "items"),  # the same of a score of which more is better
    ],
)
def test_the_budget_goes_where_the_curves_fall_faster(truth, better):
    tests = compared(gains(curves(truth), Spending(800, 10, 2000), truth.sign), test_to_train=0.25)
    assert (tests["difference"].low > 0) if better == "items" else (tests["difference"].high < 0)
    assert tests["more_items"].mean_difference >= 0


def test_the_last_step_is_foretold_where_the_formula_is_true():
    expected, measured = last_step(curves(CurveFit(0.4, 5.0, 3.0, 0.5, 1, 0.0)))
    assert expected == pytest.approx(measured, abs=5e-3)


@pytest.mark.parametrize("budget", [0, 8001])
def test_nothing_is_said_beyond_twice_what_there_is(budget):
    Spending(800, 10, 8000)
    with pytest.raises(InputError, match=r"beyond|Ask"):
        Spending(800, 10, budget)


def test_a_curve_with_one_number_of_votes_is_refused():
    with pytest.raises(InputError, match="too few"):
        fit_curve({(items, 3): 1.0 / items for items in (10, 20, 40, 80, 160)})


def test_the_worth_of_a_vote_is_the_variance_that_it_is_expected_to_take_away():
    draw = numpy_generator(1, "probe", "votes")
    counts = draw.multinomial(4, [0.5, 0.3, 0.2], 30) + draw.integers(0, 4, (30, 3))
    values, strength = next_vote_values(counts)
    shares = counts / counts.sum(1, keepdims=True)
    prior = strength * (shares.mean(0) + 1e-6) / (shares.mean(0) + 1e-6).sum()

    def variance(alpha):
        total = alpha.sum()
        return float((alpha * (total - alpha)).sum() / (total**2 * (total + 1)))

    for row, value in zip(counts, values, strict=True):
        alpha = row + prior
        after = sum(alpha[k] / alpha.sum() * variance(alpha + np.eye(3)[k]) for k in range(3))
        assert value == pytest.approx(variance(alpha) - after, rel=1e-9)


def test_the_strength_of_the_prior_is_that_of_the_crowd():
    draw = numpy_generator(2, "probe", "votes")
    shares = draw.dirichlet(6.0 * np.array([0.5, 0.3, 0.2]), 3000)
    counts = np.array([draw.multinomial(10, share) for share in shares])
    assert next_vote_values(counts)[1] == pytest.approx(6.0, rel=0.15)
