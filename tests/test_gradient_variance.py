"""The closed form of the last layer's gradient noise against sampled labels."""

from __future__ import annotations

import pytest
import torch

from dissensus.errors import InputError
from dissensus.models.heads import LinearHead
from dissensus.probes.gradient_variance import last_layer_gradient_variance, sampled_gradient_variance

CLASSES = 3


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_last_layer_gradient_variance_is_that_of_sampled_labels():
    p, h, logits = torch.softmax(2 * draw(4, CLASSES), 1), draw(4, 5, seed=1), draw(4, CLASSES, seed=2)
    expected = last_layer_gradient_variance(p, h)
    one_hot = torch.eye(CLASSES, dtype=torch.float64)
    draws = torch.multinomial(p, 200_000, replacement=True, generator=torch.Generator().manual_seed(3))
    for item in range(4):
        inputs = torch.cat([h[item], torch.ones(1, dtype=torch.float64)])  # the bias sees a constant 1
        by_class = torch.stack([torch.outer(torch.softmax(logits[item], 0) - one, inputs) for one in one_hot])
        share = torch.bincount(draws[item], minlength=CLASSES) / draws.shape[1]
        mean = (share[:, None, None] * by_class).sum(0)
        sampled = (share * (by_class - mean).square().sum((1, 2))).sum()
        assert float(sampled) == pytest.approx(float(expected[item]), rel=0.05)


def test_gradient_variance_wants_distributions_and_the_features_of_the_same_items():
    with pytest.raises(InputError, match="counts or labels"):
        last_layer_gradient_variance(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 4))
    with pytest.raises(InputError, match=r"features \[3, 4\]"):
        last_layer_gradient_variance(torch.full((2, 2), 0.5), torch.ones(3, 4))


@pytest.mark.parametrize(
    "head", [LinearHead(5, 4), LinearHead(5, 4, bias=False), LinearHead(5, 4, bias=False, scale=0.3)]
)
def test_sampling_finds_the_closed_form_whatever_the_last_layer(head):
    target = torch.softmax(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), 1)
    features = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    closed = last_layer_gradient_variance(target, features, bias=head.bias is not None, scale=head.scale)
    sampled = sampled_gradient_variance(head, target, features, draws=20_000, seed=0)
    torch.testing.assert_close(sampled, closed, rtol=0.03, atol=0)
