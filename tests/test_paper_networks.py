"""The networks of Peterson et al. 2019: sizes as published; Shake-Shake against a naive twin, a test per trap."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn
from torch.nn.functional import batch_norm, conv2d, linear, pad

from dissensus import random
from dissensus.cli import cli
from dissensus.errors import InputError
from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Target
from dissensus.models import (
    ARCHITECTURES,
    DenseNet,
    Mlp,
    PreactResNet,
    PyramidNet,
    ResNet,
    ResNet20,
    ResNeXt,
    ShakeShake,
    Vgg,
    WideResNet,
    load_model,
    new_model,
)
from dissensus.models.listing import list_models, size_of
from dissensus.models.shake_shake import Shake
from dissensus.training.loop import Settings, fit
from dissensus.training.optimisers import Sgd
from dissensus.training.schedules import Constant

# Parameters for ten classes and FLOPs of one 32×32 image, of the modules of pytorchcv 0.0.74 under torch's FLOP counter:
# resnet110_cifar10, wrn28_10_cifar10, preresnet164bn_cifar10, get_resnext_cifar(29, 8, 64), densenet100_k12_bc_cifar10,
# pyramidnet110_a270_cifar10, get_shakeshakeresnet_cifar(26, 64), and the features of bn_vgg16b with Linear(512, 10).
# With weights copied, small sizes of the first six of them also gave the same logits.
ORACLE = {
    ResNet(): (1_730_714, 506_299_648),
    WideResNet(): (36_479_194, 10_486_657_536),
    PreactResNet(): (1_703_258, 495_293_440),
    ResNeXt(): (34_426_698, 10_774_532_096),
    DenseNet(): (769_162, 575_859_384),
    PyramidNet(): (28_485_477, 9_435_967_448),
    ShakeShake(): (11_653_978, 3_371_013_120),
    Vgg(): (14_728_266, 626_403_328),
    ShakeShake(width=32): (2_923_162, 853_379_584),
    ResNet20(): (272_474, 81_626_368),
}

PRINTED = {  # millions of parameters, as the papers round them
    ResNet(): 1.7,
    WideResNet(): 36.5,
    PreactResNet(): 1.7,
    ResNeXt(): 34.4,
    DenseNet(): 0.8,
    ShakeShake(): 11.7,
}


def name_of(value: object) -> str:
    return type(value).__name__ if not isinstance(value, tuple) else ""


@pytest.mark.parametrize(("architecture", "size"), ORACLE.items(), ids=name_of)
def test_parameters_and_flops_are_those_of_an_independent_implementation(architecture, size):
    assert size_of(architecture) == size


@pytest.mark.parametrize(("architecture", "millions"), PRINTED.items(), ids=name_of)
def test_parameters_round_to_what_the_paper_prints(architecture, millions):
    assert round(size_of(architecture)[0] / 1e6, 1) == millions


def test_where_the_repository_of_peterson_differs_its_size_can_be_had():
    narrow, wide = size_of(PreactResNet(widen_first=False))[0], size_of(ShakeShake(stem=64))[0]
    assert (narrow, wide) == (1_619_290, 11_709_514)


def test_sizes_on_the_meta_device_are_those_of_a_real_network():
    small = DenseNet(16, 4)
    model = new_model(small, torch.zeros(1, 3, 32, 32), 10, seed=0)
    assert size_of(small)[0] == sum(part.numel() for part in model.parameters())
    assert all(part.device.type == "cpu" for part in model.parameters())


def test_resnet20_is_the_resnet_of_depth_20():
    x = torch.zeros(1, 3, 8, 8)
    old, new = (new_model(member, x, 10, seed=3).state_dict() for member in (ResNet20(), ResNet(20)))
    assert list(old) == list(new)
    assert all(torch.equal(old[name], new[name]) for name in old)


@pytest.mark.parametrize(
    ("architecture", "fitting"),
    [
        (ResNet(21), "8, 14, 20"),
        (WideResNet(27), "10, 16, 22"),
        (PreactResNet(100), "11, 20, 29"),
        (ResNeXt(2), "11, 20, 29"),
        (DenseNet(99), "10, 16, 22"),
        (PyramidNet(111), "8, 14, 20"),
        (ShakeShake(2), "8, 14, 20"),
    ],
    ids=name_of,
)
def test_a_depth_that_does_not_fit_is_refused_with_depths_that_do(architecture, fitting):
    with pytest.raises(InputError, match=fitting):
        new_model(architecture, torch.zeros(1, 3, 8, 8), 10, seed=0)


def test_a_pyramid_grows_by_equal_steps():
    body = new_model(PyramidNet(), torch.zeros(1, 3, 8, 8), 10, seed=0).body
    assert [part.conv2.out_channels for part in body if hasattr(part, "conv2")] == list(range(21, 287, 5))


# Shake-Shake


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def shaken(seed: int = 0, stem: int = 6) -> nn.Module:
    """A small Shake-Shake in float64 whose batch norms have something to do."""
    model = new_model(ShakeShake(8, 8, stem), torch.zeros(1, 3, 8, 8), 4, seed=seed).double()
    stream = torch.Generator().manual_seed(seed)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            for value in (part.running_mean, part.bias.data):
                value.copy_(torch.randn(value.shape, generator=stream))
            for value in (part.running_var, part.weight.data):
                value.copy_(0.5 + torch.rand(value.shape, generator=stream))
    return model


def naive(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The author's network in eval mode, written down layer by layer from his Lua code."""
    weights = iter(
        [part for part in model.body.modules() if isinstance(part, nn.Conv2d | nn.BatchNorm2d)]
    )  # in the order of registration: stem; per block branch 1, branch 2, shortcut

    def conv(x: torch.Tensor, stride: int = 1) -> torch.Tensor:
        weight = next(weights).weight
        return conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    def norm(x: torch.Tensor) -> torch.Tensor:
        part = next(weights)
        return batch_norm(x, part.running_mean, part.running_var, part.weight, part.bias)

    x = norm(conv((x - model.normalise.mean) / model.normalise.std))  # no ReLU here
    for stride, projected in ((1, model.body[0].out_channels != 8), (2, True), (2, True)):
        branches = [norm(conv(norm(conv(x.relu(), stride)).relu())) for _ in range(2)]
        skip = x  # without a ReLU
        if projected:
            first, second = next(weights).weight, next(weights).weight
            shifted = pad(x.relu()[:, :, :-1, :-1], (1, 0, 1, 0))
            sides = [conv2d(side[:, :, ::stride, ::stride], w) for side, w in ((x.relu(), first), (shifted, second))]
            skip = norm(torch.cat(sides, 1))
        x = skip + branches[0] / 2 + branches[1] / 2
    assert next(weights, None) is None
    return linear(x.relu().mean((2, 3)), model.head.weight, model.head.bias)


@pytest.mark.parametrize("stem", [6, 8])
def test_shake_shake_has_the_relus_and_batch_norms_of_its_author_and_takes_the_mean_in_eval_mode(stem):
    model, x = shaken(stem=stem).eval(), drawn(3, 3, 8, 8)
    torch.testing.assert_close(model(x), naive(model, x), rtol=1e-10, atol=1e-10)


def test_in_eval_mode_nothing_is_drawn():
    shake, first, second = Shake().eval(), drawn(4, 2, 3, 3), drawn(4, 2, 3, 3, seed=1)
    before = torch.get_rng_state()
    torch.testing.assert_close(shake(first, second), (first + second) / 2)
    assert torch.equal(torch.get_rng_state(), before)


def weights_of_a_pass(n: int = 4000) -> tuple[torch.Tensor, ...]:
    """What a shake weighed its two inputs by, ahead and back, per image."""
    first = torch.zeros(n, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    second = torch.ones(n, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    with random.seeded(0, "dropout"):
        out = Shake()(first, second)
    out.sum().backward()
    for values in (out, first.grad, second.grad):  # one weight for the whole image
        assert torch.equal(values, values[:, :1, :1, :1].expand_as(values))
    ahead_of_second, back_of_first, back_of_second = (v[:, 0, 0, 0].detach() for v in (out, first.grad, second.grad))
    return 1 - ahead_of_second, ahead_of_second, back_of_first, back_of_second


def test_in_training_both_passes_weigh_each_image_by_a_uniform_draw_of_its_own_and_the_draws_are_independent():
    ahead_first, ahead_second, back_first, back_second = weights_of_a_pass()
    torch.testing.assert_close(ahead_first + ahead_second, torch.ones_like(ahead_first))
    torch.testing.assert_close(back_first + back_second, torch.ones_like(back_first))
    for draws in (ahead_first, back_first):
        assert len(draws.unique()) > 3900, "a weight per image"
        deviation = (draws.sort().values - torch.linspace(0, 1, len(draws), dtype=draws.dtype)).abs().max()
        assert float(deviation) < 0.03, "uniform in [0, 1]"
    assert abs(float(torch.corrcoef(torch.stack([ahead_first, back_first]))[0, 1])) < 0.06
    assert not torch.equal(ahead_first, back_first)


def test_the_mean_over_many_passes_in_training_is_the_prediction_in_eval_mode():
    shake, first, second = Shake(), drawn(1, 2, 3, 3), drawn(1, 2, 3, 3, seed=1)
    with random.seeded(0, "dropout"):
        many = shake(first.expand(20_000, -1, -1, -1), second.expand(20_000, -1, -1, -1)).mean(0)
    torch.testing.assert_close(many, shake.eval()(first, second)[0], rtol=0, atol=0.03)


def test_shake_shake_shakes_in_training_even_where_its_batch_norms_are_frozen_and_never_in_eval_mode():
    model, x = shaken().train(), drawn(3, 3, 8, 8)
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.eval()
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


def test_every_block_draws_for_itself():
    seen = []
    model = shaken().train()
    shakes = [part for part in model.modules() if isinstance(part, Shake)]
    assert len(shakes) == 3
    for shake in shakes:
        shake.register_forward_hook(lambda _, given, out: seen.append((given, out)))
    model(drawn(5, 3, 8, 8))
    ahead = [((out - second) / (first - second)).flatten(1).median(1).values for (first, second), out in seen]
    assert not torch.allclose(ahead[0], ahead[1])
    assert not torch.allclose(ahead[1], ahead[2])


def test_a_second_derivative_of_shake_meets_the_draws_of_the_first():
    first, second = drawn(3, 2, 2, 2).requires_grad_(), drawn(3, 2, 2, 2, seed=1).requires_grad_()
    out = Shake()(first, second)
    (back,) = torch.autograd.grad(out.sum(), first, retain_graph=True)
    (slope,) = torch.autograd.grad(out.square().sum(), first, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), first)
    torch.testing.assert_close(curvature, 2 * back.square())


def test_a_shake_shake_that_goes_on_inside_an_epoch_ends_with_the_same_bits():
    x = (torch.rand(20, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 255).to(torch.uint8)
    labels = Soft().labels(Target(torch.eye(4, dtype=torch.float64)[torch.arange(20) % 4], torch.arange(20)), 0)
    settings, architecture = Settings(Sgd(lr=0.05), Constant(), epochs=3, batch=5), ShakeShake(8, 8, 4)

    def train(model, **more):
        fit(model, x, labels, settings, classes=4, seed=0, observe=lambda epoch, loss: None, **more)
        return model.state_dict()

    unbroken = train(new_model(architecture, x, 4, seed=0))
    model, saved = new_model(architecture, x, 4, seed=0), {}

    def save_and_stop(snapshot):
        state = snapshot()
        if (state.epoch, state.step) == (1, 2):
            saved.update(state=state, weights=copy.deepcopy(model.state_dict()))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(model, pause=save_and_stop)
    torch.manual_seed(5)  # whoever drew in between
    resumed = train(load_model(architecture, (3, 8, 8), 4, saved["weights"]), state=saved["state"])
    assert all(torch.equal(unbroken[name], resumed[name]) for name in unbroken)


# dissensus models


class Featureless:
    """Somebody's architecture that has no defaults."""

    def __init__(self, trunk: object) -> None:
        self.trunk = trunk


def test_the_command_lists_every_model_with_its_measured_size(capsys):
    cli(["models"], standalone_mode=False)
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:]}
    assert list(rows) == list(ARCHITECTURES)
    for architecture, (parameters, flops) in ORACLE.items():
        name = next(name for name, kind in ARCHITECTURES.items() if kind is type(architecture))
        if architecture == ARCHITECTURES[name]():
            assert rows[name].split()[1:3] == [f"{parameters:,}", f"{flops:,}"]
    assert "wrn_28_10" in rows["wrn"]
    cli(["models", "--json"], standalone_mode=False)
    listed = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in listed] == list(ARCHITECTURES)
    assert all(row["parameters"] > 0 and row["flops"] > 0 for row in listed)
    assert listed[list(ARCHITECTURES).index("resnext")]["settings"] == {
        "name": "resnext",
        "depth": 29,
        "groups": 8,
        "width": 64,
    }


def test_an_architecture_without_defaults_is_listed_without_a_size():
    (unknown, mlp) = list_models({"featureless": Featureless, "mlp": Mlp}, shape=(7,), classes=3)
    assert (unknown.name, unknown.parameters, unknown.flops) == ("featureless", None, None)
    assert mlp.parameters == 7 * 256 + 256 + 256 * 3 + 3
