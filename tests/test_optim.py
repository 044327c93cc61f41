import itertools
import math

import pytest
import torch

from dissensus.training.optimisers import (
    AVERAGES,
    OPTIMISERS,
    SCHEDULES,
    AdamW,
    Constant,
    Cosine,
    EarlyStopping,
    Ema,
    Linear,
    Multistep,
    Plateau,
    Sgd,
)


@pytest.mark.parametrize(
    "schedule", [Constant(), Cosine(warmup=2), Cosine(every="epoch"), Linear(warmup=2), Multistep((5, 8), warmup=2)]
)
def test_a_schedule_stays_between_0_and_1_and_never_rises_after_its_warm_up(schedule):
    factors = [schedule.factor(step / 10, 10) for step in range(101)]
    assert all(0 <= factor <= 1 for factor in factors)
    after = factors[20:]
    assert all(a >= b for a, b in itertools.pairwise(after))


def test_cosine_agrees_with_torch_epoch_by_epoch():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=12)
    for epoch in range(12):
        assert math.isclose(optimiser.param_groups[0]["lr"], Cosine(every="epoch").factor(epoch + 0.7, 12), abs_tol=1e-12)
        optimiser.step()
        theirs.step()


def test_plateau_agrees_with_torch_on_an_uneven_loss():
    losses = [1.0, 0.9, 0.95, 0.91, 0.92, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.49, 0.489999, 0.489998, 0.49, 0.49]
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=2)
    for epoch, loss in enumerate(losses):
        theirs.step(loss)
        assert optimiser.param_groups[0]["lr"] == Plateau().after(losses[: epoch + 1])


def test_multistep_drops_at_each_milestone():
    schedule = Multistep((100, 150), gamma=0.1)
    assert [round(schedule.factor(epoch, 200), 6) for epoch in (0, 99.9, 100, 149, 150, 199)] == [
        1,
        1,
        0.1,
        0.1,
        0.01,
        0.01,
    ]


def test_early_stopping_waits_its_patience_after_the_last_real_improvement():
    stopping = EarlyStopping(patience=3, minimum_improvement=0.01)
    losses = [1.0, 0.5, 0.495, 0.6, 0.7]
    assert [stopping.stops(losses[:n]) for n in range(1, 6)] == [False, False, False, False, True]


def test_an_average_counts_a_step_e_times_less_for_every_so_many_epochs_since():
    steps, an_epoch, average = 400, 10, Ema(epochs=2.0)
    weights = []
    for step in range(1, steps + 1):
        rate = average.rate(step, an_epoch)
        weights = [weight * (1 - rate) for weight in weights] + [rate]
    assert math.isclose(sum(weights), 1)
    assert math.isclose(weights[-1] / weights[-21], math.e)
    assert [average.rate(step, an_epoch) for step in (1, 2, 10)] == [1, 1 / 2, 1 / 10]  # the plain mean at first
    assert weights[0] < 1e-8


@pytest.mark.parametrize("optimiser", OPTIMISERS.values())
def test_every_optimiser_walks_downhill(optimiser):
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    built = optimiser(lr=0.1).build([parameter])
    for _ in range(20):
        built.zero_grad()
        (parameter**2).sum().backward()
        built.step()
    assert abs(parameter.item()) < 0.7


def test_the_names_in_a_spec_are_the_names_of_the_field():
    assert list(OPTIMISERS) == ["sgd", "adam", "adamw"]
    assert list(SCHEDULES) == ["constant", "cosine", "linear", "multistep", "plateau"]
    assert list(AVERAGES) == ["ema"]
    assert AdamW().lr == 1e-3
    assert Sgd().momentum == 0.9
