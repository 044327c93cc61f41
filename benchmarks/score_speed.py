"""All metrics of 10,000 x 10 predictions with some 50 votes per item, against the same numbers from other libraries.

    python benchmarks/score_speed.py

The others have six of the keys. (How good the estimates from counts are, and how long they take: benchmarks/ceilings.py.)
"""

import time

import numpy as np
import torch
from netcal.metrics import ECE
from scipy import stats as scipy_stats
from sklearn.metrics import log_loss

from dissensus import metrics


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


if __name__ == "__main__":
    main()
