"""Grad-CAM against a hand-worked network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr
from torch import nn

from dissensus import random
from dissensus.errors import InputError
from dissensus.models import Classifier, Mlp, Normalise, ResNet18, ResNet20, Smallcnn, Speedy
from dissensus.models.heads import LinearHead
from dissensus.probes.grad_cam import grad_cam, stability


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Pooled(Classifier):
    """conv, ReLU, global average, linear: here the gradient of a logit by a cell is its weight over the cells."""

    def __init__(self, channels: int = 3) -> None:
        with random.seeded(0, "init"):
            body = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
            super().__init__(Normalise((1, 5, 5), torch.zeros(1), torch.ones(1)), body, LinearHead(channels, 4))

    @property
    def last_stage(self) -> nn.Module:
        return self.body[1]


def test_before_global_pooling_grad_cam_is_the_class_activation_map():
    model, x = Pooled(), draw(6, 1, 5, 5)
    with torch.no_grad():
        activation = model.body[:2](x)
        weight = model.head.weight[model(x).argmax(1)]  # [N, C]
        expected = torch.einsum("nc,nchw->nhw", weight, activation).relu() / 25
    found = grad_cam(model, x, batch=4)
    assert float(found.max()) > 0
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(grad_cam(model, x, layer="body.1"), expected)


LAST_STAGES = [
    (ResNet18(), 2, lambda body: body[-3]),  # the last residual block
    (ResNet20(), 4, lambda body: body[-3]),
    (Speedy(widths=(8, 8)), 3, lambda body: body[-3]),  # the last activation
    (Smallcnn(), 8, lambda body: body[2]),  # the max-pooling
]


@pytest.mark.parametrize(("member", "size", "stage"), LAST_STAGES)
def test_the_map_is_that_of_the_last_stage_before_pooling(member, size, stage):
    with random.seeded(0, "init"):
        model = member.build((3, 16, 16), 10, torch.zeros(3), torch.ones(3))
    assert model.last_stage is stage(model.body)
    x = torch.randint(0, 256, (5, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    maps = grad_cam(model, x)
    assert maps.shape == (5, size, size)
    assert float(maps.min()) >= 0
    assert not maps.requires_grad
    torch.testing.assert_close(grad_cam(model, x[3:], batch=1), maps[3:], rtol=1e-4, atol=1e-6)


def test_grad_cam_leaves_the_model_as_it_was():
    model = Pooled().train()
    grad_cam(model, draw(2, 1, 5, 5))
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(part._forward_hooks for part in model.modules())


def test_a_model_without_a_convolutional_stage_and_a_layer_without_maps_are_refused():
    model = Mlp(hidden=(4,)).build((1, 5, 5), 3, torch.zeros(1), torch.ones(1))
    with pytest.raises(InputError, match="grad_cam: it needs a convolutional stage, and this model has none"):
        grad_cam(model, draw(2, 1, 5, 5))
    with pytest.raises(InputError, match=r"the activation \[2, 4\] is not a map of several cells"):
        grad_cam(model, draw(2, 1, 5, 5), layer="body.1")
    with pytest.raises(InputError, match=r"the activation \[2, 3, 1, 1\] is not a map of several cells"):
        grad_cam(Pooled(), draw(2, 1, 5, 5), layer="body.2")


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
