"""Attacks: in the ball, in [0, 1], as the closed form says, and as strong in float32 as in float64."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from dissensus import datasets
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures import (
    Attack,
    Gathered,
    ModelSize,
    OwnUncertainty,
    ScoreDifference,
    SoftAttack,
    TransferAttack,
    measure_spec,
)
from dissensus.engine.measures.finished_run import FinishedRun, held_out_in_all
from dissensus.engine.one_run import execute
from dissensus.errors import InputError
from dissensus.metrics import ece, top_label
from dissensus.models import Duq, Linear, McDropout, Mlp, ResNet20, Smallcnn, Sngp, new_model
from dissensus.probes.attacks import fgsm, logit_gradient, matched_noise, pgd
from dissensus.store.ledger import Ledger
from finished import HARD, SOFT, finished, measured, write_cifar10h

EVERY = {
    "linear": Linear(),
    "smallcnn": Smallcnn(4, 8),
    "sngp": Sngp(Smallcnn(4, 8), features=32),
    "duq": Duq(Smallcnn(4, 8), embedding=6, length_scale=1.0),
    "mc_dropout": McDropout(Smallcnn(4, 8), samples=3),
}
every_model = pytest.mark.parametrize("architecture", EVERY.values(), ids=EVERY)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def model_of(architecture, side: int = 8, classes: int = 4):
    return new_model(architecture, drawn(20, 3, side, side), classes, seed=0).eval()


X, LABELS = drawn(12, 3, 8, 8, seed=1), torch.arange(12) % 4


@every_model
@pytest.mark.parametrize("random_start", [False, True])
def test_an_attack_never_leaves_the_ball_or_the_pixels_and_raises_the_loss(architecture, random_start):
    model = model_of(architecture)
    x = (X * 255).round() / 255
    x[0], x[1] = 0.0, 1.0
    attacked = pgd(model, x, LABELS, epsilon=0.03, steps=3, step_size=0.02, random_start=random_start)
    assert float((attacked.x - x).abs().max()) <= 0.03 + 1e-6
    assert 0.0 <= float(attacked.x.min()) <= float(attacked.x.max()) <= 1.0
    assert attacked.losses.shape == (4, 12)
    assert bool((attacked.losses[-1] > attacked.losses[0]).double().mean() > 0.8)
    expected = cross_entropy(model.predict(attacked.x).logits.double(), LABELS, reduction="none")
    torch.testing.assert_close(attacked.losses[-1], expected, rtol=1e-5, atol=1e-6)


@every_model
def test_one_step_of_size_epsilon_is_fgsm_as_it_is_written(architecture):
    model = model_of(architecture)
    ours = fgsm(model, X, LABELS, epsilon=0.02)
    one_step = pgd(model, X, LABELS, epsilon=0.02, steps=1, step_size=0.02)
    assert torch.equal(ours.x, one_step.x)
    exact = copy.deepcopy(model).double()
    pixels = X.double().requires_grad_()
    cross_entropy(exact.predict(pixels).logits, LABELS).backward()
    by_hand = (X.double() + 0.02 * pixels.grad.sign()).clamp(0, 1)
    certain = pixels.grad.abs() > 1e-6 * pixels.grad.abs().amax()
    assert float(certain.double().mean()) > 0.6
    torch.testing.assert_close(ours.x.double()[certain], by_hand[certain], rtol=0, atol=1e-6)


def test_on_a_linear_model_of_two_classes_the_attack_is_the_closed_form():
    model = model_of(Linear(), classes=2)
    x, labels = 0.2 + 0.6 * X, torch.arange(12) % 2
    weight = (model.head.weight / model.normalise.std.expand(3, 8, 8).reshape(-1)).detach()
    direction = torch.where(labels[:, None] == 0, weight[1] - weight[0], weight[0] - weight[1]).sign()
    expected = x + 0.05 * direction.reshape(12, 3, 8, 8)
    for steps, size in ((1, 0.05), (10, 0.01)):
        torch.testing.assert_close(pgd(model, x, labels, epsilon=0.05, steps=steps, step_size=size).x, expected)


def over_confident(double: bool = False):
    """A network whose logits are so far apart that float32 rounds its largest probability to 1."""
    model = new_model(Mlp((64,), dropout=0.0), drawn(200, 3, 4, 4, seed=2), 5, seed=3).eval()
    with torch.no_grad():
        model.head.weight.mul_(400)
    return model.double() if double else model


def accuracy_after(model, x, labels, **how):
    attacked = fgsm(model, x, labels, epsilon=0.02, **how).x
    return float((model.predict(attacked).logits.argmax(1) == labels).double().mean())


def test_trap_the_attack_on_an_over_confident_network_is_that_of_the_network_in_float64():
    x = drawn(2000, 3, 4, 4, seed=4)
    single, double = over_confident(), over_confident(double=True)
    labels = double.predict(x.double()).logits.argmax(1)
    assert float((torch.softmax(single.predict(x).logits, 1).amax(1) == 1).float().mean()) > 0.5
    exact = accuracy_after(double, x.double(), labels)
    assert abs(accuracy_after(single, x, labels) - exact) <= 0.001
    assert accuracy_after(single, x, labels, naive=True) > exact + 0.05, "the naive gradient flatters the network"


def test_trap_masks_that_are_all_sure_hide_no_gradient():
    model = new_model(McDropout(Mlp((64,)), samples=6), drawn(200, 3, 4, 4, seed=2), 5, seed=3).eval()
    with torch.no_grad():
        model.trunk.head.weight.mul_(100)
    x, double = drawn(500, 3, 4, 4, seed=4), copy.deepcopy(model).double()
    labels = double.predict(x.double()).logits.argmax(1)
    how = {"epsilon": 0.02, "steps": 1, "step_size": 0.02}
    ours, exact = (
        pgd(each, x.to(kind), labels, **how) for each, kind in ((model, torch.float32), (double, torch.float64))
    )
    assert float(((ours.x - exact.x).abs() < 1e-4).double().mean()) > 0.9999
    right = [float((part.logits.argmax(1) == labels).double().mean()) for part in (ours, exact)]
    assert abs(right[0] - right[1]) <= 0.001


def test_the_gradient_of_the_logits_is_that_of_softmax_minus_target_up_to_a_factor():
    logits = 3 * torch.randn(50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    soft = torch.softmax(2 * drawn(50, 4, seed=5).double(), 1)
    for target in (torch.arange(50) % 4, soft):
        share = torch.nn.functional.one_hot(target, 4) if target.ndim == 1 else target
        plain = torch.softmax(logits, 1) - share
        ours = logit_gradient(logits, target)
        factor = plain.abs().amax(1, keepdim=True)
        torch.testing.assert_close(ours, plain / factor)


def test_soft_targets_are_attacked_too_and_a_target_that_is_met_is_left_alone():
    model = model_of(Smallcnn(4, 8))
    soft = torch.softmax(3 * drawn(12, 4, seed=6), 1)
    assert bool((fgsm(model, X, soft, epsilon=0.02).losses.diff(dim=0) > 0).all())
    assert bool((logit_gradient(torch.zeros(1, 4), torch.full((1, 4), 0.25)) == 0).all())


def test_the_attacked_model_is_left_as_it_was_and_batch_norm_is_frozen():
    model = new_model(ResNet20(), drawn(8, 3, 8, 8), 4, seed=0).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    one = fgsm(model, X, LABELS, epsilon=0.02, batch=12).x
    other = fgsm(model, X, LABELS, epsilon=0.02, batch=5).x
    assert float((one != other).double().mean()) < 0.01
    assert model.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_bytes_are_attacked_as_the_floats_they_stand_for():
    model, stored = model_of(Smallcnn(4, 8)), (X * 255).to(torch.uint8)
    assert torch.equal(fgsm(model, stored, LABELS, epsilon=0.02).x, fgsm(model, stored / 255, LABELS, epsilon=0.02).x)


@pytest.mark.parametrize("wrong", [{"epsilon": 8.0}, {"epsilon": -0.1}])
def test_an_epsilon_that_is_not_in_pixels_is_refused(wrong):
    with pytest.raises(InputError, match="epsilon"):
        fgsm(model_of(Smallcnn(4, 8)), X, LABELS, **wrong)


def test_inputs_that_are_no_pixels_are_refused():
    with pytest.raises(InputError, match="range from"):
        fgsm(model_of(Smallcnn(4, 8)), X * 3, LABELS, epsilon=0.01)


def test_fgsm_and_pgd_are_those_of_captum():
    robust = pytest.importorskip("captum.robust", reason="captum is not installed: an independent FGSM and PGD")
    model = model_of(Smallcnn(4, 8)).double()  # in float64 no sign of a small gradient depends on the order of sums
    x = X.double()

    def loss(logits, labels):
        return cross_entropy(logits, labels, reduction="none")

    def forward(images):
        return model.predict(images).logits

    theirs = robust.FGSM(forward, loss, lower_bound=0.0, upper_bound=1.0).perturb(x, epsilon=8 / 255, target=LABELS)
    torch.testing.assert_close(fgsm(model, x, LABELS, epsilon=8 / 255).x, theirs.detach(), rtol=0, atol=1e-12)
    captum_pgd = robust.PGD(forward, loss, lower_bound=0.0, upper_bound=1.0)
    theirs = captum_pgd.perturb(x, radius=8 / 255, step_size=2 / 255, step_num=10, target=LABELS)
    ours = pgd(model, x, LABELS, epsilon=8 / 255, steps=10, step_size=2 / 255)
    torch.testing.assert_close(ours.x, theirs.detach(), rtol=0, atol=1e-12)


def test_random_starts_are_drawn_in_the_ball_by_the_seed():
    model = model_of(Smallcnn(4, 8))
    starts = [pgd(model, X, LABELS, epsilon=0.03, steps=0, step_size=0, random_start=True, seed=s).x for s in (0, 0, 1)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    inside = (X > 0.03) & (X < 0.97)
    away = (starts[0] - X)[inside]
    assert 0.028 < float(away.abs().max()) <= 0.03 + 1e-6
    assert abs(float(away.mean())) < 0.003


@pytest.mark.parametrize("soft", [False, True])
def test_pgd_against_an_over_confident_network_is_that_in_float64_for_both_kinds_of_target(soft):
    x = drawn(500, 3, 4, 4, seed=4)
    single, double = over_confident(), over_confident(double=True)
    labels = double.predict(x.double()).logits.argmax(1)
    target = 0.9 * torch.nn.functional.one_hot(labels, 5).double() + 0.02 if soft else labels
    how = {"epsilon": 0.02, "steps": 5, "step_size": 0.005}

    def accuracy(model, images):
        attacked = pgd(model, images, target, **how).x
        return float((double.predict(attacked.double()).logits.argmax(1) == labels).double().mean())

    assert abs(accuracy(single, x) - accuracy(double, x.double())) <= 0.001


def test_noise_has_the_norm_of_the_attack_and_stays_in_the_pixels():
    x = 0.3 + 0.4 * X
    attacked = fgsm(model_of(Smallcnn(4, 8)), x, LABELS, epsilon=0.02).x
    noisy = matched_noise(x, attacked, seed=3)
    torch.testing.assert_close((noisy - x).flatten(1).norm(dim=1), (attacked - x).flatten(1).norm(dim=1))
    assert torch.equal(noisy, matched_noise(x, attacked, seed=3))
    assert not torch.equal(noisy, matched_noise(x, attacked, seed=4))
    z_scores = ((noisy - x) / (noisy - x).std()).flatten()
    assert float((z_scores.abs() > 2).double().mean()) == pytest.approx(0.0455, abs=0.02), "Gaussian, not of one size"
    edges = matched_noise(X.round(), fgsm(model_of(Smallcnn(4, 8)), X.round(), LABELS, epsilon=0.5).x)
    assert 0.0 <= float(edges.min()) <= float(edges.max()) <= 1.0
    assert torch.equal(matched_noise((X * 255).to(torch.uint8), (X * 255).to(torch.uint8) / 255), (X * 255).floor() / 255)


# The measures


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"))


def test_attack_decrease_is_accuracy_before_minus_after(ledger):
    run = finished(ledger)
    result = measured(Attack(epsilon=0.1), ledger, run)
    scores = result.scores
    assert scores["accuracy"] == pytest.approx(ledger.read(run).scores["last"]["raw"]["accuracy"])
    assert scores["attack_decrease"] == scores["accuracy"] - scores["accuracy_attacked"] > 0
    assert scores["nll_gold_attacked"] > scores["nll_gold"]
    assert measured(Attack(epsilon=0.0), ledger, run).scores["attack_decrease"] == 0
    assert measured(Attack(epsilon=0.1, items=50), ledger, run).facts["items"]["evaluation"] == 50
    stronger = measured(Attack(epsilon=0.1, steps=5, step_size=0.04), ledger, run)
    assert stronger.scores["attack_decrease"] >= scores["attack_decrease"]
    assert len(stronger.facts["losses"]) == 6
    assert stronger.facts["losses"][-1] == pytest.approx(stronger.scores["nll_gold_attacked"], rel=1e-6)
    assert scores["accuracy_attacked"] < scores["accuracy_noise"], "the direction does it, not the size"


def test_an_attack_on_what_people_said_raises_the_cross_entropy_to_people_more(ledger):
    run = finished(ledger)
    soft, hard = (measured(kind(epsilon=0.1), ledger, run) for kind in (SoftAttack, Attack))
    assert soft.scores["soft_nll"] == hard.scores["soft_nll"]
    assert soft.scores["soft_nll_attacked"] > hard.scores["soft_nll_attacked"] > hard.scores["soft_nll"]
    assert soft.facts["losses"][0] == pytest.approx(soft.scores["soft_nll"], rel=1e-6)


def test_an_attack_from_another_network_stands_beside_the_one_on_the_network_itself(ledger):
    run, other = finished(ledger), finished(ledger, HARD)
    result = measured(TransferAttack(epsilon=0.1), ledger, run, other)
    victim, source = (FinishedRun.load(one, ledger, "last") for one in (run, other))
    rows = held_out_in_all(victim.setup, source.setup)
    labels, x = victim.setup.data.labels[rows], victim.x(rows)
    made_there = fgsm(source.model, x, labels, epsilon=0.1).x
    expected = float((victim.model.predict(made_there).logits.argmax(1) == labels).double().mean())
    scores = result.scores
    assert scores["accuracy_transferred"] == pytest.approx(expected)
    assert scores["accuracy_attacked"] < scores["accuracy_transferred"] < scores["accuracy"]
    assert scores["masked_gradient"] == 0
    own = measured(TransferAttack(epsilon=0.1), ledger, run, run).scores
    assert own["accuracy_transferred"] == own["accuracy_attacked"]


def test_a_network_that_hides_its_gradient_is_found_out_by_the_attack_from_another(ledger):
    """The naive gradient of an over-confident network is one way to hide it."""
    x, double = drawn(2000, 3, 4, 4, seed=4), over_confident(double=True)
    labels = double.predict(x.double()).logits.argmax(1)
    hidden = fgsm(over_confident(), x, labels, epsilon=0.02, naive=True)
    made_elsewhere = fgsm(double, x.double(), labels, epsilon=0.02)
    white, transferred = (
        float((double.predict(part.x.double()).logits.argmax(1) == labels).double().mean())
        for part in (hidden, made_elsewhere)
    )
    assert white > transferred + 0.05


def test_a_model_is_judged_by_its_own_uncertainty_and_one_without_by_its_entropy(ledger, tmp_path, monkeypatch):
    write_cifar10h(tmp_path, 200)
    monkeypatch.setenv("DISSENSUS_DATA", str(tmp_path))
    base = replace(SOFT, data="cifar10h", votes=None, epochs=1, best=None)
    outside = DataRef("cifar10h", digest=datasets.load("cifar10h").digest)
    models = {
        "plain": Smallcnn(4, 8),
        "dropout": McDropout(Smallcnn(4, 8), samples=3),
        "duq": Duq(Smallcnn(4, 8), embedding=6),
    }
    results = {}
    for name, model in models.items():
        run = finished(ledger, replace(base, model=model))
        results[name] = measured(OwnUncertainty(outside, items=30), ledger, run)
        assert results[name].facts["items"] == {"evaluation": 30, "outside": 30}
        by_entropy = measured(OwnUncertainty(outside, score="entropy", items=30), ledger, run)
        assert by_entropy.scores["auroc"] == results[name].scores["auroc_entropy"]
        assert by_entropy.facts["uncertainty"] == "predictive entropy"
        gathered = measured(Gathered(kernels=name == "duq"), ledger, run)
        if name == "duq":
            stored = ledger.predictions(run, "last")
            softmax = torch.from_numpy(stored["logits"]).double().exp().log_softmax(1)
            expected = ece(*top_label(softmax, torch.from_numpy(stored["labels"])), binning="width", bins=10)
            assert gathered.scores["ece_width_10_of_softmax"] == pytest.approx(expected)
    assert "auroc_own" not in results["plain"].scores
    assert results["plain"].facts["uncertainty"] == "predictive entropy"
    assert results["dropout"].facts["uncertainty"].startswith("mutual information")
    assert results["duq"].scores["auroc"] == results["duq"].scores["auroc_own"]


def test_a_difference_is_of_each_score_that_both_have(ledger):
    sizes = [ModelSize(model, (4,), 2) for model in (Linear(), Mlp((3,)))]
    ids = [execute(measure_spec(size), ledger).id for size in sizes]
    difference = measured(ScoreDifference(), ledger, *ids).scores
    assert difference["parameters"] == 2 * 4 + 2 - (3 * 4 + 3 + 2 * 3 + 2)
