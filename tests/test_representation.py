"""CKA against its Gram-matrix definition, Grad-CAM against a hand-worked network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from torch import nn

from dissensus import random
from dissensus.errors import InputError
from dissensus.models import Classifier, LinearHead, Mlp, Normalise, ResNet20, Smallcnn
from dissensus.probes.representation import grad_cam, linear_cka, stability


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def related(n: int, wide: int, narrow: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = draw(n, wide) + 3
    return x, x[:, :narrow] + draw(n, narrow, seed=1)


# CKA


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


# Grad-CAM


def pooled(channels: int = 3) -> Classifier:
    """conv, ReLU, global average, linear: here the gradient of a logit by a cell is its weight over the cells."""
    body = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with random.seeded(0, "init"):
        body[0].reset_parameters()
        return Classifier(Normalise((1, 5, 5), torch.zeros(1), torch.ones(1)), body, LinearHead(channels, 4))


def test_before_global_pooling_grad_cam_is_the_class_activation_map():
    model, x = pooled(), draw(6, 1, 5, 5)
    with torch.no_grad():
        activation = model.body[:2](x)
        weight = model.head.weight[model(x).argmax(1)]  # [N, C]
        expected = torch.einsum("nc,nchw->nhw", weight, activation).relu() / 25
    found = grad_cam(model, x, batch=4)
    assert float(found.max()) > 0
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad_cam(model, x, layer="body.1"), expected)


@pytest.mark.parametrize(("member", "size"), [(ResNet20(), 2), (Smallcnn(), 4)])
def test_the_map_has_the_size_of_the_last_stage_with_cells(member, size):
    with random.seeded(0, "init"):
        model = member.build((3, 8, 8), 10, torch.zeros(3), torch.ones(3))
    x = torch.randint(0, 256, (5, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    maps = grad_cam(model, x)
    assert maps.shape == (5, size, size)
    assert float(maps.min()) >= 0
    assert not maps.requires_grad
    torch.testing.assert_close(grad_cam(model, x[3:], batch=1), maps[3:], rtol=1e-4, atol=1e-6)


def test_grad_cam_leaves_the_model_as_it_was():
    model = pooled().train()
    grad_cam(model, draw(2, 1, 5, 5))
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())


def test_a_model_without_maps_is_refused():
    model = Mlp(hidden=(4,)).build((1, 5, 5), 3, torch.zeros(1), torch.ones(1))
    with pytest.raises(InputError, match="no activation of this model is a map"):
        grad_cam(model, draw(2, 1, 5, 5))


def test_stability_is_pearson_over_the_cells_of_each_map():
    a, b = draw(8, 3, 4).relu(), draw(8, 3, 4, seed=1).relu()
    found = stability(a, b)
    expected = [
        pearsonr(one.flatten().double(), other.flatten().double()).statistic for one, other in zip(a, b, strict=True)
    ]
    np.testing.assert_allclose(found.correlation.numpy(), expected, rtol=1e-9)
    assert found.left_out == 0
    torch.testing.assert_close(stability(a, 3 * a + 1).correlation, torch.ones(8, dtype=torch.float64))


def test_maps_that_are_all_zero_in_either_model_are_left_out_and_counted():
    a, b = draw(8, 3, 4).relu(), draw(8, 3, 4, seed=1).relu()
    whole = stability(a, b)
    a[2], b[5], a[6], b[6] = 0, 0, 0, 0
    found = stability(a, b)
    assert found.kept.tolist() == [True, True, False, True, True, False, False, True]
    assert found.left_out == 3
    torch.testing.assert_close(found.correlation, whole.correlation[found.kept])


def test_maps_of_different_sizes_cannot_be_compared():
    with pytest.raises(InputError, match="not maps"):
        stability(torch.ones(2, 3, 3), torch.ones(2, 3, 4))
