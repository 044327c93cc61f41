"""All keys of `score` at once: a new metric is tested by being listed in METRICS."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.metrics import METRICS, js, js_distance, kl, nll_gold, score, soft_brier, soft_nll

PROPER = {
    "soft_nll": soft_nll,
    "kl": kl,
    "soft_brier": lambda lq, p: soft_brier(lq.exp(), p),
    "js": lambda lq, p: js(lq.exp(), p),
}
ORDER_OF_CLASSES = {"second_best_accuracy"}  # breaks ties among the classes nobody chose by their index


def crowd(n=300, k=5, votes=20, seed=0, sharp=1.0):
    """(log_probs, target, gold, counts, truth) of a crowd that disagrees, and a model that half understands it."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.4), size=n)
    counts = torch.from_numpy(np.stack([rng.multinomial(votes, row) for row in truth]))
    logits = torch.from_numpy(np.log(truth + 0.02) + 0.7 * rng.normal(size=truth.shape)) * sharp
    gold = torch.from_numpy((rng.random((n, 1)) > truth.cumsum(1)).sum(1).clip(max=k - 1))
    target = counts / counts.sum(1, keepdim=True).double()
    return torch.log_softmax(logits, 1), target, gold, counts, torch.from_numpy(truth)


def same(one, other, tolerance=1e-9):
    return one == other if one is None or isinstance(one, str) else one == pytest.approx(other, abs=tolerance)


ALL = score(*crowd())


def test_score_reports_exactly_what_the_table_lists():
    assert list(ALL) == list(METRICS)
    for known, needs in ((3, {"target", "gold"}), (4, {"target", "gold", "counts"})):
        some = score(*crowd()[:known])
        assert list(some) == [name for name, metric in METRICS.items() if metric.needs in needs]
        assert all(same(some[name], ALL[name]) for name in some)


def test_score_has_the_keys_that_others_rely_on():
    agreed = """
        soft_nll soft_nll_infinite_items soft_nll_finite_mean kl js soft_brier nll_gold accuracy second_best_accuracy
        second_best_accuracy_well_defined ece_width_10 ece_width_15 ece_mass_15 smooth_ece entropy_pearson
        entropy_spearman confidence_right confidence_wrong soft_nll_floor gold brier_reliability brier_resolution
        soft_nll_expected soft_brier_unbiased soft_brier_unbiased_left_out entropy_pearson_ceiling
        entropy_spearman_ceiling kl_to_truth"""
    assert set(agreed.split()) <= set(METRICS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_every_metric_says_what_it_is(metric):
    assert METRICS[metric.name] is metric
    assert metric.about
    assert metric.direction in {"lower", "higher", "neither"}
    assert metric.needs in {"target", "gold", "counts", "truth"}


@pytest.mark.parametrize("name", METRICS)
def test_every_value_is_plain_json(name):
    assert type(ALL[name]) in {float, int, str, type(None)}
    json.dumps(ALL[name], allow_nan=False)


def reordered_items(log_probs, target, gold, counts, truth):
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(gold)))
    return log_probs[order], target[order], gold[order], counts[order], truth[order]


def reordered_classes(log_probs, target, gold, counts, truth):
    order = torch.tensor([3, 0, 4, 1, 2])
    return log_probs[:, order], target[:, order], order.argsort()[gold], counts[:, order], truth[:, order]


def repeated_items(*parts):
    return tuple(part.repeat_interleave(2, 0) for part in parts)  # 300 = 15 · 20: the bins of mass stay


def tempered(log_probs, *others):
    return torch.log_softmax(log_probs / 2.5, 1), *others


def in_single_precision(log_probs, target, gold, counts, truth):
    return log_probs.float().requires_grad_(), target.float(), gold.int(), counts.int(), truth.float()


def with_a_class_that_nobody_names(log_probs, target, gold, counts, truth):
    nothing = torch.zeros(len(gold), 1)
    return (
        torch.cat([log_probs, nothing.log()], 1),
        torch.cat([target, nothing], 1),
        gold,
        torch.cat([counts, nothing.long()], 1),
        torch.cat([truth, nothing], 1),
    )


ESTIMATES = {name for name in METRICS if "_expected" in name or "_ceiling" in name}
ONLY_RANKS = {"accuracy", "brier_uncertainty", "second_best_accuracy", "second_best_accuracy_well_defined"}
NOT_OF_THE_MODEL = {
    *ESTIMATES,
    *(name for name in METRICS if name.endswith(("_infinite_items", "_of_truth"))),
    "soft_nll_floor",
    "gold",
    "soft_brier_unbiased_left_out",
}
INVARIANCES = {
    # change -> (what it is, the metrics that it may change, tolerance)
    "another order of the items": (reordered_items, set(), 1e-9),
    # The second choice among classes that nobody chose goes by their index.
    "another order of the classes": (reordered_classes, {"second_best_accuracy"}, 1e-9),
    "every item twice": (repeated_items, {name for name in METRICS if METRICS[name].unit == "items"}, 1e-9),
    "a temperature": (tempered, set(METRICS) - ONLY_RANKS - NOT_OF_THE_MODEL, 1e-9),
    "single precision": (in_single_precision, set(), 1e-4),
    # Votes for it were possible; and it counts as the second choice on unanimous items.
    "a class that nobody names": (with_a_class_that_nobody_names, {"second_best_accuracy", *ESTIMATES}, 1e-9),
}
REDRAWN = {"every item twice"}  # the estimates that are means over draws change a little


@pytest.fixture(scope="module")
def changed():
    """The scores after each change."""
    return {change: score(*make(*crowd())) for change, (make, _, _) in INVARIANCES.items()}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("change", INVARIANCES)
def test_a_change_that_must_not_matter_does_not(change, name, changed):
    _, may_change, tolerance = INVARIANCES[change]
    if name in may_change:
        return
    tolerance = 0.02 if change in REDRAWN and "_ceiling" in name else tolerance
    assert same(changed[change][name], ALL[name], tolerance)


@pytest.mark.parametrize("change", INVARIANCES)
def test_what_a_change_may_change_it_does_change_somewhere(change, changed):
    _, may_change, _ = INVARIANCES[change]
    unmoved = {name for name in may_change if same(changed[change][name], ALL[name])}
    assert unmoved <= {name for name in METRICS if name.endswith("_items")} | {"soft_brier_unbiased_left_out"}


def test_saying_everything_twice_doubles_the_counts_of_items():
    log_probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()
    case = log_probs, torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0]), torch.tensor([[1, 1], [1, 0]])
    once, twice = score(*case), score(*repeated_items(*case))
    for name in (name for name in once if METRICS[name].unit == "items"):
        assert twice[name] == 2 * once[name] > 0


def test_a_model_that_copies_the_people_reaches_the_floor():
    _, target, gold, counts, _ = crowd()
    perfect = score(target.log(), target, gold, counts)
    assert perfect["soft_nll"] == pytest.approx(perfect["soft_nll_floor"], abs=1e-12)
    for name in ("kl", "js", "soft_brier"):
        assert perfect[name] == pytest.approx(0, abs=1e-12)
    for name in ("second_best_accuracy", "second_best_accuracy_well_defined", "entropy_pearson", "entropy_spearman"):
        assert perfect[name] == pytest.approx(1, abs=1e-12)
    assert perfect["soft_nll"] == pytest.approx(perfect["kl"] + perfect["soft_nll_floor"])
    assert perfect["soft_brier_unbiased"] < 0  # it is closer to the votes than the truth is


def test_a_model_that_knows_the_truth_has_no_divergence_from_it_but_some_from_the_votes():
    _, target, gold, counts, truth = crowd()
    knowing = score(truth.log(), target, gold, counts, truth)
    assert knowing["kl_to_truth"] == pytest.approx(0, abs=1e-12)
    assert knowing["kl"] > 0.03
    assert ALL["kl_to_truth"] == pytest.approx(float(kl(crowd()[0], truth).mean()))


def test_without_gold_the_majority_stands_in_and_the_output_says_so():
    log_probs, target, gold, _, _ = crowd()
    assert score(log_probs, target, gold)["gold"] == "given"
    unlabelled = score(log_probs, target)
    assert unlabelled["gold"] == "majority"
    assert unlabelled == score(log_probs, target, torch.from_numpy(target.numpy().argmax(1))) | {"gold": "majority"}


def test_a_mean_over_infinite_items_is_null_with_their_number_and_the_mean_of_the_rest():
    log_probs = torch.tensor([[1.0, 0.0], [0.5, 0.5]]).log()
    scores = score(log_probs, torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0]))
    for name in ("soft_nll", "kl", "nll_gold"):
        assert scores[name] is None
        assert scores[f"{name}_infinite_items"] == 1
        assert scores[f"{name}_finite_mean"] == pytest.approx(math.log(2))


EDGES = {
    "one class": (torch.zeros(3, 1), torch.ones(3, 1), torch.zeros(3).long(), torch.tensor([[2], [1], [3]])),
    "one item": (torch.tensor([[0.7, 0.3]]).log(), torch.tensor([[0.5, 0.5]]), torch.tensor([0]), torch.tensor([[1, 1]])),
    "one vote per item": (torch.full((2, 2), 0.5).log(), torch.eye(2), torch.tensor([0, 1]), torch.eye(2).long()),
    "confidence 1, right": (torch.eye(3).log(), torch.eye(3), torch.arange(3), 4 * torch.eye(3).long()),
    "confidence 1, wrong": (torch.eye(3).log(), torch.eye(3).roll(1, 0), torch.tensor([2, 0, 1]), None),
    "all tied": (
        torch.full((4, 4), 0.25).log(),
        torch.full((4, 4), 0.25),
        torch.zeros(4).long(),
        torch.ones(4, 4).long(),
    ),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edge_cases_give_plain_numbers_or_null(edge):
    scores = score(*EDGES[edge])
    json.dumps(scores, allow_nan=False)
    for name, value in scores.items():
        if METRICS[name].unit in {"share", "probability"} and value is not None:
            assert 0 <= value <= 1


def test_edge_cases_have_the_values_they_should():
    assert score(*EDGES["one class"])["second_best_accuracy"] is None
    assert score(*EDGES["one class"])["accuracy"] == 1
    assert score(*EDGES["one item"])["entropy_pearson"] is None
    assert score(*EDGES["one vote per item"])["soft_brier_unbiased"] is None
    assert score(*EDGES["one vote per item"])["soft_brier_unbiased_left_out"] == 2
    assert score(*EDGES["confidence 1, right"])["smooth_ece"] == 0
    assert score(*EDGES["confidence 1, right"])["confidence_wrong"] is None
    assert score(*EDGES["confidence 1, wrong"])["smooth_ece"] == 1
    assert score(*EDGES["confidence 1, wrong"])["confidence_right"] is None
    assert score(*EDGES["confidence 1, wrong"])["soft_nll_finite_mean"] is None
    assert score(*EDGES["all tied"])["accuracy"] == 1  # the lowest class index
    assert score(*EDGES["all tied"])["second_best_accuracy_well_defined"] is None


rows_of_three = st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda row: sum(row) > 0.01)


def distribution(row):
    return (torch.tensor([row], dtype=torch.float64) / sum(row)).clamp(0, 1)


@settings(max_examples=200, deadline=None)
@given(rows_of_three, rows_of_three)
@pytest.mark.parametrize("name", PROPER)
def test_no_prediction_beats_the_distribution_itself(name, p, q):
    p, q = distribution(p), distribution(q)
    assert float(PROPER[name](q.log(), p)) >= float(PROPER[name](p.log(), p)) - 1e-12


@settings(max_examples=100, deadline=None)
@given(rows_of_three, rows_of_three, st.integers(0, 2))
def test_hand_written_sums_agree(p, q, label):
    p, q = distribution(p), distribution(q)
    pairs = list(zip(p[0].tolist(), q[0].tolist(), strict=True))
    cross = sum(0 if a == 0 else math.inf if b == 0 else -a * math.log(b) for a, b in pairs)
    own = sum(0 if a == 0 else a * math.log(a) for a, _ in pairs)
    assert float(soft_nll(q.log(), p)) == pytest.approx(cross, abs=1e-12)
    assert float(kl(q.log(), p)) == pytest.approx(cross + own, abs=1e-12)
    assert float(soft_brier(q, p)) == pytest.approx(sum((a - b) ** 2 for a, b in pairs), abs=1e-12)
    assert float(nll_gold(q.log(), torch.tensor([label]))) == float(-q.log()[0, label])
    assert 0 <= float(js(q, p)) <= math.log(2) + 1e-12
    assert float(js_distance(q, p)) == pytest.approx(math.sqrt(float(js(q, p))))


GOOD = (torch.tensor([[0.2, 0.8], [0.6, 0.4]]).log(), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
BAD = {
    "logits as log-probabilities": (
        (torch.tensor([[1.0, 3.0], [0.0, 1.0]]), GOOD[1]),
        "sum to 22.8038, not 1.*log_softmax",
    ),
    "probabilities as log-probabilities": ((GOOD[0].exp(), GOOD[1]), "not 1.*through log"),
    "NaN": ((torch.full((2, 2), math.nan), GOOD[1]), "row 0 has NaN"),
    "counts as the target": ((GOOD[0], torch.tensor([[1, 1], [2, 0]])), "counts or labels, not probabilities"),
    "float counts as the target": ((GOOD[0], torch.tensor([[1.0, 1.0], [2.0, 0.0]])), "counts, pass them as votes"),
    "one-vote counts as the target": ((GOOD[0], torch.eye(2).long()), "counts or labels, not probabilities"),
    "a target that does not sum to 1": ((GOOD[0], torch.tensor([[0.5, 0.49], [1.0, 0.0]])), "sum to 0.99, not 1"),
    "other shapes": ((GOOD[0], torch.full((2, 4), 0.25)), r"\[2, 4\] does not match the predictions \[2, 2\]"),
    "nothing": ((torch.zeros(0, 2), torch.zeros(0, 2)), "at least one of each"),
    "one dimension": ((torch.zeros(2), torch.zeros(2)), "at least one of each"),
    "soft gold": ((*GOOD, GOOD[1]), "Give a hard-label metric int64"),
    "float gold": ((*GOOD, torch.tensor([0.0, 1.0])), "Give a hard-label metric int64"),
    "too few gold labels": ((*GOOD, torch.tensor([0])), "1 labels for 2 items"),
    "gold outside the classes": ((*GOOD, torch.tensor([0, 2])), "outside 0…1"),
    "shares as counts": ((*GOOD, None, GOOD[1]), "do not say how many people voted"),
    "an item without votes": ((*GOOD, None, torch.tensor([[1, 1], [0, 0]])), "row 1 has a negative count, or no vote"),
    "counts of other votes": ((*GOOD, None, torch.tensor([[1, 1], [1, 1]])), "do not give the shares in `target`"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_raises_and_the_message_names_it(mistake):
    arguments, message = BAD[mistake]
    with pytest.raises(InputError, match=f"(?s){message}"):
        score(*arguments)
