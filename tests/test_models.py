"""All architectures together: a new one is tested by being listed in ARCHITECTURES; SMALL may have a small size of it."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from dissensus import random
from dissensus.labels.delivery import Soft
from dissensus.labels.targets import Target
from dissensus.models import (
    ARCHITECTURES,
    Architecture,
    DenseNet,
    Duq,
    Linear,
    LinearHead,
    McDropout,
    Mlp,
    Normalise,
    PreactResNet,
    PyramidNet,
    ResNet,
    ResNet18,
    ResNet20,
    ResNeXt,
    ShakeShake,
    Smallcnn,
    Sngp,
    Speedy,
    Vgg,
    WideResNet,
    load_model,
    moments,
    new_model,
)
from dissensus.models.flops import architecture_flops, forward_flops
from dissensus.models.model import random_in_training
from dissensus.store import encoding
from dissensus.training.loop import Settings, fit
from dissensus.training.optimisers import Sgd
from dissensus.training.schedules import Constant

SHAPE = (3, 8, 8)
MEAN, STD = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])

SMALL: dict[str, Architecture] = {
    "resnet18": ResNet18(8),
    "vgg": Vgg((1, 1, 1), 8),
    "resnet": ResNet(8, 8),
    "wrn": WideResNet(10, 2, base=8),
    "resnet_preact": PreactResNet(11, 8),
    "resnext": ResNeXt(11, 2, 8),
    "densenet": DenseNet(16, 8),
    "pyramidnet": PyramidNet(8, 13, 8),
    "shake_shake": ShakeShake(8, 16, 8),
    "sngp": Sngp(ResNet(8, 8), features=128),
    "duq": Duq(ResNet(8, 8), embedding=32),
    "mc_dropout": McDropout(ResNet(8, 8), samples=4),
}
"""What is slow at its default size."""

ON_A_TRUNK = ("sngp", "duq", "mc_dropout")
MEMBERS = {name: SMALL.get(name) or kind() for name, kind in ARCHITECTURES.items()}
PLAIN = {name: member for name, member in MEMBERS.items() if name not in ON_A_TRUNK}

every_architecture = pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
every_plain_architecture = pytest.mark.parametrize("member", PLAIN.values(), ids=PLAIN)
"""Those with a linear head and a cross-entropy of it. The others have tests of their own: test_uncertainty.py."""


def build(architecture: Architecture, classes: int = 10, seed: int = 0, shape: tuple[int, ...] = SHAPE):
    with random.seeded(seed, "init"):
        return architecture.build(shape, classes, MEAN, STD)


def images(n: int) -> torch.Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1))


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_spec_names_are_those_of_the_papers_and_the_docs():
    older = ["linear", "mlp", "smallcnn", "resnet18", "resnet20", "speedy"]
    peterson = ["vgg", "resnet", "wrn", "resnet_preact", "resnext", "densenet", "pyramidnet", "shake_shake"]
    assert list(ARCHITECTURES) == [*older, *peterson, *ON_A_TRUNK]
    assert all(type(member) is ARCHITECTURES[name] for name, member in SMALL.items())


@every_architecture
def test_a_member_goes_through_a_spec_and_back(member):
    for architecture in (member, type(member)()):
        assert encoding.decode(encoding.encode(architecture), ARCHITECTURES) == architecture


def test_changed_fields_go_through_a_spec_too():
    for model in (Mlp((64, 32), dropout=0.0), Smallcnn(width=4, hidden=8), Speedy((8, 16), scale=0.5), ResNet18(8)):
        assert encoding.decode(encoding.encode(model), ARCHITECTURES) == model


@every_plain_architecture
@pytest.mark.parametrize("classes", [2, 10])
def test_the_loss_of_a_label_is_the_loss_of_its_one_hot(member, classes):
    model = build(member, classes).eval()
    labels = torch.arange(6) % classes
    one_hot = torch.nn.functional.one_hot(labels, classes).float()
    by_index, by_distribution = model.loss(images(6), labels), model.loss(images(6), one_hot)
    torch.testing.assert_close(by_index, by_distribution)
    expected = -model.predict(images(6)).log_probs[torch.arange(6), labels].mean()
    torch.testing.assert_close(by_index.double(), expected, rtol=1e-5, atol=1e-6)


@every_plain_architecture
def test_the_loss_of_a_distribution_is_its_mean_cross_entropy(member):
    model = build(member).eval()
    target = torch.softmax(torch.randn(6, 10, generator=torch.Generator().manual_seed(2)), 1)
    expected = -(target * model.predict(images(6)).log_probs).sum(1).mean()
    torch.testing.assert_close(model.loss(images(6), target).double(), expected, rtol=1e-5, atol=1e-6)


@every_plain_architecture
def test_logits_are_the_head_of_the_penultimate_features(member):
    model = build(member).eval()
    said = model.predict(images(5))
    assert said.logits.shape == (5, 10)
    assert said.features.shape == (5, model.head.in_features)
    assert torch.equal(said.logits, model.head(said.features))
    assert torch.equal(said.logits, model(images(5)))


@every_architecture
def test_in_eval_mode_a_prediction_does_not_depend_on_its_batch(member):
    model = build(member)
    model.loss(images(16), torch.arange(16) % 10).backward()  # so that batch norms have seen something
    model.eval()
    together = model.predict(images(9)).logits
    apart = torch.cat([model.predict(images(9)[i : i + 1]).logits for i in range(9)])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@every_plain_architecture
def test_training_and_evaluation_differ_exactly_where_there_is_dropout_or_batch_norm(member):
    model, x = build(member), images(6)
    told_apart = any(isinstance(part, (nn.Dropout, nn.BatchNorm2d)) for part in model.modules())
    with random.seeded(0, "dropout"):
        in_training = model.train().predict(x).logits
    assert torch.equal(in_training, model.eval().predict(x).logits) != told_apart


@every_architecture
def test_gradients_reach_the_pixels_and_every_parameter(member):
    model = build(member)
    x = images(8).requires_grad_()
    with random.seeded(0, "dropout"):
        model.loss(x, torch.arange(8)).backward()
    assert bool((x.grad.flatten(1).abs().sum(1) > 0).all())
    without = before_batch_norm(model)
    trained = {name: part for name, part in model.named_parameters() if part.requires_grad}  # SNGP's features are fixed
    for name, parameter in trained.items():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()) or name in without, name
    model.zero_grad()
    model.eval().loss(images(8), torch.arange(8)).backward()
    for name in without:  # in eval mode batch norm no longer subtracts the mean
        assert bool((trained[name].grad != 0).any()), name


def before_batch_norm(model: nn.Module) -> set[str]:
    """Names of the biases that batch norm takes away in training, up to rounding: those of VGG's convolutions."""
    parts = [(name, part) for name, part in model.named_modules() if not list(part.children())]
    pairs = pairwise(parts)
    convolutions = [
        (name, a) for (name, a), (_, b) in pairs if isinstance(a, nn.Conv2d) and isinstance(b, nn.BatchNorm2d)
    ]
    return {f"{name}.bias" for name, convolution in convolutions if convolution.bias is not None}


@every_architecture
def test_a_training_step_is_a_function_of_its_weights_batch_and_stream(member):
    gradients = []
    for stream in (0, 0, 1):
        model = build(member)
        with random.seeded(stream, "dropout"):
            model.loss(images(6), torch.arange(6)).backward()
        gradients.append(torch.cat([part.grad.flatten() for part in model.parameters() if part.requires_grad]))
    assert torch.equal(gradients[0], gradients[1])
    assert torch.equal(gradients[0], gradients[2]) != random_in_training(build(member))


@every_architecture
def test_training_leaves_the_global_generator_alone_and_does_not_depend_on_it(member):
    x, target = correlated_images(24), Target(torch.eye(10)[torch.arange(24) % 10].double(), torch.arange(24))
    settings, weights = Settings(Sgd(lr=0.01), Constant(), epochs=2, batch=12), []
    for state in (7, 8):
        model = new_model(member, x, 10, seed=0)
        torch.manual_seed(state)
        before = torch.get_rng_state()
        fit(model, x, Soft().labels(target, 0), settings, classes=10, seed=0, observe=lambda epoch, loss: None)
        assert torch.equal(torch.get_rng_state(), before)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@every_architecture
def test_a_saved_network_is_loaded_without_its_data_and_says_the_same(member, tmp_path):
    x = correlated_images(40)
    model, other = (new_model(member, x, 10, seed=seed) for seed in (0, 1))
    model.loss(images(16), torch.arange(16) % 10)  # so that batch norms have seen something
    assert not torch.equal(model.eval().predict(images(3)).logits, other.eval().predict(images(3)).logits)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    state = torch.get_rng_state()
    loaded = load_model(member, SHAPE, 10, load_file(tmp_path / "model.safetensors"))
    assert torch.equal(torch.get_rng_state(), state)
    assert not loaded.training
    assert torch.equal(model.predict(images(3)).logits, loaded.predict(images(3)).logits)


@every_architecture
def test_a_new_network_is_a_function_of_its_seed_and_its_training_inputs(member):
    torch.manual_seed(7)
    one = new_model(member, correlated_images(40), 10, seed=3).state_dict()
    torch.manual_seed(8)
    two = new_model(member, correlated_images(40), 10, seed=3).state_dict()
    other = new_model(member, correlated_images(40), 10, seed=4).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@every_plain_architecture
def test_inputs_are_normalised_by_their_own_moments_or_by_those_that_are_given(member):
    x = correlated_images(40)
    own = new_model(member, x, 10, seed=0).state_dict()
    assert torch.equal(own["normalise.mean"].flatten(), moments(x)[0])
    assert torch.equal(own["normalise.std"].flatten(), moments(x)[1])
    given = new_model(member, x, 10, seed=0, moments=((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))).state_dict()
    assert torch.equal(given["normalise.mean"].flatten(), torch.tensor((0.1, 0.2, 0.3)))
    assert torch.equal(given["normalise.std"].flatten(), torch.tensor((0.4, 0.5, 0.6)))


@every_plain_architecture
@pytest.mark.parametrize("side", [8, 32])
def test_the_last_stage_is_the_last_part_that_gives_a_map_and_none_where_there_is_no_map(member, side):
    model = build(member, shape=(3, side, side)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stage = model.last_stage
    assert list(before) == list(model.state_dict()), "the last stage must not be registered as a second part"
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    maps = []
    for part in model.body:
        part.register_forward_hook(lambda module, _, output: maps.append((module, output.shape)))
    model.predict(torch.rand(2, 3, side, side))
    spatial = [module for module, shape in maps if len(shape) == 4 and shape[2] * shape[3] > 1]
    assert stage is (spatial[-1] if spatial else None)


@every_plain_architecture
def test_the_cost_of_a_described_network_is_that_of_the_network(member):
    assert architecture_flops(member, SHAPE, 10) == forward_flops(build(member), SHAPE) > 0


@every_architecture
def test_a_few_steps_fit_a_small_batch(member):
    model = build(member)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, labels = images(8), torch.arange(8)
    with random.seeded(0, "dropout"):
        first = model.loss(x, labels).item()
        for _ in range(45):
            optimiser.zero_grad()
            model.loss(x, labels).backward()
            optimiser.step()
        assert model.loss(x, labels).item() < first / 2


@every_plain_architecture
def test_moments_of_the_inputs_are_buffers_and_not_trained(member):
    model = build(member)
    assert torch.equal(model.state_dict()["normalise.mean"].flatten(), MEAN)
    assert not any(name.startswith("normalise") for name, _ in model.named_parameters())


def test_resnets_have_the_published_numbers_of_parameters():
    shape = (3, 32, 32)
    assert parameters(ResNet18().build(shape, 10, MEAN, STD)) == 11_173_962
    assert parameters(ResNet20().build(shape, 10, MEAN, STD)) == 272_474
    shortcuts = [m for name, m in ResNet20().build(shape, 10, MEAN, STD).named_modules() if name.endswith("shortcut")]
    assert 272_474 - sum(map(parameters, shortcuts)) == 269_722


@pytest.mark.parametrize(("width", "count"), [(64, 11_173_962), (16, 701_466), (8, 176_402)])
def test_a_narrower_resnet18_has_fewer_parameters(width, count):
    assert parameters(ResNet18(width).build((3, 32, 32), 10, MEAN, STD)) == count


def test_resnets_keep_the_resolution_in_the_stem_and_halve_it_between_stages():
    for model, depth, last in ((ResNet18(), 4, 512), (ResNet20(), 3, 64)):
        body = model.build((3, 32, 32), 10, MEAN, STD).body
        x = torch.rand(1, 3, 32, 32)
        for layer in list(body)[:3]:  # convolution, norm, ReLU
            x = layer(x)
        assert x.shape[2:] == (32, 32)
        for layer in list(body)[3:-2]:
            x = layer(x)
        assert x.shape[1:] == (last, 32 // 2 ** (depth - 1), 32 // 2 ** (depth - 1))


def correlated_images(n: int) -> torch.Tensor:
    """Bytes whose neighbours and channels resemble each other, as in photographs."""
    rough = torch.rand(n, 1, 12, 12, generator=torch.Generator().manual_seed(4))
    smooth = torch.nn.functional.avg_pool2d(rough, 5, stride=1)
    noise = torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(5))
    return ((0.9 * smooth + 0.1 * noise) * 255).to(torch.uint8)


def test_the_stem_of_speedy_makes_patches_of_its_training_images_white():
    model, x = build(Speedy()), correlated_images(700)
    model.prepare(x)
    patches = model.body[0](model.normalise(x.float() / 255)).detach().movedim(1, 3).flatten(0, 2).double()
    half = patches[:, :12]
    torch.testing.assert_close(patches[:, 12:], -half, rtol=0, atol=1e-5)
    second_moment = half.T @ half / len(half)
    variances = second_moment.diagonal()
    torch.testing.assert_close(second_moment - variances.diag(), torch.zeros_like(second_moment), rtol=0, atol=1e-3)
    plain = model.normalise(x.float() / 255)
    by_hand = torch.stack([plain[:, c, i : i + 7, j : j + 7].flatten() for c in range(3) for i in (0, 1) for j in (0, 1)])
    eigenvalues = torch.linalg.eigvalsh((by_hand @ by_hand.T / by_hand.shape[1]).double())
    torch.testing.assert_close(variances, eigenvalues / (eigenvalues + 5e-4), rtol=1e-3, atol=1e-3)


def test_the_stem_of_speedy_is_a_function_of_the_training_images_alone_and_is_not_trained():
    one, other = build(Speedy(), seed=0), build(Speedy(), seed=1)
    for model in (one, other):
        model.prepare(correlated_images(50))
    assert torch.equal(one.body[0].weight, other.body[0].weight)
    other.prepare(correlated_images(50).flip(0))
    torch.testing.assert_close(one.body[0].weight, other.body[0].weight)
    other.prepare(correlated_images(50).float() / 255)
    torch.testing.assert_close(one.body[0].weight, other.body[0].weight)
    assert not any(name == "body.0.weight" for name, _ in one.named_parameters())
    assert "body.0.weight" in one.state_dict()


def test_the_convolutions_of_speedy_start_by_passing_their_inputs_on():
    x = torch.rand(2, 12, 5, 5)
    first, second = [part for part in build(Speedy((16, 8))).body if isinstance(part, nn.Conv2d)][1:3]
    assert torch.equal(first(x.repeat(1, 2, 1, 1)[:, :16]), x.repeat(1, 2, 1, 1)[:, :16])
    assert torch.equal(second(x.repeat(1, 2, 1, 1)[:, :16]), x[:, :8])


def test_speedy_halves_the_image_in_every_stage_and_takes_the_largest_of_what_is_left():
    model = Speedy((8, 16, 24)).build((3, 32, 32), 10, MEAN, STD)
    sizes, x = [], torch.rand(1, 3, 32, 32)
    for layer in model.body:
        x = layer(x)
        sizes += [tuple(x.shape[1:])] if isinstance(layer, nn.MaxPool2d) else []
    assert sizes == [(8, 15, 15), (16, 7, 7), (24, 3, 3)]
    assert x.shape == (1, 24)


def test_a_head_multiplies_its_logits_by_its_scale():
    features = torch.rand(4, 128)
    plain, scaled = (build(Speedy(scale=scale)).head(features) for scale in (1.0, 0.25))
    torch.testing.assert_close(scaled, plain / 4)
    assert build(Speedy()).head.bias is None
    with_bias = LinearHead(128, 3, scale=0.5)
    torch.testing.assert_close(with_bias(features), 0.5 * (features @ with_bias.weight.T + with_bias.bias))


def test_the_head_on_frozen_embeddings_is_as_printed():
    model = Mlp().build((384,), 5, torch.zeros(384), torch.ones(384))
    assert [type(layer).__name__ for layer in model.body] == ["Flatten", "Linear", "GELU", "Dropout"]
    assert isinstance(model.head, LinearHead)
    assert model.head.scale == 1
    assert parameters(model) == 384 * 256 + 256 + 256 * 5 + 5
    assert model.body[3].p == 0.2


def test_features_are_normalised_one_by_one():
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0, 0.1]) + 5
    mean, std = moments(x)
    out = Normalise((3,), mean, std)(x)
    torch.testing.assert_close(out, (x - x.mean(0)) / x.std(0, correction=0))
    said = Linear().build((3,), 2, mean, std).predict(x)
    torch.testing.assert_close(said.features, out)


def test_images_are_normalised_channel_by_channel():
    x = images(4)
    by_hand = torch.stack([(x[:, c] - MEAN[c]) / STD[c] for c in range(3)], 1)
    torch.testing.assert_close(Normalise(SHAPE, MEAN, STD)(x), by_hand)


def test_moments_of_bytes_are_those_of_what_the_model_sees():
    x = torch.randint(0, 256, (20, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = moments(x)
    seen = x.double() / 255
    torch.testing.assert_close(mean.double(), seen.mean((0, 2, 3)), rtol=1e-6, atol=0)
    torch.testing.assert_close(std.double(), seen.std((0, 2, 3), correction=0), rtol=1e-6, atol=0)


def test_a_constant_feature_is_centred_and_not_divided_by_zero():
    mean, std = moments(torch.full((10, 2), 7.0))
    assert mean.tolist() == [7.0, 7.0]
    assert std.tolist() == [1.0, 1.0]


def test_moments_that_do_not_fit_the_inputs_are_refused():
    with pytest.raises(ValueError, match="need 3 means"):
        Normalise(SHAPE, torch.zeros(1), torch.ones(1))


def test_a_head_that_does_not_standardise_sees_its_features_as_they_are():
    x, mean, std = torch.randn(7, 5), torch.full((5,), 3.0), torch.full((5,), 0.1)
    torch.manual_seed(0)
    raw = Mlp(standardise=False).build((5,), 3, mean, std).eval()
    torch.manual_seed(0)
    neutral = Mlp().build((5,), 3, torch.zeros(5), torch.ones(5)).eval()
    assert torch.equal(raw(x), neutral(x))
