import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.metrics import nll_gold, soft_nll
from dissensus.metrics.temperature import COLDEST, HOTTEST, cross_fit, fit_temperature, stratified_halves, tempered


def model(n=400, k=4, seed=0, temperature=2.5, votes=20):
    """(logits, people, labels): logits that are too sharp by `temperature`, votes drawn from the truth."""
    rng = np.random.default_rng(seed)
    true_logits = 1.5 * rng.normal(size=(n, k))
    truth = np.exp(true_logits) / np.exp(true_logits).sum(1, keepdims=True)
    people = np.stack([rng.multinomial(votes, row) for row in truth]) / votes
    labels = torch.from_numpy((rng.random((n, 1)) > truth.cumsum(1)).sum(1).clip(max=k - 1))
    return torch.from_numpy(true_logits * temperature), torch.from_numpy(people), labels


def loss(logits, target, temperature):
    log_probs = torch.log_softmax(logits.double() / temperature, 1)
    return float((soft_nll if target.ndim == 2 else nll_gold)(log_probs, target).mean())


@pytest.mark.parametrize("temperature", [0.2, 1.0, 2.5, 30.0])
def test_a_known_temperature_is_found(temperature):
    logits, people, labels = model(n=20_000, temperature=temperature)
    assert fit_temperature(logits, people).value == pytest.approx(temperature, rel=0.02)
    assert fit_temperature(logits, labels).value == pytest.approx(temperature, rel=0.05)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.05, 20), st.booleans())
def test_no_temperature_of_a_fine_grid_is_better(seed, temperature, soft):
    logits, people, labels = model(n=30, seed=seed, temperature=temperature)
    target = people if soft else labels
    fitted = fit_temperature(logits, target).value
    grid = np.geomspace(COLDEST, HOTTEST, 300)
    assert loss(logits, target, fitted) <= min(loss(logits, target, t) for t in grid) + 1e-12
    assert loss(logits, target, fitted) <= loss(logits, target, 1.0) + 1e-12


def test_the_gradient_at_the_fit_is_zero():
    logits, people, _ = model()
    inverse = torch.tensor(1 / fit_temperature(logits, people).value, dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(logits * inverse, people).backward()
    assert float(inverse.grad) == pytest.approx(0, abs=1e-12)


def test_huge_logits_are_no_trouble():
    logits, people, _ = model()
    wanted = fit_temperature(logits, people).value
    assert fit_temperature(logits * 20 + 1e4, people).value == pytest.approx(20 * wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("logits", "labels", "value", "note"),
    [
        (torch.eye(3) * 2, torch.arange(3), COLDEST, "sharper is better"),
        (torch.eye(3) * -2, torch.arange(3), HOTTEST, "flatter is better"),
        (torch.ones(3, 3), torch.arange(3), 1.0, "no temperature changes anything"),
        (torch.randn(3, 1), torch.zeros(3).long(), 1.0, "no temperature changes anything"),
    ],
)
def test_where_no_temperature_is_best_a_bound_is_given_and_said(logits, labels, value, note):
    fitted = fit_temperature(logits, labels)
    assert fitted.value == value
    assert note in fitted.note
    assert fit_temperature(*model()[:2]).note == ""


def test_both_halves_hold_half_of_the_items_and_of_every_class():
    labels = torch.from_numpy(np.random.default_rng(0).integers(7, size=501))
    half = stratified_halves(labels, torch.arange(501), seed=0)
    assert abs(int(half.sum()) - 250.5) == 0.5
    for label in range(7):
        members = half[labels == label]
        assert abs(2 * int(members.sum()) - len(members)) <= 1


def test_the_same_items_are_halved_the_same_way_in_any_order():
    labels = torch.arange(100) % 5
    rows = 1000 + torch.arange(100)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(1))
    half = stratified_halves(labels, rows, seed=3)
    assert stratified_halves(labels[order], rows[order], seed=3).equal(half[order])
    assert not stratified_halves(labels, rows, seed=4).equal(half)


def test_a_half_never_influences_its_own_temperature():
    logits, people, labels = model()
    rows = torch.arange(400)
    before = cross_fit(logits, people, strata=labels, rows=rows, seed=0)
    first = before.half == 0
    changed = torch.where(first[:, None], people.roll(1, 1), people)
    after = cross_fit(logits, changed, strata=labels, rows=rows, seed=0)
    assert after.temperatures[0] == before.temperatures[0]
    assert after.temperatures[1] != before.temperatures[1]
    assert after.log_probs[first].equal(before.log_probs[first])


def test_each_item_is_divided_by_the_temperature_of_its_half():
    logits, people, labels = model()
    fit = cross_fit(logits, people, strata=labels, rows=torch.arange(400), seed=0)
    for side in (0, 1):
        mine, others = fit.half == side, fit.half != side
        assert fit.temperatures[side] == fit_temperature(logits[others], people[others])
        by_hand = torch.log_softmax(logits[mine] / fit.temperatures[side].value, 1)
        assert torch.allclose(fit.log_probs[mine], by_hand, atol=1e-12)


def test_no_item_changes_its_top_class():
    logits, people, labels = model()
    for fit in tempered(logits, people, labels, rows=torch.arange(400), seed=0).values():
        assert fit.log_probs.argmax(1).equal(logits.argmax(1))


def test_a_sharp_model_is_mended_both_ways_and_by_votes_the_more():
    logits, people, labels = model(n=2_000)
    raw = float(soft_nll(torch.log_softmax(logits, 1), people).mean())
    fits = tempered(logits, people, labels, rows=torch.arange(2_000), seed=0)
    to_votes, to_gold = (
        float(soft_nll(fits[name].log_probs, people).mean()) for name in ("tempered_votes", "tempered_gold")
    )
    assert to_votes < to_gold + 1e-3 < raw - 0.3
    assert fits["tempered_votes"].half.equal(fits["tempered_gold"].half)


def test_a_calibrated_model_loses_no_more_than_noise():
    logits, people, labels = model(n=2_000, temperature=1.0)
    raw = float(soft_nll(torch.log_softmax(logits, 1), people).mean())
    for fit in tempered(logits, people, labels, rows=torch.arange(2_000), seed=0).values():
        assert float(soft_nll(fit.log_probs, people).mean()) <= raw + 1e-3


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (torch.tensor([[0.0, torch.inf]]), torch.tensor([0]), "logits are not finite"),
        (torch.zeros(2, 2), torch.tensor([[3.0, 1.0], [2.0, 2.0]]), "if they are counts, pass them as votes"),
        (torch.zeros(2, 2), torch.tensor([0.0, 1.0]), "Give a hard-label metric int64"),
    ],
)
def test_what_cannot_be_fitted_raises(logits, target, message):
    with pytest.raises(InputError, match=message):
        fit_temperature(logits, target)


def test_one_item_cannot_be_halved():
    with pytest.raises(InputError, match="1 items cannot be split into two halves"):
        cross_fit(torch.zeros(1, 2), torch.tensor([0]), strata=torch.tensor([0]), rows=torch.tensor([0]), seed=0)
