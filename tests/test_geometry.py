"""Estimates of curvature against the dense Hessian in float64; barriers and gradient noise against what they mean."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dissensus import random
from dissensus.errors import InputError
from dissensus.models import Classifier, LinearHead, Mlp, Normalise, Smallcnn
from dissensus.probes import geometry
from dissensus.probes.geometry import EIGENVALUES, TRACES, Hessian

CLASSES, ITEMS = 3, 20


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def build_mlp() -> nn.Module:
    return Mlp(hidden=(6,), dropout=0.5).build((5,), CLASSES, torch.zeros(5), torch.ones(5))


def build_conv() -> nn.Module:
    return Smallcnn(width=2, hidden=5).build((1, 4, 4), CLASSES, torch.tensor([0.3]), torch.tensor([0.5]))


def build_batch_norm() -> nn.Module:
    body = nn.Sequential(
        nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    return Classifier(Normalise((2, 4, 4), torch.zeros(2), torch.ones(2)), body, LinearHead(3, CLASSES))


NETWORKS = {"mlp": (build_mlp, (5,)), "conv": (build_conv, (1, 4, 4)), "batch_norm": (build_batch_norm, (2, 4, 4))}
every_network = pytest.mark.parametrize("name", NETWORKS)
every_estimator = pytest.mark.parametrize("estimator", [*EIGENVALUES.values(), *TRACES.values()])


def case(name: str) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    build, shape = NETWORKS[name]
    with random.seeded(0, "init"):
        model = build().double()
    x, target = draw(ITEMS, *shape), torch.softmax(2 * draw(ITEMS, CLASSES, seed=1), 1)
    model.train()
    for _ in range(3):  # so that batch norms have seen something, and gradients are there to be left alone
        model.loss(x, target).backward()
    return model, x, target


def dense(model: nn.Module, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The naive twin: every second derivative, one by one."""
    model = copy.deepcopy(model).eval()
    parameters = [p for p in model.parameters() if p.requires_grad]
    gradient = torch.autograd.grad(cross_entropy(model(x), target), parameters, create_graph=True)
    flat = torch.cat([part.reshape(-1) for part in gradient])
    rows = [torch.autograd.grad(one, parameters, retain_graph=True, materialize_grads=True) for one in flat]
    return torch.stack([torch.cat([part.reshape(-1) for part in row]) for row in rows])


class Matrix:
    """A symmetric matrix with these eigenvalues, in no favoured directions."""

    def __init__(self, eigenvalues: torch.Tensor) -> None:
        self.size, self.dtype, self.device = len(eigenvalues), eigenvalues.dtype, eigenvalues.device
        turned = torch.linalg.qr(draw(self.size, self.size).to(self.dtype)).Q
        self.matrix, self.products = turned * eigenvalues @ turned.T, 0

    def __call__(self, vector: torch.Tensor) -> torch.Tensor:
        self.products += 1
        return self.matrix @ vector


OUTLIERS = torch.cat([torch.tensor([240.0, 150, 120, 90, 60, 30]), 500 / torch.arange(10.0, 304)]).double()


@every_network
def test_a_product_is_that_of_the_dense_hessian(name):
    model, x, target = case(name)
    hessian, matrix = Hessian(model, x, target), dense(model, x, target)
    assert hessian.size == len(matrix)
    vector = draw(hessian.size, seed=2)
    torch.testing.assert_close(hessian(vector), matrix @ vector, rtol=1e-9, atol=1e-12)


@every_network
def test_the_micro_batch_changes_nothing_but_memory(name):
    model, x, target = case(name)
    vector = draw(Hessian(model, x, target).size, seed=2)
    whole = Hessian(model, x, target, micro_batch=ITEMS)(vector)
    for size in (1, 7, 1000):
        torch.testing.assert_close(Hessian(model, x, target, micro_batch=size)(vector), whole, rtol=1e-9, atol=1e-12)


@every_network
def test_eigenvalue_and_trace_are_those_of_the_dense_hessian(name):
    model, x, target = case(name)
    hessian, matrix = Hessian(model, x, target), dense(model, x, target)
    largest, trace = float(torch.linalg.eigvalsh(matrix)[-1]), float(matrix.trace())
    assert geometry.power_iteration(hessian, seed=0, tolerance=1e-8, most=2000).value == pytest.approx(largest, rel=1e-3)
    assert geometry.lanczos(hessian, seed=0, tolerance=1e-6).value == pytest.approx(largest, rel=1e-6)
    for estimator in TRACES.values():
        found = estimator(hessian, seed=0, tolerance=0.1)
        assert found.converged
        assert abs(found.value - trace) < 4 * found.error


@every_network
@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(name, training):
    model, x, target = case(name)
    model.train(training)
    modes = [part.training for part in model.modules()]
    state = copy.deepcopy(model.state_dict())
    gradients = [p.grad.clone() for p in model.parameters()]
    geometry.lanczos(Hessian(model, x, target), seed=0, most=5)
    assert [part.training for part in model.modules()] == modes
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert all(torch.equal(p.grad, before) for p, before in zip(model.parameters(), gradients, strict=True))
    assert all(p.requires_grad for p in model.parameters())


def test_frozen_parameters_are_no_part_of_the_hessian():
    model, x, target = case("conv")
    model.body[0].requires_grad_(False)
    hessian, matrix = Hessian(model, x, target), dense(model, x, target)
    vector = draw(len(matrix), seed=2)
    torch.testing.assert_close(hessian(vector), matrix @ vector, rtol=1e-9, atol=1e-12)


def test_images_may_come_as_bytes():
    model, _, target = case("conv")
    images = torch.randint(0, 256, (ITEMS, 1, 4, 4), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    as_bytes, as_floats = Hessian(model, images, target), Hessian(model, images / 255, target)
    vector = draw(as_bytes.size)
    torch.testing.assert_close(as_bytes(vector), as_floats(vector))


def test_a_hessian_of_mismatched_counted_or_untrainable_things_is_refused():
    model, x, target = case("mlp")
    with pytest.raises(InputError, match="20 inputs but 19 targets"):
        Hessian(model, x, target[1:])
    with pytest.raises(InputError, match="sum to"):
        Hessian(model, x, target * 1.1)
    with pytest.raises(InputError, match="no trainable parameters"):
        Hessian(model.requires_grad_(False), x, target)


@every_estimator
def test_an_estimator_reports_every_product_and_last_what_it_returns(estimator):
    matrix, heard = Matrix(OUTLIERS), []
    found = estimator(matrix, seed=0, progress=heard.append)
    assert found.converged
    assert heard[-1] == found
    assert found.products == matrix.products
    assert [one.products for one in heard] == sorted({one.products for one in heard})
    assert not any(one.converged for one in heard[:-1])


@every_estimator
def test_an_estimator_is_a_function_of_its_seed(estimator):
    matrix = Matrix(OUTLIERS)
    assert estimator(matrix, seed=3) == estimator(matrix, seed=3)
    assert estimator(matrix, seed=3).value != estimator(matrix, seed=4).value


@every_estimator
def test_an_estimator_stops_at_the_most_products_and_says_that_it_has_not_converged(estimator):
    matrix = Matrix(OUTLIERS)
    found = estimator(matrix, seed=0, tolerance=0.0, most=15)
    assert (found.products, found.converged, matrix.products) == (15, False, 15)


@every_estimator
def test_in_float32_the_estimate_is_the_same_but_for_rounding(estimator):
    single, double = estimator(Matrix(OUTLIERS.float()), seed=0), estimator(Matrix(OUTLIERS), seed=0)
    assert single.value == pytest.approx(double.value, rel=1e-4)


@every_estimator
def test_the_zero_matrix_has_eigenvalue_and_trace_zero(estimator):
    found = estimator(Matrix(torch.zeros(30, dtype=torch.float64)), seed=0)
    assert (found.value, found.error, found.converged) == (0.0, 0.0, True)


@pytest.mark.parametrize("estimator", TRACES.values(), ids=TRACES)
@pytest.mark.parametrize("eigenvalues", [OUTLIERS, -OUTLIERS.sqrt()])
def test_the_trace_lies_within_two_standard_errors_nearly_always(estimator, eigenvalues):
    matrix, truth = Matrix(eigenvalues), float(eigenvalues.sum())
    found = [estimator(matrix, seed=seed) for seed in range(100)]
    assert all(one.converged and one.error <= 0.02 * abs(one.value) for one in found)
    z = torch.tensor([(one.value - truth) / one.error for one in found])
    assert (z.abs() < 2).float().mean() > 0.85
    assert abs(z.mean()) < 0.4  # unbiased, to what 100 runs can show


def test_hutch_plus_plus_needs_fewer_products_where_few_eigenvalues_dominate():
    matrix = Matrix(OUTLIERS)
    plain, better = ([estimator(matrix, seed=s).products for s in range(20)] for estimator in TRACES.values())
    assert sum(better) < 0.7 * sum(plain)


def test_hutch_plus_plus_is_exact_for_a_matrix_of_low_rank():
    few = torch.cat([torch.tensor([5.0, 3.0, -1.0]), torch.zeros(97)]).double()
    found = geometry.hutch_plus_plus(Matrix(few), seed=0)
    assert found.value == pytest.approx(7.0, rel=1e-9)
    assert found.error < 1e-9


@pytest.mark.parametrize("basis", [3, 6, 20, 500])
def test_lanczos_finds_the_largest_eigenvalue_in_any_memory_and_is_no_further_off_than_it_says(basis):
    for eigenvalues in (OUTLIERS, OUTLIERS - 200, torch.linspace(-3, 1, 40).double()):
        for seed in range(5):
            found = geometry.lanczos(Matrix(eigenvalues), seed=seed, most=3000, basis=basis)
            assert found.converged
            assert abs(found.value - float(eigenvalues.max())) <= found.error + 1e-12


def test_lanczos_needs_half_the_products_of_power_iteration_for_the_same_error():
    matrix = Matrix(OUTLIERS)
    for seed in range(10):
        found, heard = geometry.lanczos(matrix, seed=seed), []
        geometry.power_iteration(matrix, seed=seed, tolerance=0.0, progress=heard.append)
        assert found.products <= 0.5 * min(one.products for one in heard if one.error <= found.error)


def test_power_iteration_admits_that_a_negative_eigenvalue_is_not_the_largest():
    found = geometry.power_iteration(Matrix(OUTLIERS - 200), seed=0, most=3000)
    assert found.value == pytest.approx(-200, rel=0.05)
    assert not found.converged


# Barriers


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
    found = geometry.barrier(model, *ends, valley_loss)
    assert found.height == pytest.approx(1.0)
    assert len(found.losses) == 21
    assert (found.losses[0], found.losses[10], found.losses[20]) == (0.0, 1.0, 0.0)
    assert model.weight.item() == 0  # the model given is left alone


def test_a_barrier_is_measured_from_the_line_between_unequal_ends():
    ends = ({"weight": torch.tensor(0.0)}, {"weight": torch.tensor(1.0)})
    found = geometry.barrier(Valley(), *ends, lambda model: 3 * model.weight.item())
    assert found.height == pytest.approx(0, abs=1e-6)
    assert found.losses[-1] == 3.0


def test_batch_norm_statistics_are_interpolated_or_measured_anew_at_every_point():
    model, x, _ = case("batch_norm")
    a, b = copy.deepcopy(model.state_dict()), copy.deepcopy(model.state_dict())
    b["body.1.running_mean"] += 1.0
    b["body.1.num_batches_tracked"] += 5
    seen = []

    def loss(between):
        assert not any(part.training for part in between.modules())
        seen.append(between.body[1].running_mean.clone())
        return 0.0

    geometry.barrier(model, a, b, loss, points=3)
    torch.testing.assert_close(seen[1], a["body.1.running_mean"] + 0.5)
    torch.testing.assert_close(seen[2], b["body.1.running_mean"], rtol=0, atol=0)
    seen.clear()
    geometry.barrier(model, a, b, loss, points=3, reestimate=x, batch=8)
    truth = model.body[0](model.normalise(x)).mean((0, 2, 3)).detach()
    for mean in seen:  # the weights are the same at both ends, so the statistics are
        torch.testing.assert_close(mean, truth, rtol=0.05, atol=0.02)  # batches of 6 and 7 weigh the same
    geometry.barrier(model, a, b, loss, points=2, reestimate=x)
    torch.testing.assert_close(seen[-1], truth)


def test_a_barrier_between_different_models_or_of_one_point_is_refused():
    with pytest.raises(InputError, match="different models"):
        geometry.barrier(Valley(), {"weight": torch.zeros(())}, {"weight": torch.zeros(1)}, valley_loss)
    with pytest.raises(InputError, match="1 points are no line"):
        geometry.barrier(Valley(), *2 * ({"weight": torch.zeros(())},), valley_loss, points=1)


# Gradient noise


def test_last_layer_gradient_variance_is_that_of_sampled_labels():
    p, h, logits = torch.softmax(2 * draw(4, CLASSES), 1), draw(4, 5, seed=1), draw(4, CLASSES, seed=2)
    expected = geometry.last_layer_gradient_variance(p, h)
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
        geometry.last_layer_gradient_variance(torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 4))
    with pytest.raises(InputError, match=r"features \[3, 4\]"):
        geometry.last_layer_gradient_variance(torch.full((2, 2), 0.5), torch.ones(3, 4))


def test_an_estimate_with_one_probe_knows_nothing_of_its_error():
    assert geometry.hutchinson(Matrix(OUTLIERS), seed=0, most=1).error == math.inf
