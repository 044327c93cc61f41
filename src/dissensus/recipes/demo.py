"""The demo: 1,797 real digits, a simulated crowd whose true distribution is known, eight ways to use its votes.

dissensus demo                # laptop scale: 75 runs, about a minute on two cores
dissensus run demo --scale smoke
"""

from __future__ import annotations

from dataclasses import replace

from dissensus.experiments.description import Experiment
from dissensus.experiments.plan import Node, score_table
from dissensus.labels.delivery import Multipass, Sampled, Soft
from dissensus.labels.mixing import Mixup
from dissensus.labels.targets import Dirichlet, Empirical, Majority, Shuffled, Smoothed
from dissensus.models import Smallcnn
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe, Resampled
from dissensus.training.schedules import Cosine

SOFT = Recipe(
    model=Smallcnn(),
    data="digits",
    target=Empirical(),
    delivery=Soft(),
    optimiser=AdamW(lr=0.01),
    schedule=Cosine(warmup=1),
    epochs=20,
    batch=64,
)

METHODS = {
    "Soft": SOFT,
    "Sampled": replace(SOFT, delivery=Sampled()),
    "Multipass": replace(SOFT, delivery=Multipass()),
    "Majority": replace(SOFT, target=Majority()),
    "Label smoothing": replace(SOFT, target=Smoothed(0.1)),
    "Mixup": replace(SOFT, target=Majority(), mixing=Mixup(1.0)),
    "Shuffled (control)": replace(SOFT, target=Shuffled(Empirical())),
}

FEW = 3
SIZES = {"smoke": (2, 2), "laptop": (20, 5), "paper": (60, 10)}
"""scale: (epochs, seeds)"""
COLUMNS = ("soft_nll", "kl", "kl_to_truth", "accuracy", "ece_mass_15", "entropy_spearman")


def demo(scale: str, seeds: tuple[int, ...] | None = None) -> Experiment[Node]:
    """Seven methods with all 50 votes; the same and shrunk votes with only 3 per item."""
    epochs, usual = SIZES[scale]
    used = seeds or tuple(range(usual))
    full = {label: replace(recipe, epochs=epochs) for label, recipe in METHODS.items()}
    shrunk = {"Soft (shrunk)": replace(full["Soft"], target=Dirichlet(strength=5))}
    few = {label: replace(recipe, votes=Resampled(FEW, replace=False)) for label, recipe in (full | shrunk).items()}
    note = f"Training sees {FEW} of each item's 50 votes, drawn without replacement."
    return Experiment(
        key="demo",
        title="How should votes reach the optimiser?",
        question="Fifty people labelled each digit, and they disagreed. Which way of training on their votes gives a "
        "classifier whose probabilities match what people would say? What if only three people had voted?",
        scale=scale,
        exhibits=(
            score_table(full, used, key="all-votes", title="50 votes per item", baseline="Soft", columns=COLUMNS),
            score_table(
                few, used, key="few-votes", title=f"{FEW} votes per item", baseline="Soft", columns=COLUMNS, note=note
            ),
        ),
    )
