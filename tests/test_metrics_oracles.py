"""Against other people's code, where it is right; where it is not, a comment says so."""

import numpy as np
import pytest
import torch
from netcal.metrics import ECE
from scipy import stats as scipy_stats
from scipy.spatial.distance import jensenshannon
from sklearn import metrics as sklearn_metrics
from torchmetrics.functional.classification import multiclass_calibration_error

from dissensus import metrics
from test_metrics import crowd

LOG_PROBS, TARGET, GOLD, _, _ = crowd(n=500, k=6)
PROBS = LOG_PROBS.exp()
CONFIDENCE, CORRECT = metrics.top_label(LOG_PROBS, GOLD)


def test_entropies_are_scipys():
    assert metrics.entropy(TARGET).numpy() == pytest.approx(scipy_stats.entropy(TARGET.numpy(), axis=1), abs=1e-12)


def test_kl_is_scipys():
    assert metrics.kl(LOG_PROBS, TARGET).numpy() == pytest.approx(scipy_stats.entropy(TARGET, PROBS, axis=1), abs=1e-12)


def test_js_distance_is_scipys():
    assert metrics.js_distance(PROBS, TARGET).numpy() == pytest.approx(jensenshannon(PROBS, TARGET, axis=1), abs=1e-9)


def test_nll_gold_is_scikit_learns_log_loss():
    # On probabilities of 0 scikit-learn clips, and so is finite where the truth is +inf: compared away from 0 only.
    theirs = sklearn_metrics.log_loss(GOLD, PROBS, labels=range(6))
    assert float(metrics.nll_gold(LOG_PROBS, GOLD).mean()) == pytest.approx(theirs)


def test_soft_brier_of_one_hot_targets_is_scikit_learns_unscaled_brier_score():
    theirs = sklearn_metrics.brier_score_loss(GOLD, PROBS, labels=range(6), scale_by_half=False)
    one_hot = torch.nn.functional.one_hot(GOLD, 6).double()
    assert float(metrics.soft_brier(PROBS, one_hot).mean()) == pytest.approx(theirs)


def test_accuracy_is_scikit_learns():
    assert metrics.accuracy(LOG_PROBS, GOLD) == pytest.approx(sklearn_metrics.accuracy_score(GOLD, PROBS.argmax(1)))


@pytest.mark.parametrize("bins", [10, 15])
def test_ece_of_equal_width_is_netcals_and_torchmetrics(bins):
    # netcal closes its bins on the left, so only confidences off the borders are compared. torchmetrics works in float32.
    ours = metrics.ece(CONFIDENCE, CORRECT, binning="width", bins=bins)
    assert ours == pytest.approx(ECE(bins).measure(PROBS.numpy(), GOLD.numpy()), abs=1e-9)
    assert ours == pytest.approx(float(multiclass_calibration_error(PROBS, GOLD, 6, n_bins=bins, norm="l1")), abs=1e-5)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_entropy_correlation_is_scipys(kind):
    theirs = {"pearson": scipy_stats.pearsonr, "spearman": scipy_stats.spearmanr}[kind]
    ours = metrics.entropy_correlation(PROBS, TARGET, kind=kind)
    # Rounded for SciPy, which ranks equal shares in another class order by their last bit.
    people = scipy_stats.entropy(TARGET, axis=1).round(10)
    assert ours == pytest.approx(theirs(scipy_stats.entropy(PROBS, axis=1), people).statistic, abs=1e-9)


@pytest.mark.parametrize("decimals", [1, 8])
def test_auroc_and_fpr_at_95_are_scikit_learns(decimals):
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=97).round(decimals), rng.normal(1.5, 1, size=58).round(decimals)
    scores, is_outside = np.concatenate([inside, outside]), np.repeat([0, 1], [97, 58])
    ours = metrics.auroc(torch.from_numpy(inside), torch.from_numpy(outside))
    assert ours == pytest.approx(sklearn_metrics.roc_auc_score(is_outside, scores))
    false, true, _ = sklearn_metrics.roc_curve(1 - is_outside, -scores, drop_intermediate=False)
    assert metrics.fpr_at_95(torch.from_numpy(inside), torch.from_numpy(outside)) == pytest.approx(
        false[true >= 0.95].min()
    )


def test_brier_top_is_scikit_learns_binary_brier_score():
    theirs = sklearn_metrics.brier_score_loss(CORRECT, CONFIDENCE)
    assert metrics.brier_decomposition(CONFIDENCE, CORRECT).score == pytest.approx(theirs)
