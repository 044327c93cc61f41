import itertools
import math

import pytest
import torch

from dissensus.store.encoding import decode, encode
from dissensus.training.schedules import (
    SCHEDULES,
    STOPPINGS,
    Constant,
    Cosine,
    EarlyStopping,
    LinearDecay,
    Multistep,
    Plateau,
)

EVERY = [
    Constant(),
    Cosine(),
    Cosine(warmup=2),
    Cosine(every="epoch"),
    Cosine(warmup=2, every="epoch"),
    LinearDecay(warmup=2),
    Multistep((5, 8)),
    Multistep((5, 8), warmup=2),
    Plateau(),
]
UNEVEN = [1.0, 0.9, 0.95, 0.91, 0.92, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.49, 0.489999, 0.489998, 0.49, 0.49]


def factors(schedule, epochs=10, steps=10, losses=UNEVEN):
    """Of every step, the first of an epoch first."""
    return [
        schedule.factor(epoch + step / steps, epochs, losses[:epoch]) for epoch in range(epochs) for step in range(steps)
    ]


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_a_schedule_stays_between_0_and_1_and_never_rises_after_its_warm_up(schedule):
    values = factors(schedule)
    assert all(0 <= value <= 1 for value in values)
    assert all(a >= b for a, b in itertools.pairwise(values[20:]))


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_a_schedule_says_truly_whether_it_is_set_per_epoch_and_whether_it_watches(schedule):
    short, long = factors(schedule, epochs=10), factors(schedule, epochs=12)[:100]
    within_epochs = all(
        len(set(values[start : start + 10])) == 1 for values in (short, long) for start in range(0, 100, 10)
    )
    assert schedule.set_per_epoch == (short == long and within_epochs)
    assert schedule.watches == (factors(schedule) != factors(schedule, losses=[1 / n for n in range(1, 11)]))


@pytest.mark.parametrize("schedule", EVERY, ids=repr)
def test_a_schedule_goes_through_a_spec_and_back(schedule):
    assert decode(encode(schedule), SCHEDULES) == schedule
    assert set(encode(schedule)) <= {
        *("name", "warmup", "every", "milestones", "gamma", "patience", "minimum_improvement"),
    }


def test_cosine_agrees_with_torch_epoch_by_epoch():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=12)
    for epoch in range(12):
        ours = Cosine(every="epoch").factor(epoch + 0.7, 12, [])
        assert math.isclose(optimiser.param_groups[0]["lr"], ours, abs_tol=1e-12)
        optimiser.step()
        theirs.step()


def test_a_warm_up_by_epoch_trains_from_the_first_epoch_on_and_ends_at_1():
    by_epoch = Cosine(warmup=4, every="epoch")
    assert [by_epoch.factor(epoch + 0.9, 10, []) for epoch in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert [Cosine(warmup=1.5, every="epoch").factor(epoch, 10, []) for epoch in range(2)] == [1 / 1.5, 1.0]


@pytest.mark.parametrize("schedule", [Cosine(warmup=2), LinearDecay(warmup=2), Multistep(warmup=2)])
def test_a_warm_up_by_step_begins_at_0_and_ends_at_1(schedule):
    assert [schedule.factor(epoch, 10, []) for epoch in (0, 0.5, 1, 2)] == [0, 0.25, 0.5, 1]


def test_plateau_agrees_with_torch_on_an_uneven_loss():
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=2)
    for epoch, loss in enumerate(UNEVEN):
        theirs.step(loss)
        assert optimiser.param_groups[0]["lr"] == Plateau().factor(epoch + 1, 20, UNEVEN[: epoch + 1])


def test_multistep_drops_at_each_milestone():
    schedule = Multistep((100, 150), gamma=0.1)
    values = [round(schedule.factor(epoch, 200, []), 6) for epoch in (0, 99.9, 100, 149, 150, 199)]
    assert values == [1, 1, 0.1, 0.1, 0.01, 0.01]


def test_early_stopping_waits_its_patience_after_the_last_real_improvement():
    stopping = EarlyStopping(patience=3, minimum_improvement=0.01)
    losses = [1.0, 0.5, 0.495, 0.6, 0.7]
    assert [stopping.stops(losses[:n]) for n in range(1, 6)] == [False, False, False, False, True]


def test_the_names_in_a_spec_are_the_names_of_the_field():
    assert list(SCHEDULES) == ["constant", "cosine", "linear", "multistep", "plateau"]
    assert list(STOPPINGS) == ["early_stopping"]
