import math
import multiprocessing

import pytest
import torch
from torch import distributed

from dissensus.errors import InputError
from dissensus.metrics import METRICS, PER_ITEM, RunningMetric, score

NEED_EVERYTHING_AT_ONCE = {
    "ece_width_10", "ece_width_15", "ece_mass_15", "smooth_ece",
    "brier_reliability", "brier_resolution", "brier_uncertainty", "brier_within_bin_variance",
    "brier_within_bin_covariance", "entropy_pearson", "entropy_spearman", "gold",
    "soft_nll_expected", "soft_nll_expected_low", "soft_nll_expected_high",
    "entropy_pearson_ceiling", "entropy_pearson_ceiling_low", "entropy_pearson_ceiling_high",
    "entropy_spearman_ceiling", "entropy_spearman_ceiling_low", "entropy_spearman_ceiling_high",
    "entropy_pearson_of_truth", "entropy_spearman_of_truth",
}  # fmt: skip


def inputs(items=50, classes=4, seed=0, with_zero=False):
    draw = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(items, classes, generator=draw, dtype=torch.float64).log_softmax(1)
    counts = torch.randint(0, 4, (items, classes), generator=draw)
    counts[torch.arange(items), torch.randint(0, classes, (items,), generator=draw)] += 1
    truth = torch.rand(items, classes, generator=draw, dtype=torch.float64) + 0.1
    if with_zero:
        log_probs[3] = torch.tensor([0.0, *[-math.inf] * (classes - 1)])
        counts[3] = torch.arange(classes)
    return {
        "log_probs": log_probs,
        "target": counts / counts.sum(1, keepdim=True).double(),
        "gold": torch.randint(0, classes, (items,), generator=draw),
        "counts": counts,
        "truth": truth / truth.sum(1, keepdim=True),
    }


def part(whole, rows):
    return {name: values[rows] for name, values in whole.items()}


def test_every_metric_can_be_fed_in_batches_or_is_on_the_list_of_those_that_cannot():
    assert set(PER_ITEM) | NEED_EVERYTHING_AT_ONCE == set(METRICS)
    assert not set(PER_ITEM) & NEED_EVERYTHING_AT_ONCE


@pytest.mark.parametrize("with_zero", [False, True])
@pytest.mark.parametrize("name", PER_ITEM)
def test_in_batches_as_in_one_piece(name, with_zero):
    whole = inputs(with_zero=with_zero)
    expected = score(**whole)[name]
    metric = RunningMetric(name)
    for rows in torch.arange(50).split(7):
        metric.update(**part(whole, rows))
    if expected is None:
        assert metric.compute() == math.inf
    else:
        assert float(metric.compute()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", PER_ITEM)
def test_without_gold_the_majority_counts(name):
    whole = inputs()
    del whole["gold"]
    metric = RunningMetric(name)
    metric.update(**whole)
    assert float(metric.compute()) == pytest.approx(score(**whole)[name], rel=1e-12)


@pytest.mark.parametrize("name", PER_ITEM)
def test_a_call_adds_a_batch_and_gives_its_own_value(name):
    whole = inputs()
    first, second = part(whole, slice(20)), part(whole, slice(20, 50))
    metric = RunningMetric(name)
    metric(**first)
    assert float(metric(**second)) == pytest.approx(score(**second)[name], rel=1e-12)
    assert float(metric.compute()) == pytest.approx(score(**whole)[name], rel=1e-12)


def test_after_a_reset_nothing_is_left():
    metric = RunningMetric("soft_nll")
    metric.update(**inputs(seed=1))
    metric.reset()
    assert metric.compute().isnan()
    metric.update(**inputs(seed=2))
    assert float(metric.compute()) == pytest.approx(score(**inputs(seed=2))["soft_nll"])


def test_what_two_metrics_have_seen_adds_up():
    whole = inputs()
    first, second = RunningMetric("kl"), RunningMetric("kl").to("cpu")
    first.update(**part(whole, slice(11)))
    second.update(**part(whole, slice(11, 50)))
    first.merge_state(second)
    assert float(first.compute()) == pytest.approx(score(**whole)["kl"])
    with pytest.raises(InputError, match="js cannot be added to kl"):
        first.merge_state(RunningMetric("js"))


def test_gradients_and_single_precision_do_not_matter():
    whole = inputs()
    metric = RunningMetric("soft_nll")
    metric.update(whole["log_probs"].float().requires_grad_(), whole["target"].float())
    assert not metric.compute().requires_grad
    assert float(metric.compute()) == pytest.approx(score(**whole)["soft_nll"], rel=1e-6)


@pytest.mark.parametrize(("name", "why"), [("ece_mass_15", "needs all predictions at once"), ("elo", "is not a metric")])
def test_what_is_not_a_mean_over_items_is_refused(name, why):
    with pytest.raises(InputError, match=why):
        RunningMetric(name)


@pytest.mark.parametrize(("name", "needed"), [("soft_brier_unbiased", "counts"), ("kl_to_truth", "truth")])
def test_a_metric_says_what_it_needs(name, needed):
    whole = inputs()
    with pytest.raises(InputError, match=f"needs `{needed}`"):
        RunningMetric(name).update(whole["log_probs"], whole["target"])


def test_a_metric_knows_which_way_is_better():
    assert [RunningMetric(name).higher_is_better for name in ("accuracy", "kl", "soft_nll_floor")] == [True, False, None]


def _rank(rank, file, results):
    distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    whole = inputs()
    metric, alone = RunningMetric("soft_nll"), RunningMetric("soft_nll", sync_on_compute=False)
    rows = slice(13) if rank == 0 else slice(13, 50)  # of different sizes: a mean of means would be wrong
    metric.update(**part(whole, rows))
    alone.update(**part(whole, rows))
    results.put((rank, float(metric.compute()), float(metric.compute()), float(alone.compute())))
    distributed.destroy_process_group()


def test_two_processes_compute_the_metric_of_all_their_items(tmp_path):
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    ranks = [fork.Process(target=_rank, args=(rank, tmp_path / "meet", results)) for rank in range(2)]
    for process in ranks:
        process.start()
    values = sorted(results.get(timeout=60) for _ in ranks)
    for process in ranks:
        process.join(60)
    whole = inputs()
    expected = score(**whole)["soft_nll"]
    for rank, once, twice, alone in values:
        assert once == twice == pytest.approx(expected)
        rows = slice(13) if rank == 0 else slice(13, 50)
        assert alone == pytest.approx(score(**part(whole, rows))["soft_nll"])
