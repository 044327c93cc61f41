import pytest
import torch

from dissensus.training.optimisers import OPTIMISERS, AdamW, Sgd


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
    assert AdamW().lr == 1e-3
    assert Sgd().momentum == 0.9
