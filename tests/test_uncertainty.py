"""SNGP, DUQ and MC dropout: what their papers say of them, and the traps that others fell into, each a test."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy, conv2d, one_hot

from dissensus import random
from dissensus.errors import InputError
from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Target
from dissensus.models import (
    DenseNet,
    Duq,
    Linear,
    McDropout,
    Mlp,
    PreactResNet,
    PyramidNet,
    ResNet20,
    ResNeXt,
    ShakeShake,
    Smallcnn,
    Sngp,
    Speedy,
    Vgg,
    WideResNet,
    load_model,
    new_model,
)
from dissensus.models.mc_dropout import MaskedDropout
from dissensus.models.spectral import SpectralBound
from dissensus.models.twice_differentiable import TwiceDifferentiableBatchNorm, TwiceDifferentiableConv
from dissensus.training.averaging import Ema
from dissensus.training.distributed import Group
from dissensus.training.loop import Settings, fit
from dissensus.training.optimisers import Adam, Sgd
from dissensus.training.schedules import Constant

HEADS = {
    "sngp": lambda trunk: Sngp(trunk, features=32),
    "duq": lambda trunk: Duq(trunk, embedding=6),
    "mc_dropout": lambda trunk: McDropout(trunk, samples=3),
}
TRUNKS = {
    "smallcnn": Smallcnn(4, 8),
    "resnet20": ResNet20(),
    "speedy": Speedy((8, 8)),
    "vgg": Vgg((1, 1), 4),
    "wrn": WideResNet(10, 1, base=4),
    "resnet_preact": PreactResNet(11, 4),
    "resnext": ResNeXt(11, 2, 4),
    "densenet": DenseNet(10, 4),
    "pyramidnet": PyramidNet(8, 6, 4),
    "shake_shake": ShakeShake(8, 4, 4),
}

every_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def images(n: int) -> torch.Tensor:
    return (drawn(n, 3, 8, 8) * 255).to(torch.uint8)


def trained(architecture, x, target, *, epochs=3, batch=16, lr=0.01, averaging=None, optimiser=None, precision="float32"):
    """A model after the one training loop."""
    classes = target.shape[1]
    model = new_model(architecture, x, classes, seed=0)
    settings = Settings(optimiser or Adam(lr=lr), Constant(), epochs, batch, averaging=averaging, precision=precision)
    labels = Soft().labels(Target(target, torch.arange(len(x))), 0)
    fit(model, x, labels, settings, classes=classes, seed=0, observe=lambda epoch, loss: None)
    return model.eval()


def two_moons(n: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    """Two half circles that hold each other, with a little noise: x [n, 2] and classes [n]."""
    angle, label = math.pi * drawn(n), torch.arange(n) % 2
    upper = torch.stack([torch.cos(angle), torch.sin(angle)], 1)
    lower = torch.stack([1 - torch.cos(angle), 0.5 - torch.sin(angle)], 1)
    x = torch.where(label[:, None] == 0, upper, lower)
    return x + 0.1 * torch.randn(n, 2, generator=torch.Generator().manual_seed(1)), label


FAR = torch.tensor([[8.0, 8.0], [-8.0, 6.0], [0.5, -9.0], [10.0, 0.0]])


# On any trunk, and on features alone


@every_head
@pytest.mark.parametrize("trunk", TRUNKS.values(), ids=TRUNKS)
def test_every_head_trains_on_every_trunk_and_is_reloaded_to_the_same_predictions(head, trunk):
    x, target = images(32), torch.softmax(4 * drawn(32, 3, seed=2), 1)
    architecture = head(trunk)
    model = trained(architecture, x, target, epochs=1)
    floats = x[:5].float() / 255
    with torch.no_grad():
        said = model.predict(floats)
    assert said.logits.shape == (5, 3)
    assert said.uncertainty.shape == (5,)
    assert bool(torch.isfinite(said.logits).all() and torch.isfinite(said.uncertainty).all())
    loaded = load_model(architecture, (3, 8, 8), 3, model.state_dict())
    with torch.no_grad():
        assert torch.equal(loaded.predict(floats).logits, said.logits)
        assert torch.equal(loaded.predict(floats).uncertainty, said.uncertainty)


@every_head
@pytest.mark.parametrize("trunk", [Linear(), Mlp((16,))], ids=["identity", "mlp"])
def test_every_head_learns_from_features_alone(head, trunk):
    x, label = two_moons()
    model = trained(head(trunk), x, one_hot(label, 2).float(), epochs=30, batch=20, lr=0.02)
    with torch.no_grad():
        assert float((model.predict(x).logits.argmax(1) == label).float().mean()) > 0.75


@every_head
def test_a_prediction_in_eval_mode_does_not_depend_on_its_batch(head):
    model = trained(head(Smallcnn(4, 8)), images(32), one_hot(torch.arange(32) % 3, 3).float(), epochs=1)
    x = drawn(6, 3, 8, 8)
    with torch.no_grad():
        together = model.predict(x)
        apart = [model.predict(x[i : i + 1]) for i in range(6)]
    torch.testing.assert_close(together.logits, torch.cat([each.logits for each in apart]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        together.uncertainty.double(), torch.cat([e.uncertainty for e in apart]).double(), rtol=1e-3, atol=1e-5
    )


@every_head
def test_a_head_starts_on_the_weights_that_its_trunk_would_have_alone(head):
    x = images(8)
    alone = new_model(Smallcnn(4, 8), x, 3, seed=5).state_dict()
    under = new_model(head(Smallcnn(4, 8)), x, 3, seed=5).state_dict()
    shared = {name: value for name, value in under.items() if name.startswith("trunk.body") and "weight" in name}
    assert shared
    plain = [value for name, value in alone.items() if name.startswith("body") and "weight" in name]
    assert all(torch.equal(a, b) for a, b in zip(shared.values(), plain, strict=True))


def test_a_head_on_another_such_head_is_refused():
    with pytest.raises(InputError, match="cannot be replaced"):
        new_model(Sngp(Duq(Linear())), drawn(4, 2), 2, seed=0)


@pytest.mark.parametrize("head", [HEADS["sngp"], HEADS["duq"]], ids=["sngp", "duq"])
def test_processes_cannot_share_out_what_needs_whole_batches(head):
    model = new_model(head(Linear()), drawn(4, 2), 2, seed=0)
    with pytest.raises(InputError, match="one process"):
        Group(0, 2).joined(model, model.loss)


# Spectral norms


def matrix_of(layer: nn.Conv2d, shape: tuple[int, int, int]) -> torch.Tensor:
    """The convolution as a dense matrix: it is applied to every basis vector."""
    basis = torch.eye(math.prod(shape), dtype=layer.weight.dtype).reshape(-1, *shape)
    return conv2d(basis, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups).flatten(1).T


@pytest.mark.parametrize("how", [{}, {"stride": 2}, {"groups": 2}, {"dilation": 2, "padding": 2}, {"kernel_size": 1}])
def test_the_norm_of_a_convolution_is_that_of_the_linear_map_that_it_is(how):
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, **{"kernel_size": 3, "padding": 1, **how})
    (norm,) = SpectralBound(layer, (4, 6, 6), 1.0).norms(layer, 300)
    expected = torch.linalg.matrix_norm(matrix_of(layer, (4, 6, 6)), 2)
    torch.testing.assert_close(norm, expected, rtol=1e-3, atol=0)


def test_trap_the_norm_of_reshaped_weights_is_not_that_of_the_convolution():
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, 3, padding=1)
    (norm,) = SpectralBound(layer, (4, 6, 6), 1.0).norms(layer, 300)
    reshaped = torch.linalg.matrix_norm(layer.weight.detach().flatten(1), 2)
    assert abs(float(norm / reshaped) - 1) > 0.2


def test_trap_a_layer_within_the_bound_is_left_alone_and_one_beyond_it_is_scaled_to_it():
    network = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5), nn.Conv2d(1, 1, 1))[:2]
    with torch.no_grad():
        network[0].weight.copy_(0.5 * torch.eye(5))
        network[1].weight.copy_(3.0 * torch.eye(5))
    SpectralBound(network, (5,), 0.9).hold(network, 20)
    assert torch.equal(network[0].weight, 0.5 * torch.eye(5))
    torch.testing.assert_close(network[1].weight, 0.9 * torch.eye(5))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("lr", [0.01, 0.05])
@pytest.mark.parametrize("averaging", [None, Ema(1.0)])
def test_the_spectral_bound_holds_after_training_in_averaged_weights_too_and_is_exceeded_without(
    averaging, lr, precision
):
    x, target = images(64), one_hot(torch.arange(64) % 3, 3).float()

    def norms(bound):
        architecture = Sngp(Smallcnn(4, 8), features=32, bound=bound)
        how = {"averaging": averaging, "optimiser": Sgd(lr=lr), "precision": precision}
        body = trained(architecture, x, target, epochs=10, **how).trunk.body
        maps = {"convolution": matrix_of(body[0], (3, 8, 8)), "dense layer": body[4].weight}
        assert sum(isinstance(part, nn.Conv2d | nn.Linear) for part in body) == len(maps)
        return {name: float(torch.linalg.matrix_norm(weight.detach(), 2)) for name, weight in maps.items()}

    assert all(0.5 < norm <= 0.7 * 1.02 for norm in norms(0.7).values()), norms(0.7)
    assert all(norm > 0.8 for norm in norms(1e6).values()), norms(1e6)


# SNGP


def test_random_features_approximate_the_kernel():
    head = new_model(Sngp(Linear(), features=4000, length_scale=0.8, layer_norm=False), drawn(9, 4), 2, seed=0).process
    h = drawn(9, 4, seed=3)
    phi = head.random_features(h)
    expected = 25 * torch.exp(-torch.cdist(h, h).square() / (2 * 0.8**2 * 4))
    torch.testing.assert_close(phi @ phi.T, expected, rtol=0, atol=1.5)


def test_the_precision_is_the_sum_over_the_last_epoch_as_computed_directly():
    x, target = drawn(48, 5), one_hot(torch.arange(48) % 3, 3).float()
    model = trained(Sngp(Linear(), features=16), x, target, epochs=3, optimiser=Sgd(lr=0.0, weight_decay=0.0))
    head = model.process
    with torch.no_grad():
        phi = head.random_features(model.trunk.features(x)).double()
        q = torch.softmax(phi @ head.weight.double().T, 1)
        weight = (q * (1 - q)).amax(1)
        precision = sum(w * torch.outer(f, f) for w, f in zip(weight, phi, strict=True))
        torch.testing.assert_close(head.precision.double(), precision, rtol=1e-4, atol=1e-5)
        inverse = torch.linalg.inv(precision + torch.eye(16))
        torch.testing.assert_close(
            model.variance(x).double(), torch.einsum("bi,ij,bj->b", phi, inverse, phi), rtol=1e-3, atol=1e-5
        )
        scaled = (phi @ head.weight.double().T) / torch.sqrt(1 + math.pi / 8 * model.variance(x).double())[:, None]
        said = model.predict(x)
        torch.testing.assert_close(said.logits.double(), scaled, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(said.uncertainty, 3 / (3 + scaled.exp().sum(1)), rtol=1e-3, atol=1e-4)


def test_in_bfloat16_the_precision_is_float32_and_nearly_that_of_float32():
    x, target = images(64), one_hot(torch.arange(64) % 3, 3).float()
    still = Sgd(lr=0.0, weight_decay=0.0)
    exact, short = (
        trained(Sngp(Smallcnn(4, 8), features=16), x, target, epochs=1, optimiser=still, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert short.process.precision.dtype == torch.float32
    assert float((short.process.precision - exact.process.precision).norm() / exact.process.precision.norm()) < 0.02
    assert not torch.equal(short.process.precision, exact.process.precision)  # the trunk was in bfloat16


def test_with_two_classes_the_shared_precision_is_that_of_each_class():
    q = torch.softmax(drawn(20, 2, seed=4), 1)
    torch.testing.assert_close((q * (1 - q)).amax(1), (q * (1 - q))[:, 1])


def test_with_equal_logits_soft_and_one_hot_targets_give_the_same_precision():
    x = drawn(48, 5)
    soft, hard = torch.softmax(3 * drawn(48, 3, seed=5), 1), one_hot(torch.arange(48) % 3, 3).float()
    still = Sgd(lr=0.0, weight_decay=0.0)
    one, other = (trained(Sngp(Linear(), features=16), x, target, optimiser=still) for target in (soft, hard))
    assert torch.equal(one.process.precision, other.process.precision)
    assert float(one.process.precision.abs().sum()) > 0


def test_a_running_precision_is_a_moving_average_over_batches():
    x, target = drawn(32, 5), one_hot(torch.arange(32) % 3, 3).float()
    still = Sgd(lr=0.0, weight_decay=0.0)
    summed = trained(Sngp(Linear(), features=8), x, target, epochs=1, batch=32, optimiser=still).process.precision
    running = trained(Sngp(Linear(), features=8, momentum=0.9), x, target, epochs=2, batch=32, optimiser=still)
    torch.testing.assert_close(running.process.precision, (1 - 0.9**2) * summed)


@pytest.mark.parametrize(("likelihood", "times"), [("softmax", 2), ("gaussian", 10)])
def test_variance_of_sngp_grows_away_from_the_data(likelihood, times):
    x, label = two_moons()
    architecture = Sngp(Linear(), features=256, layer_norm=False, length_scale=1.0, likelihood=likelihood)
    model = trained(architecture, x, one_hot(label, 2).float(), epochs=6, lr=0.01)
    with torch.no_grad():
        said = model.predict(x)
        assert float((said.logits.argmax(1) == label).float().mean()) > 0.9
        assert float(model.variance(FAR).min()) > times * float(model.variance(x).mean())
        sure, unsure = said.log_probs.exp().amax(1), model.predict(FAR).log_probs.exp().amax(1)
        assert float(unsure.mean()) < float(sure.mean())


def test_trap_the_covariance_is_computed_once_and_again_only_when_the_precision_changes(monkeypatch):
    model = trained(Sngp(Linear(), features=8), drawn(16, 3), one_hot(torch.arange(16) % 2, 2).float(), epochs=1)
    calls = []
    inverse = torch.cholesky_inverse
    monkeypatch.setattr(torch, "cholesky_inverse", lambda factor: calls.append(1) or inverse(factor))
    for _ in range(3):
        model.predict(drawn(4, 3))
    assert len(calls) == 1
    model.train().loss(drawn(4, 3), torch.tensor([0, 1, 0, 1]))
    model.eval().predict(drawn(4, 3))
    assert len(calls) == 2


def test_trap_the_precision_is_saved_and_loaded_with_the_weights_even_into_a_model_that_was_asked_before():
    x = drawn(16, 3)
    architecture = Sngp(Linear(), features=8)
    model = trained(architecture, x, one_hot(torch.arange(16) % 2, 2).float())
    other = new_model(architecture, x, 2, seed=1).eval()
    other.predict(x)
    other.load_state_dict(model.state_dict())
    assert "process.precision" in model.state_dict()
    assert torch.equal(other.predict(x).logits, model.predict(x).logits)
    fresh = copy.deepcopy(model)
    fresh.process.restart()
    assert not torch.equal(fresh.predict(x).logits, model.predict(x).logits)


def test_trap_averaged_weights_leave_the_precision_and_the_centroids_alone():
    x, target = drawn(32, 3), one_hot(torch.arange(32) % 2, 2).float()
    plain, averaged = (trained(Sngp(Linear(), features=8), x, target, averaging=how) for how in (None, Ema(1.0)))
    assert torch.equal(plain.process.precision, averaged.process.precision)
    assert not torch.equal(plain.process.weight, averaged.process.weight)
    plain, averaged = (trained(Duq(Linear(), embedding=4), x, target, averaging=how) for how in (None, Ema(1.0)))
    assert torch.equal(plain.centroids, averaged.centroids)
    assert not torch.equal(plain.weight, averaged.weight)


# DUQ


def duq(x, **settings):
    return new_model(Duq(Linear(), embedding=4, **{"length_scale": 0.5, "decay": 0.9, **settings}), x, 3, seed=0)


def test_with_one_hot_targets_the_centroids_move_as_in_the_paper():
    x, label = drawn(12, 5), torch.arange(12) % 3
    model = duq(x)
    with torch.no_grad():
        z = torch.einsum("bd,kmd->bkm", model.trunk.features(x), model.weight)
    counts, sums = model.counts.clone(), model.sums.clone()
    model.train().loss(x, label)
    model.after_step(x, label)
    for k in range(3):
        own = label == k
        torch.testing.assert_close(model.counts[k], 0.9 * counts[k] + 0.1 * own.sum())
        torch.testing.assert_close(model.sums[k], 0.9 * sums[k] + 0.1 * z[own, k].sum(0))


def test_with_soft_targets_each_item_moves_every_centroid_by_its_share():
    x, p = drawn(12, 5), torch.softmax(3 * drawn(12, 3, seed=6), 1)
    model = duq(x)
    with torch.no_grad():
        z = torch.einsum("bd,kmd->bkm", model.trunk.features(x), model.weight)
    counts, sums = model.counts.clone(), model.sums.clone()
    model.train().loss(x, p)
    model.after_step(x, p)
    torch.testing.assert_close(model.counts, 0.9 * counts + 0.1 * p.sum(0))
    torch.testing.assert_close(model.sums, 0.9 * sums + 0.1 * sum(p[i, :, None] * z[i] for i in range(12)))


@pytest.mark.parametrize("soft", [False, True])
def test_the_loss_of_duq_is_the_binary_cross_entropy_of_its_kernels_to_the_target(soft):
    x = drawn(12, 5)
    model = duq(x).eval()
    p = torch.softmax(3 * drawn(12, 3, seed=6), 1) if soft else one_hot(torch.arange(12) % 3, 3).float()
    kernels = torch.exp(-model.distances(model.embed(model.trunk.features(x))))
    torch.testing.assert_close(model.loss(x, p), 3 * binary_cross_entropy(kernels, p))
    torch.testing.assert_close(model.predict(x).log_probs.exp().float(), kernels / kernels.sum(1, keepdim=True))
    by_softmax = duq(x, probabilities="softmax").eval().predict(x)
    torch.testing.assert_close(by_softmax.log_probs.exp().float(), torch.softmax(kernels, 1))
    assert torch.equal(by_softmax.uncertainty, model.predict(x).uncertainty)


def test_the_pull_of_an_item_on_its_embedding_grows_with_its_distance_only_up_to_a_bound():
    x = torch.cat([torch.zeros(1, 5), drawn(7, 5)])
    model = duq(x, penalty=0.0).eval()
    label, pulls = torch.zeros(1, dtype=torch.int64), []
    for distance in (1.0, 25.0, 100.0, 1e4, 1e8):
        own = model.embed(model.trunk.features(x[:1])).detach()
        offset = torch.tensor([1.0, 0, 0, 0]) * math.sqrt(distance * 2 * 0.5**2 * 4)
        with torch.no_grad():
            model.sums.copy_((own[0] + offset) * model.counts[:, None])
        model.zero_grad()
        model.loss(x[:1], label).backward()
        pulls.append(float(model.weight.grad[0].norm()))
    assert pulls[1] == pytest.approx(5 * pulls[0], rel=1e-3)
    assert pulls[2:] == pytest.approx([math.sqrt(-math.log(1e-12)) * pulls[0]] * 3, rel=1e-3)


def test_an_item_on_its_centroid_has_a_finite_loss_and_gradient():
    x = drawn(4, 5)
    model = duq(x, penalty=0.0).eval()
    with torch.no_grad():
        model.sums.copy_(model.embed(model.trunk.features(x[:1]))[0] * 8)
        model.counts.fill_(8)
    loss = model.loss(x[:1], torch.tensor([[0.5, 0.5, 0.0]]))
    loss.backward()
    assert bool(torch.isfinite(loss))
    assert bool(torch.isfinite(model.weight.grad).all())


def test_the_gradient_penalty_is_that_of_the_formula():
    x, label = drawn(6, 5), torch.arange(6) % 3
    model, free = duq(x, penalty=0.7).train(), duq(x, penalty=0.0).train()
    slopes = []
    for item in model.trunk.normalise(x):
        value = item.clone().requires_grad_()
        kernels = torch.exp(-model.distances(model.embed(model.trunk.body(value[None]))))
        slopes.append(torch.autograd.grad(kernels.sum(), value)[0].norm())
    expected = 0.7 * torch.stack([(slope - 1) ** 2 for slope in slopes]).mean()
    torch.testing.assert_close(model.loss(x, label) - free.loss(x, label), expected)


def test_trap_the_gradient_penalty_changes_the_gradients_of_the_parameters():
    x, label = images(8), torch.arange(8) % 3
    gradients = []
    for penalty in (0.0, 0.5):
        model = new_model(Duq(Smallcnn(4, 8), embedding=4, penalty=penalty), x, 3, seed=0).train()
        model.loss(x.float() / 255, label).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for without, penalised in zip(*gradients, strict=True):
        assert not torch.allclose(without, penalised, rtol=1e-3, atol=0) or without.ndim == 1


def test_in_bfloat16_the_penalty_has_nearly_the_gradients_of_float32():
    x, target = images(32), torch.softmax(4 * drawn(32, 3, seed=2), 1)
    model = new_model(Duq(Smallcnn(4, 8), embedding=16, decay=0.9), x, 3, seed=0).train()
    optimiser, floats = Sgd(lr=0.01).build(model.parameters()), x.float() / 255

    def gradients(precision, penalty):
        model.settings = replace(model.settings, penalty=penalty)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model.loss(floats, target)
        loss.backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    for _ in range(20):  # away from the start, where the kernels are 0 and so are their slopes
        gradients("float32", 0.5)
        optimiser.step()
        model.after_step(floats, target)
    exact, short = (gradients(how, 0.5) - gradients(how, 0.0) for how in ("float32", "bfloat16"))
    assert float(exact.norm()) > 0
    assert float((exact - short).norm() / exact.norm()) < 0.1


def test_trap_loss_penalty_and_centroids_see_batch_norm_in_one_mode():
    """The centroids are moved by the very embeddings of the loss: batch norm runs once, in training mode."""
    x, label = images(16).float() / 255, torch.arange(16) % 3
    model = new_model(Duq(ResNet20(), embedding=4, decay=0.0), images(16), 3, seed=0).train()
    norm = next(part for part in model.modules() if isinstance(part, nn.BatchNorm2d))
    model.loss(x, label)
    seen = model._embedded.clone()
    model.after_step(x, label)
    assert int(norm.num_batches_tracked) == 1
    assert model.training
    expected = torch.stack([seen[label == k, k].mean(0) for k in range(3)])
    torch.testing.assert_close(model.centroids, expected)


def test_a_learned_length_scale_is_trained_and_a_fixed_one_is_not():
    x, target = drawn(24, 3), one_hot(torch.arange(24) % 2, 2).float()
    learned = trained(Duq(Linear(), embedding=4, learn_length_scale=True), x, target)
    assert float(learned.log_length_scale.detach().exp()) != pytest.approx(0.1)
    fixed = trained(Duq(Linear(), embedding=4), x, target)
    assert not any("length_scale" in name for name in fixed.state_dict())


def test_uncertainty_of_duq_grows_away_from_two_moons():
    x, label = two_moons()
    architecture = Duq(Mlp((64,), dropout=0.0), embedding=16, length_scale=0.3, decay=0.9, penalty=0.1)
    model = trained(architecture, x, one_hot(label, 2).float(), epochs=30, lr=0.01)
    with torch.no_grad():
        assert float((model.predict(x).logits.argmax(1) == label).float().mean()) > 0.95
        assert float(model.predict(FAR).uncertainty.min()) > 5 * float(model.predict(x).uncertainty.mean())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (TwiceDifferentiableBatchNorm(3), (4, 3, 2, 2)),
        (TwiceDifferentiableConv(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 5, 5)),
    ],
    ids=["batch norm", "convolution"],
)
def test_short_second_derivatives_are_right(layer, shape):
    torch.manual_seed(0)
    layer = copy.deepcopy(layer).double()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    def output(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    assert torch.autograd.gradcheck(output, (x, layer.weight, layer.bias))
    assert torch.autograd.gradgradcheck(output, (x, layer.weight, layer.bias))


def test_a_penalised_network_has_the_loss_and_gradients_of_pytorchs_own_layers():
    x, label = images(8), torch.arange(8) % 3
    fast = new_model(Duq(ResNet20(), embedding=4), x, 3, seed=0).double().train()
    slow = copy.deepcopy(fast)
    for part in slow.modules():
        if isinstance(part, TwiceDifferentiableConv | TwiceDifferentiableBatchNorm):
            part.__class__ = type(part).__bases__[0]
    for model in (fast, slow):
        model.loss(x.double() / 255, label).backward()
    for (name, one), other in zip(fast.named_parameters(), slow.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, msg=name)
    for one, other in zip(fast.buffers(), slow.buffers(), strict=True):
        torch.testing.assert_close(one, other)


# MC dropout


def test_predictions_are_the_mean_over_fixed_masks_however_many_go_in_one_pass(monkeypatch):
    model = new_model(McDropout(Smallcnn(4, 8), samples=5), images(4), 3, seed=0).eval()
    x = drawn(6, 3, 8, 8)
    single = []
    places = [part for part in model.modules() if isinstance(part, MaskedDropout)]
    assert len(places) == 2
    with torch.no_grad():
        for number in range(5):
            for place in places:
                place.masks = range(number, number + 1)
            single.append(torch.softmax(model.trunk(x), 1).double())
        for place in places:
            place.masks = range(0)
        for at_once in (1, 2**20):
            monkeypatch.setattr("dissensus.models.mc_dropout.VALUES_AT_ONCE", at_once)
            said = model.predict(x)
            mean = torch.stack(single).mean(0)
            torch.testing.assert_close(said.log_probs.exp(), mean, rtol=1e-4, atol=1e-6)
            entropies = -(torch.stack(single) * torch.stack(single).log()).sum(2)
            information = -(mean * mean.log()).sum(1) - entropies.mean(0)
            torch.testing.assert_close(said.uncertainty, information, rtol=1e-3, atol=1e-6)
    assert all(not place.masks for place in places)
    assert float(said.uncertainty.min()) > 0


def test_asking_a_dropout_model_twice_gives_the_same_and_leaves_the_random_state_alone():
    model = new_model(McDropout(Linear(), samples=4), drawn(5, 6), 2, seed=0).eval()
    state = torch.get_rng_state()
    assert torch.equal(model.predict(drawn(5, 6)).logits, model.predict(drawn(5, 6)).logits)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_curve_of_a_dropout_model_is_of_one_pass_without_masks():
    model = new_model(McDropout(Linear(), samples=4), drawn(5, 6), 2, seed=0).eval()
    assert torch.equal(model.preview(drawn(5, 6)).logits, model.trunk.predict(drawn(5, 6)).logits)
    assert not torch.equal(model.preview(drawn(5, 6)).logits, model.predict(drawn(5, 6)).logits)


def test_dropout_keeps_the_expectation_and_drops_whole_channels():
    layer, x = MaskedDropout(0.3, 0), torch.ones(4000, 5, 2, 2)
    with random.seeded(0, "dropout"):
        out = layer(x)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.02)
    assert bool((out == out[:, :, :1, :1]).all())
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.02)
    assert torch.equal(layer.eval()(x), x)


def test_a_residual_network_has_dropout_in_each_block_and_one_with_dropout_gets_the_new_rate():
    x = images(4)
    places = [p for p in new_model(McDropout(ResNet20()), x, 3, seed=0).modules() if isinstance(p, nn.Dropout)]
    assert [(type(place), place.p) for place in places] == [(MaskedDropout, 0.3)] * 9
    mlp = new_model(McDropout(Mlp((8, 8))), drawn(4, 3), 2, seed=0)
    assert [place.p for place in mlp.modules() if isinstance(place, nn.Dropout)] == [0.3, 0.3]


def test_parameter_counts_at_the_size_of_the_document():
    x, counts = torch.zeros(1, 3, 32, 32), {}
    for architecture in (ResNet20(), Sngp(), Duq(own_head=True), McDropout()):
        model = new_model(architecture, x, 10, seed=0)
        counts[type(architecture).__name__] = sum(parameter.numel() for parameter in model.parameters())
    assert counts == {"ResNet20": 272_474, "Sngp": 348_624, "Duq": 927_834, "McDropout": 272_474}
    assert sum(p.numel() for p in new_model(Sngp(), x, 10, seed=0).parameters() if not p.requires_grad) == 65 * 1024
