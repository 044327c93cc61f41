"""All detectors together: a new one is tested by being listed in DETECTORS."""

from __future__ import annotations

import copy

import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

from dissensus import metrics, random
from dissensus.errors import InputError
from dissensus.models import Smallcnn
from dissensus.models.predictions import Predictions
from dissensus.probes import detectors
from dissensus.probes.detectors import DETECTORS, DetectorInput

SHAPE = (1, 6, 6)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def images(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, (n, *SHAPE), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def network(seed: int = 0):
    with random.seeded(seed, "init"):
        return Smallcnn(width=4, hidden=16).build(SHAPE, 5, torch.tensor([0.5]), torch.tensor([0.1]))


def given(x: torch.Tensor) -> DetectorInput:
    model = network().eval()
    with torch.no_grad():
        return DetectorInput(model, x, model.predict(x / 255), model.predict(images(80, seed=9) / 255).features)


every_detector = pytest.mark.parametrize("name", DETECTORS)


@every_detector
def test_a_detector_gives_one_finite_float64_per_item(name):
    scores = DETECTORS[name](given(images(12)))
    assert (scores.shape, scores.dtype) == ((12,), torch.float64)
    assert bool(torch.isfinite(scores).all())
    assert not scores.requires_grad


@every_detector
def test_a_score_does_not_depend_on_the_other_items(name):
    x, rows = images(12), torch.tensor([7, 2, 2])
    torch.testing.assert_close(DETECTORS[name](given(x[rows])), DETECTORS[name](given(x))[rows], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["energy", "msp", "predictive_entropy", "margin"])
def test_a_sure_prediction_is_less_strange_than_a_doubtful_one(name):
    sure, doubtful = Predictions(torch.tensor([[20.0, 0.0, 0.0]])), Predictions(torch.tensor([[1.0, 0.9, 0.8]]))
    scores = [
        DETECTORS[name](DetectorInput(network(), torch.empty(1), predictions, torch.empty(0, 1)))
        for predictions in (sure, doubtful)
    ]
    assert metrics.auroc(*scores) == 1.0


def test_logit_scores_are_their_formulas():
    logits = 5 * draw(50, 7)
    z = logits.double().numpy()
    q, ranked = softmax(z, 1), logits.double().sort(1).values
    torch.testing.assert_close(detectors.energy(logits), torch.from_numpy((log_softmax(z, 1) - z)[:, 0]))
    torch.testing.assert_close(detectors.msp(logits), torch.from_numpy(-q.max(1)))
    torch.testing.assert_close(detectors.predictive_entropy(logits), torch.from_numpy(entropy(q, axis=1)))
    torch.testing.assert_close(detectors.margin(logits), ranked[:, -2] - ranked[:, -1])


def test_an_impossible_class_does_not_make_entropy_nan():
    assert detectors.predictive_entropy(torch.tensor([[0.0, 0.0, -torch.inf]])).item() == pytest.approx(
        0.693147, abs=1e-6
    )


def test_odin_without_a_step_is_the_largest_tempered_probability():
    model, x = network().eval(), images(9)
    expected = detectors.msp(model.predict(x / 255).logits.detach().double() / 50)
    torch.testing.assert_close(detectors.odin(model, x, temperature=50.0, epsilon=0.0), expected)


def naive_odin(model, x, temperature, epsilon):
    """One image at a time, in float64."""
    model = copy.deepcopy(model).double().eval()
    scores = []
    for image in x.double() / 255:
        pixels = image[None].clone().requires_grad_()
        surest = torch.softmax(model(pixels) / temperature, 1).max()
        (-torch.log(surest)).backward()
        stepped = (pixels.detach() - epsilon * pixels.grad.sign()).clamp(0, 1)
        scores.append(-torch.softmax(model(stepped) / temperature, 1).max().detach())
    return torch.stack(scores)


@pytest.mark.parametrize("epsilon", [0.0014, 0.05])
@pytest.mark.parametrize("sharpness", [1, 30])
def test_odin_is_its_naive_twin_also_for_an_over_confident_network(epsilon, sharpness):
    model, x = network(), images(9)
    with torch.no_grad():
        model.head.weight *= sharpness
    expected = naive_odin(model, x, 1000.0, epsilon)
    torch.testing.assert_close(detectors.odin(model, x, epsilon=epsilon, batch=4), expected, rtol=1e-5, atol=1e-8)
    assert bool((expected < detectors.odin(model, x, epsilon=0.0)).all())  # the step makes the model surer


def test_odin_never_leaves_the_space_of_pixels(monkeypatch):
    model, seen = network(), []
    monkeypatch.setattr(type(model), "predict", lambda self, x: seen.append(x) or Predictions(self(x)))
    detectors.odin(model, torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, *SHAPE), epsilon=0.3)
    assert float(seen[-1].min()) == 0.0
    assert float(seen[-1].max()) == 1.0


def test_odin_leaves_the_model_as_it_was():
    model = network().train()
    detectors.odin(model, images(3))
    assert model.training
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize("k", [1, 7, 50])
@pytest.mark.parametrize("block", [1, 16, 10_000])
def test_knn_is_its_naive_twin_whatever_the_block(k, block):
    features, train = draw(33, 6), draw(90, 6, seed=1)
    a, b = (one.double().numpy() / one.double().norm(dim=1, keepdim=True).numpy() for one in (features, train))
    expected = torch.from_numpy(cdist(a, b)).sort(1).values[:, k - 1]
    torch.testing.assert_close(detectors.knn(features, train, k=k, block=block), expected, rtol=1e-6, atol=1e-7)


def test_knn_looks_at_directions_and_an_item_is_nearest_to_itself():
    train = draw(20, 6)
    torch.testing.assert_close(
        detectors.knn(5 * train, train, k=1), torch.zeros(20, dtype=torch.float64), rtol=0, atol=1e-6
    )
    torch.testing.assert_close(detectors.knn(5 * train, train, k=3), detectors.knn(train, 0.1 * train, k=3))


def test_knn_of_features_that_are_all_zero_is_a_distance_of_one():
    assert detectors.knn(torch.zeros(1, 6), draw(20, 6), k=3).item() == pytest.approx(1.0)


def test_knn_refuses_more_neighbours_than_there_are_and_a_model_without_features():
    with pytest.raises(InputError, match="no 50-th nearest among 20"):
        detectors.knn(draw(3, 6), draw(20, 6))
    with pytest.raises(InputError, match="knn: it needs penultimate features, and this model gives none"):
        DETECTORS["knn"](DetectorInput(network(), images(2), Predictions(torch.zeros(2, 5)), draw(60, 16)))
