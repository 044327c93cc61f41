"""CKA against its Gram-matrix definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dissensus.errors import InputError
from dissensus.probes.cka import linear_cka


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def related(n: int, wide: int, narrow: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = draw(n, wide) + 3
    return x, x[:, :narrow] + draw(n, narrow, seed=1)


def naive_cka(x: torch.Tensor, y: torch.Tensor, unbiased: bool) -> float:
    """From Gram matrices, as printed: Kornblith et al. (2019), equation 3; Song et al. (2012), equation 5."""
    k, l = x.double() @ x.double().T, y.double() @ y.double().T  # noqa: E741
    n = len(x)
    if not unbiased:
        centre = torch.eye(n, dtype=torch.float64) - 1 / n

        def hsic(a, b):
            return torch.trace(a @ centre @ b @ centre) / (n - 1) ** 2
    else:

        def hsic(a, b):
            a, b = a - a.diag().diag(), b - b.diag().diag()
            ones = torch.ones(n, dtype=torch.float64)
            total = torch.trace(a @ b) + (ones @ a @ ones) * (ones @ b @ ones) / ((n - 1) * (n - 2))
            return (total - 2 / (n - 2) * (ones @ a @ b @ ones)) / (n * (n - 3))

    return float(hsic(k, l) / (hsic(k, k) * hsic(l, l)).sqrt())


both = pytest.mark.parametrize("unbiased", [False, True])


@both
@pytest.mark.parametrize("size", [(30, 5, 3), (12, 20, 8), (200, 4, 4)])
def test_cka_is_its_gram_matrix_twin(size, unbiased):
    x, y = related(*size)
    assert linear_cka(x, y, unbiased=unbiased) == pytest.approx(naive_cka(x, y, unbiased), rel=1e-9)


@both
def test_cka_sees_neither_rotation_nor_scale_nor_shift_nor_order_of_items(unbiased):
    x, y = related(40, 6, 5)
    rotated = 7 * x.double() @ torch.linalg.qr(draw(6, 6, seed=2).double()).Q - 11
    rows = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    expected = linear_cka(x, y, unbiased=unbiased)
    assert linear_cka(rotated, y, unbiased=unbiased) == pytest.approx(expected, rel=1e-9)
    assert linear_cka(y, x, unbiased=unbiased) == pytest.approx(expected, rel=1e-9)
    assert linear_cka(x[rows], y[rows], unbiased=unbiased) == pytest.approx(expected, rel=1e-9)
    assert linear_cka(x, rotated, unbiased=unbiased) == pytest.approx(1.0, rel=1e-9)
    assert linear_cka(x, y[rows], unbiased=unbiased) < expected


def test_unrelated_features_are_alike_to_the_biased_estimator_and_not_to_the_unbiased_one():
    pairs = [(draw(50, 100, seed=2 * s), draw(50, 100, seed=2 * s + 1)) for s in range(30)]
    assert np.mean([linear_cka(*pair) for pair in pairs]) > 0.6
    assert abs(np.mean([linear_cka(*pair, unbiased=True) for pair in pairs])) < 0.01


@both
def test_cka_refuses_other_items_too_few_items_and_constant_features(unbiased):
    with pytest.raises(InputError, match="not features of the same items"):
        linear_cka(draw(5, 2), draw(6, 2), unbiased=unbiased)
    with pytest.raises(InputError, match="3 items are too few"):
        linear_cka(draw(3, 2), draw(3, 2), unbiased=unbiased)
    with pytest.raises(InputError, match="do not vary"):
        linear_cka(draw(5, 2), torch.ones(5, 2), unbiased=unbiased)
