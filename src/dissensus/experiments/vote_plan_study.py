"""`dissensus plan`: learning curves over items and votes per item, and what the next votes should be spent on."""

from __future__ import annotations

from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.datasets.kept_sets import OWN, KeptSet
from dissensus.engine.measures import LearningPoint
from dissensus.errors import InputError
from dissensus.experiments.description import Experiment, ValueTable, VoteBudget
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import Measured
from dissensus.experiments.vote_budget import Spending, grid_of
from dissensus.training.splits import Folds

FRACTIONS = (8, 4, 2, 1)
"""A learning curve has the pool of training items divided by each of these."""
VOTES = (1, 2, 3, 5, 10, 20, 50, 100, 200)
FOLDS = 5
LEAST_ITEMS = 100

COLUMNS = {
    "soft NLL": Measured("soft_nll"),
    "accuracy": Measured("accuracy"),
    "entropy correlation": Measured("entropy_spearman"),
}


def vote_plan(kept: KeptSet, data: Data, budget: int, repeats: int = 2, notes: tuple[str, ...] = ()) -> Experiment[Node]:
    """Nested subsamples of items and votes; each repeat holds out a fifth of the items, with all their votes."""
    if data.counts is None:
        raise InputError("shares do not say how many votes there are", where=data.name, hint="Give the votes themselves")
    per_item = data.counts.sum(1)
    most = int(per_item.median())
    if most < 2 or len(data) < LEAST_ITEMS:
        raise InputError(
            f"{len(data):,} items with a median of {most} votes say too little about what more of them would bring",
            where=data.name,
            hint=f"Collect two or more votes per item for at least {LEAST_ITEMS} items",
        )
    if int((data.counts.sum(0) > 0).sum()) < 2:
        what = "everybody chose the same class: more votes would teach nothing"
        raise InputError(what, where=data.name, hint="Check how the votes were read (--labels)")
    spending = Spending(len(data), float(per_item.double().mean()), budget)
    ref, pool = DataRef(OWN, kept.options), len(data) - -(-len(data) // FOLDS)
    sizes, votes = [pool // part for part in FRACTIONS], grid_of(VOTES, most)
    cells = {
        str(k): {
            str(n): {
                str(seed): Measurement(LearningPoint(ref, Folds(FOLDS, seed % FOLDS, seed // FOLDS), n, k, seed))
                for seed in range(repeats * FOLDS)
            }
            for n in sizes
        }
        for k in votes
    }
    labelled = {f"{k} vote{'s' * (k != '1')} per item": points for k, points in cells.items()}
    return Experiment(
        key="plan",
        title="Where should the next votes go?",
        question=f"You have {len(data):,} items with about {spending.votes:,.3g} votes each. Should {budget:,} more "
        "votes go to these items, or to new ones?",
        scale="",
        notes=notes,
        exhibits=(
            ValueTable(
                key="curves",
                title="Learning curves",
                cells=labelled,
                columns=COLUMNS,
                picture="lines",
                axes=("items", ""),
                note="Logistic regression on some of the items and some of their votes, judged on held-out items with "
                f"all their votes: mean and sd over {repeats} × {FOLDS} folds. Subsamples are nested.",
            ),
        ),
        budget=VoteBudget("curves", len(data), spending.votes, budget, 1 / (FOLDS - 1)),
    )
