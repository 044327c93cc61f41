"""All metrics of 10,000 x 10 predictions with some 50 votes an item, against the same numbers from other libraries.

    python benchmarks/score_speed.py

The others have six of the keys. The ceiling's rival is the loop anyone would write first, over a few halvings and scaled
to 200.
"""

import math
import time

import numpy as np
import torch
from netcal.metrics import ECE
from scipy import stats as scipy_stats
from sklearn.metrics import log_loss

from dissensus import metrics

HALVINGS = 4


def crowd(n=10_000, k=10):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(k, 0.05), size=n)
    counts = np.stack([rng.multinomial(rng.integers(47, 64), row) for row in truth])
    logits = np.log(truth + 0.02) + 0.5 * rng.normal(size=truth.shape)
    return torch.log_softmax(torch.from_numpy(logits), 1), torch.from_numpy(counts)


def others(log_probs, target):
    q, p, gold = log_probs.exp().numpy(), target.numpy(), target.numpy().argmax(1)
    entropies = scipy_stats.entropy(q, axis=1), scipy_stats.entropy(p, axis=1).round(10)
    return {
        "kl": scipy_stats.entropy(p, q, axis=1).mean(),
        "nll_gold": log_loss(gold, q, labels=range(q.shape[1])),
        "ece_width_10": ECE(10).measure(q, gold),
        "ece_width_15": ECE(15).measure(q, gold),
        "entropy_pearson": scipy_stats.pearsonr(*entropies).statistic,
        "entropy_spearman": scipy_stats.spearmanr(*entropies).statistic,
    }


def naive_ceiling(counts):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(HALVINGS):
        first = np.stack([rng.multivariate_hypergeometric(row, row.sum() // 2) for row in counts.numpy()])
        entropies = (scipy_stats.entropy(half, axis=1) for half in (first, counts.numpy() - first))
        found.append(scipy_stats.pearsonr(*entropies).statistic)
    r = np.mean(found)
    return math.sqrt(2 * r / (1 + r))


def timed(call, *arguments):
    start = time.perf_counter()
    return call(*arguments), time.perf_counter() - start


def main():
    torch.set_num_threads(1)
    log_probs, counts = crowd()
    target = counts / counts.sum(1, keepdim=True).double()
    _, cold = timed(metrics.score, log_probs, target, None, counts)
    ours, whole = timed(metrics.score, log_probs, target, None, counts)
    plain, without = timed(metrics.score, log_probs, target)
    theirs, rivals = timed(others, log_probs, target)
    apart = max(abs(theirs[name] - plain[name]) for name in theirs)
    print(f"all {len(ours)} keys: {whole:.2f} s ({cold:.2f} s the first time)")
    print(
        f"without counts: ours {without:.3f} s | scipy, scikit-learn, netcal, {len(theirs)} of them: {rivals:.3f} s",
        end="",
    )
    print(f" | {rivals / without:.1f}x | max |Δ| {apart:.0e}")
    _, ceiling = timed(metrics.entropy_correlation_ceiling, counts)
    naive, few = timed(naive_ceiling, counts)
    loop = few * 200 / HALVINGS
    print(f"ceiling, 200 halvings: ours {ceiling:.2f} s | loop {loop:.0f} s | {loop / ceiling:.0f}x", end="")
    print(f" | max |Δ| {abs(naive - ours['entropy_pearson_ceiling']):.0e} (random)")


if __name__ == "__main__":
    main()
