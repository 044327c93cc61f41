"""LightGBM: one epoch is one round of boosting, and each round has labels of its own. The lines that matter are marked.

    python examples/lightgbm_rounds.py

LightGBM takes one hard label per row. An objective of your own lifts that: the gradient of the cross-entropy is the
model's probability minus the label, whether the label is one class or a distribution.
"""

import lightgbm
import numpy as np
import torch
from scipy.special import softmax

from dissensus import datasets, soft
from dissensus.metrics import score

CLASSES = 10


def objective(labels):
    """Cross-entropy to `labels(round)`."""
    one_hot = np.eye(CLASSES)
    rounds = iter(range(10**9))

    def gradient(raw_scores, _):
        target = labels(next(rounds)).numpy()  # <- a round is an epoch
        target = one_hot[target] if target.ndim == 1 else target
        probs = softmax(raw_scores, axis=1)
        return probs - target, 2 * probs * (1 - probs)

    return gradient


def main(rounds=40):
    data = datasets.load("digits", votes=10)
    x = data.x.flatten(1).numpy().astype(np.float64)
    train, test = np.arange(1400), np.arange(1400, 1797)

    labels = soft(data.votes, rows=train)  # <- or sampled(…), multipass(…)
    table = lightgbm.Dataset(x[train], label=np.zeros(len(train)))  # LightGBM wants some label; the objective has ours
    settings = {
        "objective": objective(labels),  # <-
        "num_class": CLASSES,
        "num_leaves": 8,
        "learning_rate": 0.1,
        "verbosity": -1,
        "num_threads": 1,
        "seed": 0,
    }
    model = lightgbm.train(settings, table, num_boost_round=rounds)
    log_probs = torch.log_softmax(torch.from_numpy(model.predict(x[test], raw_score=True)), 1)
    return score(log_probs, data.people[test])["soft_nll"]


if __name__ == "__main__":
    print(f"soft NLL on held-out digits: {main():.4f}")
