"""How good is the estimate of what the truth would score? Crowds whose truth is known, from 2 to 50 votes per item.

    python benchmarks/ceilings.py [--designs]

For every design a truth is made, votes are drawn from it, the truth itself is scored on the votes, and
`metrics.estimate_truth_scores` guesses that score from the votes alone. Older ways stand beside it: the entropies of
Miller and Madow, Chao and Shen, and Grassberger; and the correlation of two halves of the votes with Spearman and Brown's
formula. About two minutes. Without DISSENSUS_DATA the designs made from CIFAR-10H, ChaosNLI and POPQUORN are left out.
"""

import argparse
import os
import time

import numpy as np
import torch
from scipy.special import digamma

from dissensus import metrics
from dissensus.datasets import chaosnli, cifar10h, digits, popquorn

ITEMS = 2000
VOTES = (2, 3, 5, 10, 20, 50)
CLASSES = (2, 3, 5, 10)


def flat(classes, parameter, seed=0):
    """The same Dirichlet for every item."""
    return np.random.default_rng(seed).dirichlet(np.full(classes, parameter), size=ITEMS)


def softmax_of_gaussians(classes, spread, seed=0):
    """A family that is not the estimator's."""
    scores = np.exp(spread * np.random.default_rng(seed).normal(size=(ITEMS, classes)))
    return scores / scores.sum(1, keepdims=True)


def nearly_certain(classes, share, seed=0):
    """This share of the items has 3% of dissent on average; the others are flat."""
    generator = np.random.default_rng(seed)
    truth, main = flat(classes, 0.5, seed), generator.integers(classes, size=ITEMS)
    dissent = np.minimum(generator.exponential(0.03, size=ITEMS), 0.5)
    others = generator.dirichlet(np.full(classes - 1, 0.3), size=ITEMS) * dissent[:, None]
    for item in range(int(share * ITEMS)):
        truth[item] = np.insert(others[item], main[item], 1 - dissent[item])
    return truth


def certain(classes, share, seed=0):
    """This share of the items is beyond any doubt; the others are flat."""
    truth = flat(classes, 0.5, seed)
    sure = int(share * ITEMS)
    truth[:sure] = np.eye(classes)[np.random.default_rng(seed).integers(classes, size=sure)]
    return truth


def two_classes(classes, share, slips, seed=0):
    """This share of the items is open between two classes, and people slip into any class now and then."""
    generator = np.random.default_rng(seed)
    first = generator.integers(classes, size=ITEMS)
    second = (first + generator.integers(1, classes, size=ITEMS)) % classes
    doubt = np.where(generator.random(ITEMS) < share, generator.random(ITEMS), 0.0)[:, None]
    slip = np.minimum(generator.exponential(slips, size=(ITEMS, 1)), 0.5)
    one_hot = np.eye(classes)
    return (1 - slip) * ((1 - doubt) * one_hot[first] + doubt * one_hot[second]) + slip / classes


def of_people(load, parameter=0.0, seed=0):
    """The shares of real votes; with a parameter, one draw from each item's Dirichlet posterior."""
    generator = np.random.default_rng(seed)
    counts = load().votes.counts
    counts = counts[generator.permutation(len(counts))[:ITEMS]]
    truth = generator.standard_gamma(counts + parameter) if parameter else counts.astype(float)
    return truth / truth.sum(1, keepdims=True)


def designs():
    """Name -> (group, truth)."""
    made = {"digits crowd": ("people", digits.load().truth.numpy())}
    if os.environ.get("DISSENSUS_DATA"):
        made["CIFAR-10H shares"] = "people", of_people(cifar10h.load)
        made["CIFAR-10H posterior"] = "people", of_people(cifar10h.load, 0.02)
        made["ChaosNLI shares"] = "people", of_people(chaosnli.load)
        made["POPQUORN posterior"] = "people", of_people(popquorn.load, 0.3)
    for k in CLASSES:
        for parameter in (0.1, 0.3, 1.0, 3.0):
            made[f"flat {parameter:g}, {k} classes"] = "simulated", flat(k, parameter)
        for spread in (1, 2, 4, 8):
            made[f"softmax {spread}, {k} classes"] = "simulated", softmax_of_gaussians(k, spread)
        for share in (0.3, 0.6, 0.9):
            made[f"{share:.0%} nearly certain, {k} classes"] = "simulated", nearly_certain(k, share)
            made[f"{share:.0%} certain, {k} classes"] = "certain", certain(k, share)
    for k in (3, 10):
        for share in (0.2, 0.6):
            for slips in (0.005, 0.05):
                name = f"{share:.0%} open between two, {slips:.1%} slips, {k} classes"
                made[name] = "simulated", two_classes(k, share, slips)
    return made


def entropy(probs):
    return -(probs * np.log(np.where(probs > 0, probs, 1))).sum(1)


def miller_madow(counts):
    votes = counts.sum(1)
    return float((entropy(counts / votes[:, None]) + ((counts > 0).sum(1) - 1) / (2 * votes)).mean())


def chao_shen(counts):
    votes = counts.sum(1, keepdims=True)
    singles = (counts == 1).sum(1, keepdims=True)
    p = counts / votes * np.where(singles == votes, 1 / votes, 1 - singles / votes)
    seen = np.where(counts > 0, 1 - (1 - p) ** votes, 1)
    return float((-p * np.log(np.where(counts > 0, p, 1)) / seen).sum(1).mean())


def grassberger(counts):
    n = np.maximum(np.arange(counts.max() + 1), 1)
    g = digamma(n) + 0.5 * (-1.0) ** n * (digamma((n + 1) / 2) - digamma(n / 2))
    votes = counts.sum(1)
    return float((np.log(votes) - (counts * g[counts]).sum(1) / votes).mean())


def two_halves(counts, kind, halvings=10):
    """Spearman and Brown's formula on the entropies of two random halves of each item's votes; NaN where undefined."""
    generator = np.random.default_rng(0)
    items, classes = counts.shape
    ballots = np.repeat(np.tile(np.arange(classes), items), counts.ravel()).reshape(items, -1)
    middle = ballots.shape[1] // 2
    correlations = []
    for _ in range(halvings):
        mixed = generator.permuted(ballots, axis=1)
        halves = mixed[:, :middle], mixed[:, middle:]
        shares = [np.stack([(half == k).mean(1) for k in range(classes)], 1) for half in halves]
        r = metrics.correlation(*map(entropy, shares), kind=kind)
        correlations.append(np.nan if r is None else r)
    r = np.mean(correlations)
    return np.sqrt(2 * r / (1 + r)) if r > 0 else np.nan


def measure(truth, votes):
    """What the truth really scores, the estimates with their ranges, the error of every way, and the seconds it took."""
    counts = np.random.default_rng(votes).multinomial(votes, truth)
    shares, p = torch.from_numpy(counts / votes), torch.from_numpy(truth)
    nll = float(metrics.soft_nll(p.log(), shares).mean())
    pearson, spearman = (metrics.entropy_correlation(p, shares, kind=kind) for kind in ("pearson", "spearman"))
    start = time.perf_counter()
    estimate = metrics.estimate_truth_scores(torch.from_numpy(counts))
    seconds = time.perf_counter() - start
    errors = {
        "soft NLL": estimate.soft_nll.value / nll - 1,
        "Miller–Madow": miller_madow(counts) / nll - 1,
        "Chao–Shen": chao_shen(counts) / nll - 1,
        "Grassberger": grassberger(counts) / nll - 1,
        "Pearson": estimate.entropy_pearson.value - pearson,
        "two halves": two_halves(counts, "pearson") - pearson,
        "Spearman": estimate.entropy_spearman.value - spearman,
        "two halves ": two_halves(counts, "spearman") - spearman,
    }
    return (
        (nll, pearson, spearman),
        (estimate.soft_nll, estimate.entropy_pearson, estimate.entropy_spearman),
        errors,
        seconds,
    )


def main(show_designs):
    results = {}
    for name, (group, truth) in designs().items():
        if show_designs:
            print(f"\n{name}\n votes | soft NLL: truth, estimate (range) | Pearson | Spearman")
        for votes in VOTES:
            results.setdefault((group, votes), []).append(result := measure(truth, votes))
            pairs = zip(result[0], result[1], strict=True)
            cells = [f"{real:.3f} {e.value:.3f} ({e.low:.3f} to {e.high:.3f})" for real, e in pairs]
            if show_designs:
                print(f" {votes:5} | " + " | ".join(cells), flush=True)
    columns = next(iter(results.values()))[0][2]
    print("\nErrors: their mean size, and the largest one")
    print(f"| crowds | votes | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for (group, votes), several in results.items():
        print(f"| {group} | {votes} | {' | '.join(sizes_of_errors(several, column) for column in columns)} |")
    print("\nRanges: their mean width, and how often the truth is inside or at most 0.03 (3% of the soft NLL) outside")
    print(
        "| crowds | votes | soft NLL | inside | Pearson | inside | Spearman | inside |\n|---|---|---|---|---|---|---|---|"
    )
    for (group, votes), several in results.items():
        print(f"| {group} | {votes} | {' | '.join(widths(several))} |")
    seconds = [result[3] for several in results.values() for result in several]
    print(f"\nseconds per estimate: {np.mean(seconds):.2f}")


def sizes_of_errors(results, column):
    errors = np.array([result[2][column] for result in results])
    errors = errors[np.isfinite(errors)]
    if not len(errors):
        return "undefined"
    size, largest = np.abs(errors).mean(), errors[np.abs(errors).argmax()]
    is_share = column in ("soft NLL", "Miller–Madow", "Chao–Shen", "Grassberger")
    return f"{size:.0%} ({largest:+.0%})" if is_share else f"{size:.2f} ({largest:+.2f})"


def widths(results):
    cells = []
    for part, form in enumerate((".0%", ".2f", ".2f")):
        real = np.array([result[0][part] for result in results])
        low, high = (np.array([getattr(result[1][part], end) for result in results]) for end in ("low", "high"))
        scale = real if part == 0 else 1.0
        inside = (low - 0.03 * scale <= real) & (real <= high + 0.03 * scale)
        cells += [format(((high - low) / scale).mean(), form), f"{inside.mean():.0%}"]
    return cells


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", action="store_true", help="print every design")
    main(parser.parse_args().designs)
