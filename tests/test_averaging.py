"""Averaged weights: parameters and batch-norm statistics are averaged, and nothing else."""

import math

import torch
from torch import nn

from dissensus.training.averaging import AVERAGES, Ema, install, installed, moved


class Counting(nn.Module):
    """A layer, batch norm, and buffers that are no weights: a precision that grows, and a count."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
        self.register_buffer("precision", torch.zeros(2, 2))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def step(self):
        with torch.no_grad():
            self.layer.weight += 1
            self.precision += torch.eye(2)
            self.steps += 1
        self.norm(torch.randn(8, 2))


def after(steps):
    torch.manual_seed(0)
    model, average, seen = Counting(), None, []
    for step in range(1, steps + 1):
        model.step()
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        average = moved(average, model, 1 / step)  # the plain mean
    return model, average, seen


def test_parameters_and_batch_norm_statistics_are_averaged_and_every_other_buffer_is_the_present_one():
    model, average, seen = after(5)
    install(average, model)
    for name, value in model.state_dict().items():
        if name in ("precision", "steps", "norm.num_batches_tracked"):
            assert torch.equal(value, seen[-1][name]), name
        else:
            torch.testing.assert_close(value, torch.stack([state[name] for state in seen]).mean(0))
    assert int(model.precision[0, 0]) == 5
    assert not torch.equal(model.norm.running_var, seen[-1]["norm.running_var"])


def test_a_model_has_the_average_inside_the_block_and_its_own_weights_afterwards():
    model, average, seen = after(3)
    with installed(average, model):
        assert torch.equal(model.layer.weight, average["layer.weight"])
        assert int(model.steps) == 3
    assert all(torch.equal(value, seen[-1][name]) for name, value in model.state_dict().items())
    with installed(None, model):
        assert all(torch.equal(value, seen[-1][name]) for name, value in model.state_dict().items())


def test_tied_weights_are_averaged_as_one():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    average = moved(None, model, 1.0)
    with torch.no_grad():
        model[0].weight += 1
    install(moved(average, model, 0.5), model)
    torch.testing.assert_close(model[1].weight, average["1.weight"])
    assert model[0].weight is model[1].weight


def test_an_average_counts_a_step_e_times_less_for_every_so_many_epochs_since():
    steps, per_epoch, average = 400, 10, Ema(epochs=2.0)
    weights = []
    for step in range(1, steps + 1):
        rate = average.rate(step, per_epoch)
        weights = [weight * (1 - rate) for weight in weights] + [rate]
    assert math.isclose(sum(weights), 1)
    assert math.isclose(weights[-1] / weights[-21], math.e)
    assert [average.rate(step, per_epoch) for step in (1, 2, 10)] == [1, 1 / 2, 1 / 10]  # the plain mean at first
    assert weights[0] < 1e-8


def test_the_name_in_a_spec_is_the_name_of_the_field():
    assert list(AVERAGES) == ["ema"]
