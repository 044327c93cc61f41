"""Barriers against losses whose hills are known."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from dissensus import random
from dissensus.errors import InputError
from dissensus.models import Classifier, Normalise
from dissensus.models.heads import LinearHead
from dissensus.probes.barrier import barrier


class Valley(nn.Module):
    """One weight; the loss has minima at -1 and 1, and a hill of height 1 between."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))


def valley_loss(model: nn.Module) -> float:
    return (model.weight.item() ** 2 - 1) ** 2


def test_the_barrier_is_the_height_of_the_hill_on_the_straight_line():
    model = Valley()
    ends = ({"weight": torch.tensor(-1.0)}, {"weight": torch.tensor(1.0)})
    found = barrier(model, *ends, valley_loss)
    assert found.height == pytest.approx(1.0)
    assert len(found.losses) == 21
    assert (found.losses[0], found.losses[10], found.losses[20]) == (0.0, 1.0, 0.0)
    assert model.weight.item() == 0  # the model given is left alone


def test_a_barrier_is_measured_from_the_line_between_unequal_ends():
    ends = ({"weight": torch.tensor(0.0)}, {"weight": torch.tensor(1.0)})
    found = barrier(Valley(), *ends, lambda model: 3 * model.weight.item())
    assert found.height == pytest.approx(0, abs=1e-6)
    assert found.losses[-1] == 3.0


def test_batch_norm_statistics_are_interpolated_or_measured_anew_at_every_point():
    with random.seeded(0, "init"):
        body = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        model = Classifier(Normalise((2, 4, 4), torch.zeros(2), torch.ones(2)), body, LinearHead(3, 3))
    x = torch.randn(20, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    a, b = copy.deepcopy(model.state_dict()), copy.deepcopy(model.state_dict())
    b["body.1.running_mean"] += 1.0
    b["body.1.num_batches_tracked"] += 5
    seen = []

    def loss(between):
        assert not any(part.training for part in between.modules())
        seen.append(between.body[1].running_mean.clone())
        return 0.0

    barrier(model, a, b, loss, points=3)
    torch.testing.assert_close(seen[1], a["body.1.running_mean"] + 0.5)
    torch.testing.assert_close(seen[2], b["body.1.running_mean"], rtol=0, atol=0)
    seen.clear()
    barrier(model, a, b, loss, points=3, reestimate=x, batch=8)
    truth = model.body[0](model.normalise(x)).mean((0, 2, 3)).detach()
    for mean in seen:  # the weights are the same at both ends, so the statistics are
        torch.testing.assert_close(mean, truth, rtol=0.05, atol=0.02)  # batches of 6 and 7 weigh the same
    barrier(model, a, b, loss, points=2, reestimate=x)
    torch.testing.assert_close(seen[-1], truth)


def test_a_barrier_between_different_models_or_of_one_point_is_refused():
    with pytest.raises(InputError, match="different models"):
        barrier(Valley(), {"weight": torch.zeros(())}, {"weight": torch.zeros(1)}, valley_loss)
    with pytest.raises(InputError, match="1 points are no line"):
        barrier(Valley(), *2 * ({"weight": torch.zeros(())},), valley_loss, points=1)
