"""003's Proposition 1 and its equations 4 to 8, numerically, through our own loss."""

import pytest
import torch
from torch.func import functional_call, jacrev

from dissensus.labels.delivery import Sampled, Soft
from dissensus.labels.targets import Target
from dissensus.models import Mlp

K = 4
P = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)


@pytest.fixture
def case():
    torch.manual_seed(0)
    model = Mlp(hidden=(3,), dropout=0.0).build((2,), K, torch.zeros(2), torch.ones(2)).double()
    x = torch.randn(1, 2, dtype=torch.float64)
    logits = model.predict(x).logits[0].detach()
    return model, x, logits


def loss_of_logits(logits, label):
    return torch.nn.functional.cross_entropy(logits[None], torch.tensor([label]))


def per_label_gradients(logits):
    return torch.stack([torch.func.grad(loss_of_logits)(logits, label) for label in range(K)])


def covariance(gradients):
    centred = gradients - P @ gradients
    return centred.T @ (P[:, None] * centred)


def test_equation_4_the_expected_sampled_loss_is_the_soft_loss(case):
    model, x, _ = case
    sampled = sum(P[label] * model.loss(x, torch.tensor([label])) for label in range(K))
    assert torch.allclose(sampled, model.loss(x, P[None]))


def test_equation_5_the_expected_gradient_is_q_minus_p(case):
    _, _, logits = case
    assert torch.allclose(P @ per_label_gradients(logits), logits.softmax(0) - P)


def test_equation_6_the_covariance_is_diag_p_minus_p_p_t(case):
    _, _, logits = case
    assert torch.allclose(covariance(per_label_gradients(logits)), torch.diag(P) - torch.outer(P, P))


def test_equation_7_the_covariance_passes_through_the_jacobian_of_the_logits(case):
    model, x, _ = case
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def logits_of(values):
        return functional_call(_Logits(model), {f"model.{name}": value for name, value in values.items()}, (x,))[0]

    jacobian = torch.cat([part.reshape(K, -1) for part in jacrev(logits_of)(parameters).values()], 1)
    gradients = []
    for label in range(K):
        model.zero_grad()
        model.loss(x, torch.tensor([label])).backward()
        gradients.append(torch.cat([value.grad.reshape(-1) for value in model.parameters()]))
    expected = jacobian.T @ (torch.diag(P) - torch.outer(P, P)) @ jacobian
    assert torch.allclose(covariance(torch.stack(gradients)), expected)


def test_equation_8_the_squared_norm_is_that_of_soft_plus_one_minus_p_squared(case):
    _, _, logits = case
    q = logits.softmax(0)
    sampled = P @ per_label_gradients(logits).square().sum(1)
    assert torch.allclose(sampled, (q - P).square().sum() + 1 - P.square().sum())


def test_the_sampled_delivery_has_the_mean_and_the_covariance_of_the_proposition(case):
    _, _, logits = case
    n, epochs = 400, 50
    target = Target(P.expand(n, K), torch.arange(n))
    labels = Sampled().labels(target, seed=0)
    drawn = torch.cat([labels(epoch) for epoch in range(epochs)])
    gradients = per_label_gradients(logits)[drawn]
    soft = logits.softmax(0) - Soft().labels(target, 0)(0)[0].double()
    assert (gradients.mean(0) - soft).abs().max() < 4.5 * 0.5 / (n * epochs) ** 0.5
    assert (torch.cov(gradients.T) - (torch.diag(P) - torch.outer(P, P))).abs().max() < 0.02


class _Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model.predict(x).logits
