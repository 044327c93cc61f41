import dataclasses
import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from crowds import crowd
from dissensus import metrics, random
from dissensus.errors import InputError
from dissensus.labels.delivery import Multipass, Sampled, Soft
from dissensus.labels.targets import Empirical, Majority
from dissensus.models import Mlp, new_model
from dissensus.models.predictions import Predictions
from dissensus.training import loop as train
from dissensus.training import stacked
from dissensus.training.optimisers import Adam, AdamW, Sgd
from dissensus.training.schedules import Constant, Cosine, EarlyStopping, Multistep, Plateau
from dissensus.training.stacked import Member, Monitor, grouping
from dissensus.training.stacked import stack as training

K = 4
DATA = crowd(items=90, classes=K)
HEAD = Mlp(hidden=(12,), dropout=0.2)
DELIVERIES = (Soft(), Sampled(), Multipass())
JUMPY, IMPATIENT = Plateau(patience=0, minimum_improvement=0.02), EarlyStopping(patience=2, minimum_improvement=0.01)


@pytest.fixture
def torch_threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def rows_of(seed):
    """Training and validation rows, redrawn with each seed; 53 items leave a partial batch whatever its size."""
    rows = torch.randperm(len(DATA), generator=random.generator(seed, "split"))
    return rows[:53], rows[53:70]


def member(seed=0, rule=Empirical(), delivery=Soft(), dtype=torch.float64, **more):  # noqa: B008 - frozen
    train_rows, validation_rows = rows_of(seed)
    said = delivery.labels(rule.target(DATA, train_rows, seed=0), seed)

    def labels(epoch):
        return said(epoch).to(dtype) if said(epoch).is_floating_point() else said(epoch)

    more = {"optimiser": Adam(0.02), "epochs": 3, "batch": 8, **more}
    return Member(seed, train_rows, validation_rows, labels, rule.target(DATA, validation_rows, seed=0).probs, **more)


def cross_entropy(model, x, target):
    model.eval()
    return -(target * Predictions(model(x).detach()).log_probs).sum(1).mean().item()


def alone(one, head=HEAD, dtype=torch.float64):
    """The naive twin: the same member, trained by the one loop."""
    x = DATA.x.to(dtype)
    model = new_model(head, x[one.train_rows], K, seed=one.seed).to(dtype)
    curve, checkpoints = {"train_loss": [], "validation_loss": []}, []

    def observe(epoch, loss):
        curve["train_loss"].append(loss)
        curve["validation_loss"].append(cross_entropy(model, x[one.validation_rows], one.validation_target))
        checkpoints.append({name: value.clone() for name, value in model.state_dict().items()})
        return curve["validation_loss"][-1]

    settings = train.Settings(one.optimiser, one.schedule, one.epochs, one.batch, stopping=one.stopping)
    train.fit(model, x[one.train_rows], one.labels, settings, classes=K, seed=one.seed, observe=observe)
    best = min(range(len(checkpoints)), key=curve["validation_loss"].__getitem__)
    return curve, best, {"last": checkpoints[-1], "best": checkpoints[best]}


def apart(some, others):
    """The largest difference between two mappings of tensors or lists, whose keys and lengths must agree."""
    assert list(some) == list(others)
    pairs = [[torch.as_tensor(one[key], dtype=torch.float64) for one in (some, others)] for key in some]
    assert all(a.shape == b.shape for a, b in pairs)
    return max((a - b).abs().max().item() for a, b in pairs)


def fit(members, head=HEAD, dtype=torch.float64, **more):
    return stacked.fit(DATA.x.to(dtype), members, head=head, classes=K, **more)


def assert_as_alone(members, head=HEAD, dtype=torch.float64, within=1e-5):
    answer = fit(members, head, dtype)
    for one, trained in zip(members, answer, strict=True):
        curve, best, weights = alone(one, head, dtype)
        assert apart(trained.curve, curve) < within
        assert trained.best_epoch == best
        assert trained.epochs == len(curve["train_loss"])
        for checkpoint in ("last", "best"):
            assert apart(trained.weights[checkpoint], weights[checkpoint]) < within
    return answer


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-5), (torch.float32, 1e-4)])
@pytest.mark.parametrize("head", [HEAD, Mlp((12,), 0.0), Mlp((9, 6), 0.2)], ids=["dropout", "none", "two layers"])
def test_each_member_gets_the_numbers_it_would_have_got_alone(head, dtype, within):
    """Seeds with rows of their own, deliveries, optimisers, rates, decay, batch sizes and lengths, all in one call."""
    optimisers = (Adam(0.02), Adam(0.005, 0.1), AdamW(0.01, 0.1), Sgd(0.05), Sgd(0.1, 0.8, nesterov=True), Sgd(0.1, 0.0))
    members = [
        member(
            seed=place % 2,
            delivery=DELIVERIES[(place + place // 6) % 3],
            dtype=dtype,
            optimiser=optimisers[place % 6],
            batch=8 if place < 6 else 16,
            epochs=1 + place % 3,
        )
        for place in range(12)
    ]
    assert_as_alone(members, head, dtype, within)


def test_plateaus_stops_and_the_best_epoch_are_the_members_own():
    members = [
        member(
            seed, rule, optimiser=Adam(lr), schedule=schedule, stopping=IMPATIENT if schedule == JUMPY else None, epochs=8
        )
        for (seed, rule), lr, schedule in product(
            ((0, Empirical()), (1, Majority())), (0.2, 0.05, 0.01), (Constant(), JUMPY)
        )
    ]
    trained = assert_as_alone(members)
    assert len({one.epochs for one in trained}) > 2, "this test needs members that stop at different epochs"
    assert any(one.best_epoch < one.epochs - 1 for one in trained)
    rates = [JUMPY.factor(one.epochs, 8, one.curve["validation_loss"]) for one in trained[1::2]]
    assert min(rates) < 1, "and a plateau that is reached"


def test_any_schedule_that_is_set_per_epoch_is_followed():
    members = [member(schedule=Multistep((1, 3), gamma=0.5), epochs=epochs) for epochs in (2, 5)]
    assert_as_alone(members)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_member_is_the_same_whatever_its_company_and_on_any_number_of_threads(count, torch_threads, monkeypatch):
    members = [
        member(seed, delivery=delivery, optimiser=Adam(lr))
        for seed, delivery, lr in product((0, 1), DELIVERIES, (0.1, 0.01))
    ]
    torch_threads(1)
    together = fit(members)
    torch_threads(count)
    monkeypatch.setattr(grouping, "STACK_BYTES", 1)  # every stack holds one
    for one, other in zip(together, fit(members), strict=True):
        assert apart(one.weights["last"], other.weights["last"]) < 1e-12
        assert apart(one.curve, other.curve) < 1e-12


@pytest.mark.parametrize("stopping", [None, IMPATIENT])
def test_a_short_run_taken_from_a_long_one_has_the_bits_of_a_run_of_its_own(stopping):
    longest = member(schedule=JUMPY, stopping=stopping, epochs=9)
    members = [replace(longest, epochs=epochs) for epochs in (2, 9, 5, 2)]
    done = []
    shared = fit(members, share_prefixes=True, progress=lambda epochs, of: done.append((epochs, of)))
    assert done[-1] == (9, 9)
    for one, trained in zip(members, shared, strict=True):
        (own,) = fit([one])
        assert (own.curve, own.best_epoch) == (trained.curve, trained.best_epoch)
        assert all(apart(own.weights[name], trained.weights[name]) == 0 for name in ("last", "best"))


def test_only_members_that_differ_in_epochs_alone_share_a_run():
    one = member(epochs=2)
    members = [
        one,
        replace(one, epochs=3),
        replace(one, optimiser=Adam(0.1)),
        replace(one, labels=lambda _: torch.zeros(53).long()),
    ]
    for trained, apart_from in zip(fit(members, share_prefixes=True), fit(members), strict=True):
        assert apart(trained.curve, apart_from.curve) < 1e-12


def test_weights_load_into_the_model_and_say_what_the_curve_says():
    one = member(epochs=6, optimiser=Adam(0.1))
    (trained,) = fit([one])
    model = HEAD.build((5,), K, torch.zeros(5), torch.ones(5)).double()
    for checkpoint, epoch in (("last", -1), ("best", trained.best_epoch)):
        model.load_state_dict(trained.weights[checkpoint])
        loss = cross_entropy(model, DATA.x[one.validation_rows].double(), one.validation_target)
        assert math.isclose(loss, trained.curve["validation_loss"][epoch], rel_tol=1e-9)


def test_monitors_score_as_the_metrics_do_and_change_nothing():
    plain, rows = member(rule=Majority()), torch.arange(70, 90)
    people, labels = DATA.people[rows], DATA.labels[rows]
    target = Majority().target(DATA, rows, seed=0).probs
    watched = replace(plain, monitors={"test": Monitor(rows, target, people, labels)})
    (without,), (trained,) = fit([plain]), fit([watched])
    assert trained.curve == without.curve
    model = HEAD.build((5,), K, torch.zeros(5), torch.ones(5)).double()
    model.load_state_dict(trained.weights["last"])
    log_probs = Predictions(model.eval()(DATA.x[rows].double()).detach()).log_probs
    expected = {
        "loss": metrics.soft_nll(log_probs, target).mean(),
        "accuracy": (log_probs.argmax(1) == labels).double().mean(),
        "kl": metrics.kl(log_probs, people).mean(),
    }
    assert {name: len(values) for name, values in trained.monitored["test"].items()} == dict.fromkeys(expected, 3)
    assert apart({name: values[-1] for name, values in trained.monitored["test"].items()}, expected) < 1e-12


def test_only_the_checkpoints_asked_for_are_kept():
    for keep in ((), ("last",), ("best",), ("last", "best")):
        assert set(fit([member()], keep=keep)[0].weights) == set(keep)


def test_a_member_that_diverges_ends_without_a_best_epoch_and_leaves_the_others_alone():
    wild, tame = member(optimiser=Sgd(1e200), stopping=EarlyStopping(patience=2), epochs=8), member(optimiser=Sgd(0.1))
    trained = fit([wild, tame])
    assert math.isnan(trained[0].curve["validation_loss"][-1])
    assert trained[0].epochs < 8
    assert apart(trained[1].curve, alone(tame)[0]) < 1e-5


def test_a_small_budget_splits_the_stack_and_changes_no_number(monkeypatch, torch_threads):
    sizes = []

    class Spy(training.BatchedHeads):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            sizes.append(len(self))

    monkeypatch.setattr(training, "BatchedHeads", Spy)
    members = [member(optimiser=Adam(lr)) for lr in (0.1, 0.01, 0.001, 0.0001)]
    torch_threads(1)
    whole = fit(members)
    parts = fit(members, memory_budget=600_000)
    assert sizes == [4, 2, 2]
    for one, other in zip(whole, parts, strict=True):
        assert apart(one.curve, other.curve) < 1e-12
    with pytest.raises(InputError, match=r"one head takes 0\.2 MiB, and the budget is 0\.1 MiB"):
        fit(members, memory_budget=100_000)


def test_progress_ends_at_the_whole_though_members_stop_early():
    members = [member(optimiser=Adam(0.2), stopping=IMPATIENT, epochs=12), member(epochs=5)]
    heard = []
    fit(members, progress=lambda *told: heard.append(told))
    assert heard == sorted(heard)
    assert heard[-1] == (17, 17)


def test_threads_and_the_global_stream_are_left_as_they_were(torch_threads):
    torch_threads(2)
    state = torch.get_rng_state()
    fit([member(0), member(1)])
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.get_rng_state(), state)


def test_an_error_in_one_stack_is_the_one_that_is_raised(torch_threads):
    hard = torch.zeros(53).long()

    def broken(epoch):
        if epoch == 1:
            raise OSError("the labels are gone")
        return hard

    torch_threads(2)
    with pytest.raises(OSError, match="the labels are gone"):
        fit([replace(member(), epochs=100_000), replace(member(), labels=broken)])
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch": 54}, "member 1: 53 training items are fewer than a batch of 54"),
        ({"epochs": 0}, "0 epochs"),
        ({"schedule": Cosine()}, "set per epoch"),
        ({"validation_rows": torch.arange(3)}, r"3 validation rows have a target of shape \(17, 4\)"),
        ({"train_rows": torch.arange(50, 103)}, "rows 50 to 102 are asked for, and the features have 90"),
        ({"labels": lambda _: torch.zeros(7)}, r"labels of shape \(7,\)"),
        ({"labels": lambda _: torch.full((53,), 4)}, "labels from 4 to 4, and there are 4 classes"),
    ],
)
def test_what_cannot_be_trained_is_refused(change, said):
    with pytest.raises(InputError, match=said):
        fit([member(), replace(member(), **change)])


@pytest.mark.parametrize("x", [torch.full((90, 5), torch.nan), torch.zeros(90), torch.zeros(90, 5, dtype=torch.int64)])
def test_features_must_be_finite_float_matrices(x):
    with pytest.raises(InputError, match="features: "):
        stacked.fit(x, [member()], head=HEAD, classes=K)


@pytest.mark.parametrize("head", [Mlp(hidden=()), dataclasses.replace(HEAD, dropout=1.0)])
def test_a_head_without_hidden_layer_or_that_drops_everything_is_refused(head):
    with pytest.raises(InputError, match="head: "):
        fit([member()], head)


def test_no_members_is_no_work():
    assert fit([]) == []
