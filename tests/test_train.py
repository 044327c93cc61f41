import copy
import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from crowds import crowd
from dissensus import random
from dissensus.errors import InputError
from dissensus.labels.delivery import Multipass, Sampled, Soft
from dissensus.labels.mixing import Cutmix, Mixup
from dissensus.labels.targets import Empirical
from dissensus.models import Mlp, Model, Smallcnn, Speedy, new_model
from dissensus.training.augmentation import CropFlip, InTurn
from dissensus.training.averaging import Ema
from dissensus.training.distortions import Jitter
from dissensus.training.loop import Settings, fit
from dissensus.training.muon import Muon
from dissensus.training.optimisers import Adam, AdamW, Sgd
from dissensus.training.schedules import Constant, Cosine, EarlyStopping, LinearDecay, Plateau

DATA = crowd(items=60, classes=4)
IMAGES = crowd(items=60, classes=4, images=True)


def model_for(data, rule, seed=0):
    return new_model(rule, data.x, 4, seed=seed)


SMALL, SOFT = Mlp(hidden=(16,)), Soft()


def trained(data=DATA, rule=SMALL, delivery=SOFT, seed=0, settings=None, model=None, observe=None, **more):
    settings = settings or Settings(Sgd(lr=0.05), Cosine(), epochs=4, batch=16)
    model = model or model_for(data, rule, seed)
    labels = delivery.labels(Empirical().target(data, torch.arange(len(data)), seed=0), seed)
    losses = []
    observe = observe or (lambda epoch, loss: losses.append(loss))
    state = fit(model, data.x, labels, settings, classes=4, seed=seed, observe=observe, **more)
    return model, losses, state


def weights(model):
    return torch.cat([value.reshape(-1).float() for value in model.state_dict().values()])


def test_the_loop_takes_the_steps_that_a_plain_loop_takes():
    model = model_for(DATA, Mlp(hidden=(16,), dropout=0.0))
    plain = copy.deepcopy(model)
    trained(rule=None, model=model, delivery=Sampled())
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    labels = Sampled().labels(Empirical().target(DATA, torch.arange(60), seed=0), 0)
    for epoch in range(4):
        order = torch.randperm(60, generator=random.generator(0, "order", epoch))
        for step, rows in enumerate(order.split(16)):
            optimiser.param_groups[0]["lr"] = 0.05 * 0.5 * (1 + math.cos(math.pi * (epoch + step / 4) / 4))
            optimiser.zero_grad()
            cross_entropy(plain(DATA.x[rows]), labels(epoch)[rows]).backward()
            optimiser.step()
    assert torch.allclose(weights(model), weights(plain), atol=1e-6)


def test_the_reported_loss_is_the_mean_over_items_with_the_last_partial_batch():
    settings = Settings(Sgd(lr=0.0, weight_decay=0.0), Constant(), epochs=1, batch=25)
    model, losses, _ = trained(rule=Mlp(hidden=(16,), dropout=0.0), settings=settings)
    people = Empirical().target(DATA, torch.arange(60), seed=0).probs.float()
    assert math.isclose(losses[0], cross_entropy(model(DATA.x), people).item(), rel_tol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(Sgd(lr=0.05), Cosine(), epochs=5, batch=16),
        Settings(Adam(), Cosine(warmup=1), epochs=5, batch=16, mixing=Mixup()),
        Settings(AdamW(), Constant(), epochs=5, batch=16, mixing=Cutmix(), augment=CropFlip(padding=1)),
        Settings(Sgd(lr=0.05, nesterov=True), LinearDecay(warmup=1), epochs=5, batch=16, averaging=Ema(0.5)),
        Settings(Muon(), LinearDecay(warmup=1), epochs=5, batch=16, augment=InTurn((CropFlip(padding=1), Jitter()))),
    ],
    ids=["sgd", "adam mixup", "adamw cutmix crop", "nesterov averaged", "muon jitter"],
)
@pytest.mark.parametrize("delivery", [Soft(), Sampled(), Multipass()])
def test_a_run_that_goes_on_from_a_saved_state_ends_with_the_same_bits(settings, delivery):
    data, rule = (
        (IMAGES, Smallcnn(width=4, hidden=8)) if settings.augment != Settings.augment else (DATA, Mlp(hidden=(16,)))
    )
    unbroken, losses, _ = trained(data, rule, delivery, settings=settings)
    for stop in ((1, 0), (2, 3), (3, 4), (4, 1)):  # (epoch, step): between epochs, inside one, before it is observed
        model, saved, seen = model_for(data, rule), {}, []

        def save_and_stop(snapshot, stop=stop, model=model, saved=saved):
            state = snapshot()
            if (state.epoch, state.step) == stop:
                saved.update(state=state, weights=copy.deepcopy(model.state_dict()))
                raise InterruptedError

        note = lambda epoch, loss, seen=seen: seen.append(loss)  # noqa: E731
        with pytest.raises(InterruptedError):
            trained(data, rule, delivery, settings=settings, model=model, pause=save_and_stop, observe=note)
        resumed = model_for(data, rule, seed=99)
        resumed.load_state_dict(saved["weights"])
        trained(data, rule, delivery, settings=settings, model=resumed, state=saved["state"], observe=note)
        assert torch.equal(weights(unbroken), weights(resumed))
        assert seen == losses


def every_step(model, settings, **more):
    """The weights and statistics after each step, and what the model had when it was observed and at the end."""
    steps, observed = [], []

    def note(snapshot):
        steps.append(copy.deepcopy(model.state_dict()))

    def observe(epoch, loss):
        observed.append(copy.deepcopy(model.state_dict()))

    trained(IMAGES, model=model, settings=settings, pause=note, observe=observe, **more)
    inside = [one for at, one in enumerate(steps) if at % 5 != 4]  # of 5 calls an epoch the last is between epochs
    return inside, observed, model.state_dict()


def same(one, other, **tolerance):
    return all(torch.allclose(one[name].double(), other[name].double(), **tolerance) for name in one)


def test_averaged_weights_are_the_weighted_mean_of_all_steps_and_batch_norm_statistics_too():
    settings = Settings(Sgd(lr=0.05), Constant(), epochs=3, batch=16, averaging=Ema(1.5))
    steps, observed, last = every_step(model_for(IMAGES, Speedy((4, 4))), settings)
    assert len(steps) == 12  # 4 an epoch: the memory is 6 steps
    mean, stays = None, math.exp(-1 / 6)
    for n, step in enumerate(steps, 1):
        rate = max(1 - stays, 1 / n)
        real = {name: value.double() for name, value in step.items() if value.is_floating_point()}
        mean = real if mean is None else {name: mean[name] + rate * (real[name] - mean[name]) for name in real}
        if n % 4 == 0:
            assert same(mean, observed[n // 4 - 1], atol=1e-6)
    assert same(mean, last, atol=1e-6)
    assert any("running_var" in name for name in mean)
    assert not same(steps[-1], last, atol=1e-3)


def test_averaging_does_not_change_the_steps():
    plain = Settings(Sgd(lr=0.05), Constant(), epochs=3, batch=16)
    steps, _, _ = every_step(model_for(IMAGES, Speedy((4, 4))), plain)
    beside, _, _ = every_step(model_for(IMAGES, Speedy((4, 4))), replace(plain, averaging=Ema(2.0)))
    assert all(same(a, b, atol=0, rtol=0) for a, b in zip(steps, beside, strict=True))


class Wrapped(Model):
    """A network that hands everything on to another."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def loss(self, x, target):
        return self.inner.loss(x, target)

    def predict(self, x):
        return self.inner.predict(x)


def test_only_the_delivered_labels_differ_between_two_deliveries():
    seen = {}

    class Spy(Wrapped):
        def __init__(self, name):
            super().__init__(model_for(IMAGES, Smallcnn(width=4, hidden=8)))
            self.name = name
            seen[name] = [weights(self.inner)]

        def loss(self, x, target):
            seen[self.name].append(x.clone())
            return super().loss(x, target)

    settings = Settings(Sgd(lr=0.0, weight_decay=0.0), Cosine(), epochs=2, batch=16, augment=CropFlip(padding=1))
    for delivery in (Soft(), Sampled(), Multipass()):
        trained(IMAGES, delivery=delivery, settings=settings, model=Spy(type(delivery).__name__))
    initial, *batches = seen["Soft"]
    for other in ("Sampled", "Multipass"):
        assert torch.equal(initial, seen[other][0])
        assert all(torch.equal(a, b) for a, b in zip(batches, seen[other][1:], strict=True))


@dataclass(frozen=True)
class Noting:
    """An architecture whose networks note in `calls` which hook was called with what."""

    calls: list

    def build(self, shape, classes, mean, std):
        calls = self.calls

        class Hooked(Wrapped):
            def prepare(self, x):
                calls.append(("prepare", len(x)))

            def start_epoch(self):
                calls.append("epoch")

            def after_step(self, x, target):
                calls.append((len(x), tuple(target.shape)))

        return Hooked(Mlp(hidden=(4,)).build(shape, classes, mean, std))


def test_hooks_are_called_once_per_network_per_epoch_and_per_step():
    calls = []
    model = model_for(DATA, Noting(calls))
    trained(model=model, settings=Settings(Sgd(lr=0.01), Constant(), epochs=2, batch=40))
    assert calls == [("prepare", 60), *["epoch", (40, (40, 4)), (20, (20, 4))] * 2]


def test_a_network_that_cannot_predict_is_refused_when_it_is_made():
    class Mute(Model):
        def loss(self, x, target):
            return x.mean()

    with pytest.raises(TypeError, match="predict"):
        Mute()


def test_plateau_and_early_stopping_follow_the_watched_loss():
    settings = Settings(Sgd(lr=0.01), Plateau(), epochs=50, batch=60, stopping=EarlyStopping(patience=5))
    watched = iter([1.0, 0.5] + [0.6] * 48)
    _, _, state = trained(settings=settings, observe=lambda epoch, loss: next(watched))
    assert state.epoch == 7
    assert state.optimiser["param_groups"][0]["lr"] == 0.01 * 0.5


def test_a_run_without_dropout_leaves_the_global_generator_alone_and_so_does_one_with():
    for dropout in (0.0, 0.5):
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        trained(rule=Mlp(hidden=(4,), dropout=dropout))
        assert torch.equal(torch.rand(2), expected)


def test_training_without_dropout_differs_from_training_with():
    a, _, _ = trained(rule=Mlp(hidden=(8,), dropout=0.0))
    b, _, _ = trained(rule=Mlp(hidden=(8,), dropout=0.5))
    assert not torch.equal(weights(a), weights(b))


def test_settings_that_train_nothing_are_refused():
    with pytest.raises(InputError, match="train nothing"):
        Settings(Sgd(), Cosine(), epochs=0, batch=1)
    with pytest.raises(InputError, match="bfloat16"):
        Settings(Sgd(), Cosine(), epochs=1, batch=1, precision="half")


def test_bfloat16_trains_to_nearly_the_same_loss():
    plain = trained(settings=Settings(Sgd(lr=0.05), Cosine(), epochs=6, batch=16))[1]
    short = trained(settings=Settings(Sgd(lr=0.05), Cosine(), epochs=6, batch=16, precision="bfloat16"))[1]
    assert plain != short
    assert abs(plain[-1] - short[-1]) < 0.05
