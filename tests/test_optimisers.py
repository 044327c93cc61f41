import pytest
import torch

from dissensus.training.muon import QUINTIC, Muon, orthogonalised
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
    assert list(OPTIMISERS) == ["sgd", "adam", "adamw", "muon"]
    assert AdamW().lr == 1e-3
    assert Sgd().momentum == 0.9


@pytest.mark.parametrize("shape", [(6, 20), (20, 6), (5, 5), (1, 9)])
def test_newton_schulz_moves_singular_values_and_leaves_directions(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(3):
        values = sum(factor * values**power for factor, power in zip(QUINTIC, (1, 3, 5), strict=True))
    torch.testing.assert_close(orthogonalised(matrix, 3).double(), left @ values.diag() @ right, atol=1e-4, rtol=1e-4)
    after = torch.linalg.svdvals(orthogonalised(matrix, 5))
    assert float(after.min()) > 0.6
    assert float(after.max()) < 1.3


def test_a_gradient_of_zero_moves_nothing_but_the_weight_decay():
    kernel = torch.nn.Parameter(torch.ones(4, 2, 3, 3))
    kernel.grad = torch.zeros_like(kernel)
    Muon(lr=0.1, weight_decay=0.5).build([kernel]).step()
    torch.testing.assert_close(kernel.detach(), torch.full_like(kernel, 1 - 0.1 * 0.5))


def test_what_is_no_kernel_steps_as_torch_s_nesterov_does_at_its_own_rate_under_the_schedule():
    start = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    ours, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    muon = Muon(lr=0.02, other_lr=0.3).build([ours])
    sgd = torch.optim.SGD([theirs], 0.3, momentum=0.9, weight_decay=5e-4, nesterov=True)
    for factor in (1.0, 0.5, 0.1):
        muon.param_groups[0]["lr"] = 0.02 * factor  # as the loop does
        sgd.param_groups[0]["lr"] = 0.3 * factor
        for parameter, optimiser in ((ours, muon), (theirs, sgd)):
            optimiser.zero_grad()
            (parameter**3).sum().backward()
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def test_a_kernel_steps_by_the_rate_in_every_direction():
    generator = torch.Generator().manual_seed(0)
    kernel = torch.nn.Parameter(torch.zeros(4, 2, 3, 3))
    kernel.grad = torch.randn(4, 2, 3, 3, generator=generator)
    Muon(lr=0.1, steps=5).build([kernel]).step()
    moved = torch.linalg.svdvals(kernel.detach().flatten(1)) / 0.1
    assert float(moved.min()) > 0.6
    assert float(moved.max()) < 1.3
