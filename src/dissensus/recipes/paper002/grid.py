"""The runs of 002: data, head, the ways to use votes, the grid of §3.3, and what every report says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from dissensus.engine.measures import paired
from dissensus.experiments.description import Analysis, Node, Panel, Training, Tuned
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.targets import Majority
from dissensus.models import Mlp
from dissensus.training.optimisers import Adam
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant, EarlyStopping, Plateau, Schedule
from dissensus.training.splits import Holdout

SETS = {
    "ChaosNLI": ("chaosnli", "minilm"),
    "POPQUORN": ("popquorn", "minilm"),
    "CIFAR-10H-Hard": ("cifar10h_hard", "efficientnet-lite0"),
}
"""002's name: (data set, encoder)"""

SOFT = Recipe(
    model=Mlp(standardise=False),
    split=Holdout(0.2, fixed=0),
    validation=Holdout(0.25),
    optimiser=Adam(),
    schedule=Constant(),
    epochs=20,
    batch=32,
    stopping=EarlyStopping(),
    best=Best("validation"),
)
METHODS = {
    "Hard": replace(SOFT, target=Majority()),
    "Soft": SOFT,
    "SLS": replace(SOFT, delivery=Sampled()),
    "Multipass": replace(SOFT, delivery=Multipass()),
}


@dataclass(frozen=True)
class Size:
    """The grid, and the seeds that its winner is trained anew on."""

    rates: tuple[float, ...]
    batches: tuple[int, ...]
    epochs: tuple[int, ...]
    decays: tuple[float, ...]
    schedules: tuple[Schedule, ...]
    seeds: tuple[int, ...]


SIZES = {
    "smoke": Size((1e-2,), (8,), (2, 3), (0.0,), (Constant(), Plateau()), (1, 2)),
    "laptop": Size((1e-3, 1e-4, 1e-5), (32,), (20,), (0.0, 1e-4), (Constant(), Plateau()), tuple(range(1, 6))),
    "paper": Size(
        (1e-3, 1e-4, 1e-5), (8, 16, 32), (10, 15, 20), (0.0, 1e-4), (Constant(), Plateau()), tuple(range(1, 11))
    ),
}

Seeds = tuple[int, ...]

HEADS = (
    "Differs from 002: the features are MiniLM sentence embeddings and EfficientNet-Lite0 image features, which travel "
    "in Python packages, in place of OpenAI's text-embedding-3-large and DINOv2-small. So levels are not comparable with "
    "the paper's; the difference between rows is.",
    "Of a pair of sentences u and v the head sees [u, v, |u − v|, u ∘ v]. It is Linear(256)–GELU–Dropout(0.2)–Linear, on "
    "features as the encoder gives them. 002 states no width, no dropout rate and no encoding of pairs.",
    "One fifth of the items judges, the same for all; a quarter of the others is for validation, drawn anew with each "
    "seed. The settings were chosen on seed 0, each method for itself, by its own validation loss; ties went to fewer "
    "epochs.",
)
TIES = (
    "Accuracy is against the majority vote; ties go to the lowest class. 18.9% of POPQUORN's texts have no single winner."
)


@cache
def tuned(dataset: str, method: str, size: Size) -> Tuned:
    """A method with its own grid: fewer epochs first, since ties go to the first."""
    name, features = SETS[dataset]
    recipe = replace(METHODS[method], data=name, options=(("features", features),))
    grid = product(size.epochs, size.rates, size.batches, size.decays, size.schedules)
    return Tuned(
        replace(recipe, monitored=True),
        tuple(
            replace(recipe, keep="curve", optimiser=Adam(rate, decay), schedule=schedule, epochs=epochs, batch=batch)
            for epochs, rate, batch, decay, schedule in grid
        ),
    )


@dataclass(frozen=True)
class Runs:
    """The finished runs of all methods on all data sets, as nodes of a plan."""

    size: Size
    seeds: Seeds

    @classmethod
    def at(cls, scale: str, seeds: Seeds | None) -> Runs:
        """Of a scale, on these seeds in place of its own."""
        return cls(SIZES[scale], seeds or SIZES[scale].seeds)

    def rows(self, dataset: str, *methods: str) -> dict[str, Tuned]:
        """The rows of a panel."""
        return {method: tuned(dataset, method, self.size) for method in methods}

    def of(self, dataset: str, method: str) -> tuple[Training, ...]:
        """A run a seed, with the settings that the grid chose."""
        return tuple(Training(tuned(dataset, method, self.size), seed) for seed in self.seeds)

    def each(self, dataset: str, *methods: str) -> dict[str, tuple[Node, ...]]:
        """The same of several methods, in pairs of equal seed."""
        return {method: self.of(dataset, method) for method in methods}

    def longest(self, dataset: str, method: str) -> tuple[Training, ...]:
        """Those of the grid with the most epochs: of every other setting one."""
        found = tuned(dataset, method, self.size)
        most = max(self.size.epochs)
        return tuple(Training(one, found.grid_seed) for one in found.grid if one.epochs == most)

    def soft_against_hard(self, dataset: str) -> Analysis:
        """Tests and improvements."""
        return Analysis(paired, (*self.of(dataset, "Soft"), *self.of(dataset, "Hard")))

    def panels(self, baseline: str, *methods: str) -> tuple[Panel, ...]:
        """A panel a data set, judged at the best validation epoch."""
        return tuple(Panel(name, self.rows(name, *methods), baseline, checkpoint="best") for name in SETS)
