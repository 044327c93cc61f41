"""The runs of Singh et al. 2025 (002): data, head, ways to use votes, the grid of §3.3, and notes for every report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from dissensus.engine.measures import Paired
from dissensus.errors import InputError
from dissensus.experiments.description import PaperNumber, ScoreTable
from dissensus.experiments.plan import Measurement, Node, Training, Tuned, score_table, seeded
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.targets import Majority
from dissensus.models import Mlp
from dissensus.recipes.printed import CITATIONS, attach
from dissensus.training.optimisers import Adam
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant, EarlyStopping, Plateau, Schedule
from dissensus.training.splits import Holdout

CITATION = CITATIONS["002"]

SETS = {"ChaosNLI": ("chaosnli", "text"), "POPQUORN": ("popquorn", "text"), "CIFAR-10H-Hard": ("cifar10h_hard", "image")}
"""The paper's name: (data set, what is encoded)"""

PAPER_ENCODERS = {"text": "openai:text-embedding-3-large", "image": "hf:facebook/dinov2-small"}
OFFLINE_ENCODERS = {"text": "minilm", "image": "efficientnet-lite0"}
"""Their weights come with Python packages."""

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
EVALUATED_ANEW = Holdout(0.2)
METHODS = {
    "Hard": replace(SOFT, target=Majority()),
    "Soft": SOFT,
    "SLS": replace(SOFT, delivery=Sampled()),
    "Multipass": replace(SOFT, delivery=Multipass()),
}


@dataclass(frozen=True)
class Size:
    """The grid, and the seeds on which its winner is trained again."""

    rates: tuple[float, ...]
    batches: tuple[int, ...]
    epochs: tuple[int, ...]
    decays: tuple[float, ...]
    schedules: tuple[Schedule, ...]
    seeds: tuple[int, ...]


SIZES = {
    "smoke": Size((1e-2,), (8,), (2, 3), (0.0,), (Constant(), Plateau()), (1, 2)),
    "laptop": Size((1e-3, 1e-4, 1e-5), (32,), (20,), (0.0, 1e-4), (Constant(), Plateau()), tuple(range(1, 6))),
    "offline": Size(
        (1e-3, 1e-4, 1e-5), (8, 16, 32), (10, 15, 20), (0.0, 1e-4), (Constant(), Plateau()), tuple(range(1, 11))
    ),
}
SIZES["paper"] = SIZES["offline"]  # the scales differ in the encoders alone

Seeds = tuple[int, ...]
Encoders = Mapping[str, str]

HEADS = (
    "For a pair of sentences with embeddings u and v, the input of the head is [u, v, |u − v|, u ∘ v]. The head is "
    "Linear(256)–GELU–Dropout(0.2)–Linear, without standardisation. The paper states no width, no dropout rate and no "
    "encoding of pairs."
)
CHOSEN_ON = (
    "The settings were chosen on seed 0, separately for each method, by its own validation loss; ties went to fewer "
    "epochs."
)
FIXED = (
    "One fifth of the items, the same for all runs, is for evaluation; a quarter of the others is for validation, drawn "
    f"anew for each seed. {CHOSEN_ON}"
)
REDRAWN = (
    "One fifth of the items is for evaluation and a quarter of the others for validation, both drawn anew for each seed. "
    f"{CHOSEN_ON} So items that judge one seed may have trained or validated a head on which settings were chosen: for "
    "both kinds of labels alike."
)


def encoders_at(scale: str, encoders: Encoders | None) -> dict[str, str]:
    """The encoders of a scale, replaced by those that are named."""
    chosen = {**(PAPER_ENCODERS if scale == "paper" else OFFLINE_ENCODERS), **(encoders or {})}
    if unknown := sorted(chosen.keys() - PAPER_ENCODERS.keys()):
        raise InputError(
            f"{', '.join(unknown)} is not encoded here", where="--encoder", hint="Write text=NAME or image=NAME", state=""
        )
    return chosen


TIES = "Accuracy is against the majority vote; ties go to the lowest class. 18.9% of POPQUORN's texts are tied."


@cache
def tuned(dataset: str, method: str, size: Size, encoder: str) -> Tuned:
    """A method with its own grid, fewer epochs first, because ties go to the first setting."""
    recipe = replace(METHODS[method], data=SETS[dataset][0], options=(("features", encoder),))
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
    """The runs of all methods on all data sets, as nodes of a plan.

    With `redrawn`, the seeds are judged on items of their own; the settings remain those that the grid chose on seed 0.
    """

    size: Size
    seeds: Seeds
    encoders: Encoders
    redrawn: bool = False

    @classmethod
    def at(cls, scale: str, seeds: Seeds | None, encoders: Encoders | None, *, redrawn: bool = False) -> Runs:
        """The runs of a scale, on these seeds and with these encoders if they are given."""
        return cls(SIZES[scale], seeds or SIZES[scale].seeds, encoders_at(scale, encoders), redrawn)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says about features, heads and splits."""
        heads = (HEADS, REDRAWN if self.redrawn else FIXED)
        if self.encoders == PAPER_ENCODERS:
            return heads
        text, image = self.encoders["text"], self.encoders["image"]
        theirs = f"{PAPER_ENCODERS['text']} and {PAPER_ENCODERS['image']}"
        return (
            f"Differs from the paper: the features are those of {text} and {image} instead of {theirs}. So absolute "
            "values are not comparable with the paper's; differences between rows are.",
            *heads,
        )

    def tuned(self, dataset: str, method: str) -> Tuned:
        """A method with its own grid."""
        one = tuned(dataset, method, self.size, self.encoders[SETS[dataset][1]])
        return replace(one, recipe=replace(one.recipe, split=EVALUATED_ANEW)) if self.redrawn else one

    def of(self, dataset: str, method: str) -> dict[str, Node]:
        """One run per seed, with the settings that the grid chose."""
        return seeded(self.tuned(dataset, method), self.seeds)

    def groups(self, dataset: str, *methods: str) -> dict[str, dict[str, Node]]:
        """The runs of several methods."""
        return {method: self.of(dataset, method) for method in methods}

    def longest(self, dataset: str, method: str) -> dict[str, Node]:
        """The runs of the grid with the most epochs, one per combination of the other settings."""
        chosen = self.tuned(dataset, method)
        candidates = [recipe for recipe in chosen.grid if recipe.epochs == max(self.size.epochs)]
        return {str(index): Training(recipe, chosen.grid_seed) for index, recipe in enumerate(candidates)}

    def soft_against_hard(self, dataset: str) -> Measurement:
        """Paired tests and relative improvements."""
        return Measurement(Paired(), (*self.of(dataset, "Soft").values(), *self.of(dataset, "Hard").values()))

    def score_tables(
        self,
        baseline: str,
        methods: Iterable[str],
        primary: str,
        columns: tuple[str, ...],
        numbers: tuple[PaperNumber, ...] = (),
    ) -> tuple[tuple[ScoreTable[Node], ...], tuple[PaperNumber, ...]]:
        """One table per data set, scored at the best validation epoch, and the numbers that have no cell there."""
        tables = []
        for name in SETS:
            rows: Mapping[str, Recipe | Tuned] = {method: self.tuned(name, method) for method in methods}
            table = score_table(
                rows,
                self.seeds,
                key=name.lower(),
                title=name,
                baseline=baseline,
                primary=primary,
                columns=columns,
                checkpoint="best",
            )
            table, numbers = attach(table, numbers, points={name: ""})
            tables.append(table)
        return tuple(tables), numbers
