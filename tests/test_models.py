"""All models together: a new member is tested by being listed in MODELS."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

from dissensus import random
from dissensus.models import MODELS, Linear, Mlp, Model, Normalise, ResNet18, ResNet20, Smallcnn, Speedy, moments
from dissensus.store import encoding

SHAPE = (3, 8, 8)
MEAN, STD = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])

every_model = pytest.mark.parametrize("member", MODELS.values(), ids=MODELS)


def build(model: Model, classes: int = 10, seed: int = 0):
    with random.seeded(seed, "init"):
        return model.build(SHAPE, classes, MEAN, STD)


def images(n: int) -> torch.Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(1))


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_spec_names_are_those_of_the_papers_and_the_docs():
    assert list(MODELS) == ["linear", "mlp", "smallcnn", "resnet18", "resnet20", "speedy"]


@every_model
def test_a_member_goes_through_a_spec_and_back(member):
    assert encoding.decode(encoding.encode(member()), MODELS) == member()


def test_changed_fields_go_through_a_spec_too():
    for model in (Mlp(hidden=(64, 32), dropout=0.0), Smallcnn(width=4, hidden=8), Speedy((8, 16), scale=0.5)):
        assert encoding.decode(encoding.encode(model), MODELS) == model


@every_model
@pytest.mark.parametrize("classes", [2, 10])
def test_the_loss_of_a_label_is_the_loss_of_its_one_hot(member, classes):
    model = build(member(), classes).eval()
    labels = torch.arange(6) % classes
    one_hot = torch.nn.functional.one_hot(labels, classes).float()
    by_index, by_distribution = model.loss(images(6), labels), model.loss(images(6), one_hot)
    torch.testing.assert_close(by_index, by_distribution)
    expected = -model.predict(images(6)).log_probs[torch.arange(6), labels].mean()
    torch.testing.assert_close(by_index.double(), expected, rtol=1e-5, atol=1e-6)


@every_model
def test_the_loss_of_a_distribution_is_its_mean_cross_entropy(member):
    model = build(member()).eval()
    target = torch.softmax(torch.randn(6, 10, generator=torch.Generator().manual_seed(2)), 1)
    expected = -(target * model.predict(images(6)).log_probs).sum(1).mean()
    torch.testing.assert_close(model.loss(images(6), target).double(), expected, rtol=1e-5, atol=1e-6)


@every_model
def test_logits_are_the_head_of_the_penultimate_features(member):
    model = build(member()).eval()
    said = model.predict(images(5))
    assert said.logits.shape == (5, 10)
    assert said.features.shape == (5, model.head.in_features)
    assert torch.equal(said.logits, model.head(said.features))
    assert torch.equal(said.logits, model(images(5)))


@every_model
def test_in_eval_mode_a_prediction_does_not_depend_on_its_batch(member):
    model = build(member())
    model.loss(images(16), torch.arange(16) % 10).backward()  # so that batch norms have seen something
    model.eval()
    together = model.predict(images(9)).logits
    apart = torch.cat([model.predict(images(9)[i : i + 1]).logits for i in range(9)])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


@every_model
def test_gradients_reach_the_pixels_and_every_parameter(member):
    model = build(member())
    x = images(8).requires_grad_()
    model.loss(x, torch.arange(8)).backward()
    assert bool((x.grad.flatten(1).abs().sum(1) > 0).all())
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


@every_model
def test_weights_go_through_safetensors_and_back(member, tmp_path):
    model, other = build(member(), seed=0), build(member(), seed=1)
    assert not torch.equal(model.eval()(images(3)), other.eval()(images(3)))
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(model(images(3)), other(images(3)))


@every_model
def test_the_same_seed_gives_the_same_weights(member):
    one, two = build(member(), seed=3), build(member(), seed=3)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@every_model
def test_a_few_steps_fit_a_small_batch(member):
    model = build(member())
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, labels = images(8), torch.arange(8)
    first = model.loss(x, labels).item()
    for _ in range(45):
        optimiser.zero_grad()
        model.loss(x, labels).backward()
        optimiser.step()
    assert model.loss(x, labels).item() < first / 2


@every_model
def test_moments_of_the_inputs_are_buffers_and_not_trained(member):
    model = build(member())
    assert torch.equal(model.state_dict()["normalise.mean"].flatten(), MEAN)
    assert not any(name.startswith("normalise") for name, _ in model.named_parameters())


def test_resnets_have_the_published_numbers_of_parameters():
    shape = (3, 32, 32)
    assert parameters(ResNet18().build(shape, 10, MEAN, STD)) == 11_173_962
    assert parameters(ResNet20().build(shape, 10, MEAN, STD)) == 272_474
    shortcuts = [m for name, m in ResNet20().build(shape, 10, MEAN, STD).named_modules() if name.endswith("shortcut")]
    assert 272_474 - sum(map(parameters, shortcuts)) == 269_722


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
    first, second = [part for part in build(Speedy((16, 8))).body if isinstance(part, torch.nn.Conv2d)][1:3]
    assert torch.equal(first(x.repeat(1, 2, 1, 1)[:, :16]), x.repeat(1, 2, 1, 1)[:, :16])
    assert torch.equal(second(x.repeat(1, 2, 1, 1)[:, :16]), x[:, :8])


def test_speedy_halves_the_image_in_every_stage_and_takes_the_largest_of_what_is_left():
    model = Speedy((8, 16, 24)).build((3, 32, 32), 10, MEAN, STD)
    sizes, x = [], torch.rand(1, 3, 32, 32)
    for layer in model.body:
        x = layer(x)
        sizes += [tuple(x.shape[1:])] if isinstance(layer, torch.nn.MaxPool2d) else []
    assert sizes == [(8, 15, 15), (16, 7, 7), (24, 3, 3)]
    assert x.shape == (1, 24)


def test_the_logits_of_speedy_are_scaled():
    features = torch.rand(4, 128)
    plain, scaled = (build(Speedy(scale=scale)).head(features) for scale in (1.0, 0.25))
    torch.testing.assert_close(scaled, plain / 4)


def test_the_head_of_002_is_as_printed():
    model = Mlp().build((384,), 5, torch.zeros(384), torch.ones(384))
    kinds = [type(layer).__name__ for layer in (*model.body, model.head)]
    assert kinds == ["Flatten", "Linear", "GELU", "Dropout", "LinearHead"]
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
