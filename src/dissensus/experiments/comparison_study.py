"""`dissensus compare`: which way of using these votes gives the model that is closest to what people would say?

Every method trains the same small head on the same splits. For each split and method, a few learning rates are tried and
the one with the lowest validation loss counts, so that no method is judged with settings that suit another. The splits
are repeated cross-validation: repeat r deals the items to the folds anew, and every method sees the same folds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.datasets.kept_sets import OWN, KeptSet
from dissensus.engine.measures import BaselineScores, WinnerScores
from dissensus.errors import InputError
from dissensus.experiments.description import Candidates, Experiment, ScoreTable, ValueTable
from dissensus.experiments.plan import Measurement, Node, Training
from dissensus.experiments.values import fact
from dissensus.labels.delivery import Delivery, Multipass, Sampled, Soft
from dissensus.labels.targets import DawidSkene, Dirichlet, Empirical, Gold, Majority, Shuffled, Smoothed, TargetRule
from dissensus.models import Mlp
from dissensus.store.encoding import name_of
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant, EarlyStopping
from dissensus.training.splits import Folds, Holdout

RATES = (3e-3, 1e-3, 3e-4)
"""Learning rates that are tried for every method on every split."""

LEAST_ITEMS = 30
BASELINE = "Soft"
CONTROL = "Shuffled (control)"
PRIOR = "Class prior"
BASELINE_ROWS = {
    "Logistic, votes": "votes_logistic",
    "Logistic, majority": "majority_logistic",
    PRIOR: "class_prior",
}


@dataclass(frozen=True)
class VoteMethod:
    """A target and a delivery, and what it is in a few words."""

    target: TargetRule
    delivery: Delivery
    about: str

    def problem(self, data: Data) -> str:
        """Why these data cannot be used in this way; empty where they can."""
        if isinstance(self.target, DawidSkene) and (data.votes is None or data.votes.annotators is None):
            return "nobody knows who cast which vote"
        if isinstance(self.target, Gold) and data.gold is None:
            return "there are no gold labels"
        if data.counts is None and (isinstance(self.target, Dirichlet) or isinstance(self.delivery, Multipass)):
            return "there are shares and no votes"
        return ""


METHODS: Mapping[str, VoteMethod] = {
    BASELINE: VoteMethod(Empirical(), Soft(), "the shares of all votes in the loss"),
    "Majority": VoteMethod(Majority(), Soft(), "the most frequent vote alone"),
    "Gold": VoteMethod(Gold(), Soft(), "your own labels alone"),
    "Sampled": VoteMethod(Empirical(), Sampled(), "one vote per item, drawn anew in each epoch"),
    "Multipass": VoteMethod(Empirical(), Multipass(), "one vote per item and epoch, each in turn"),
    "Label smoothing": VoteMethod(
        Smoothed(0.1), Soft(), "the majority, with a tenth of the mass spread over all classes"
    ),
    "Soft (shrunk)": VoteMethod(Dirichlet(5.0), Soft(), "shares shrunk towards the mean of their class"),
    "Dawid–Skene": VoteMethod(DawidSkene(), Soft(), "what the votes say once annotators are weighed by their errors"),
}
"""In the order of simplicity, which decides where scores do not.

Simple means: nothing to set, nothing to draw, nothing to fit, and no vote thrown away. `Soft` comes first. `Majority`
and `Gold` throw votes away; `Sampled` and `Multipass` draw labels in every epoch; `Label smoothing` and `Soft (shrunk)`
have a number to set; `Dawid–Skene` fits a model of the annotators first.
"""


@dataclass(frozen=True)
class CrossValidation:
    """How often the items are dealt to how many folds."""

    repeats: int = 3
    folds: int = 5

    @property
    def splits(self) -> dict[int, Folds]:
        """By the seed of the run that is judged on it."""
        return {
            repeat * self.folds + fold: Folds(self.folds, fold, folds_seed=repeat)
            for repeat in range(self.repeats)
            for fold in range(self.folds)
        }

    @property
    def test_to_train(self) -> float:
        """Items judged for each item trained on."""
        return 1 / (self.folds - 1)


@dataclass(frozen=True)
class FitCommand:
    """How the user would train with a method: `start --target T --delivery D end`."""

    start: str
    end: str

    def of(self, method: VoteMethod) -> str:
        """The command of one method."""
        names = name_of(type(method.target)), name_of(type(method.delivery))
        return f"{self.start} --target {names[0]} --delivery {names[1]} {self.end}".strip()


def usable_methods(data: Data, chosen: tuple[str, ...] = ()) -> tuple[dict[str, VoteMethod], dict[str, str]]:
    """The methods that these data allow, simplest first, and why the others are left out.

    With `chosen` only these, and `Soft`, which the others are compared with. One that is chosen and cannot be used is bad
    input.
    """
    keys = {_key(label): label for label in METHODS}
    if unknown := [name for name in chosen if _key(name) not in keys]:
        raise InputError(
            f"{unknown[0]!r} is no method", where="--methods", hint=f"Choose from {', '.join(keys)}", state=""
        )
    wanted = {keys[_key(name)] for name in chosen} or set(METHODS)
    problems = {label: problem for label, method in METHODS.items() if (problem := method.problem(data))}
    for label in wanted & problems.keys():
        if chosen:
            raise InputError(f"{label} cannot be used: {problems[label]}", where="--methods", state="")
    usable = {label: m for label, m in METHODS.items() if label in wanted | {BASELINE} and label not in problems}
    return usable, {label: problem for label, problem in problems.items() if label in wanted}


def _key(label: str) -> str:
    """`Soft (shrunk)` as soft-shrunk, for the command line."""
    kept = "".join(letter if letter.isalnum() else " " for letter in label.lower())
    return "-".join(kept.split())


def check_comparable(data: Data, design: CrossValidation) -> None:
    """Refuse data on which no comparison could be made, before anything is computed."""
    hint = ""
    if len(data) < max(LEAST_ITEMS, 2 * design.folds):
        what = f"{len(data)} items are too few to compare methods on"
        hint = f"Label at least {max(LEAST_ITEMS, 2 * design.folds)} items"
    elif bool((data.people.max(1).values == 1).all()):
        one_each = data.counts is not None and int(data.counts.sum(1).max()) == 1
        what = "every item has one vote" if one_each else "everybody agrees on every item"
        what += ", so all ways of using the votes are the same"
        hint = "Collect several votes per item; `dissensus fit` trains on what you have"
    elif absent := _class_missing_from_a_split(data, design):
        what = f"class {absent!r} was chosen for so few items that some training part has none of them"
        without = f"--missing {absent!r} --drop-empty; --ignore for a column of counts"
        hint = f"Merge it with another class in the file, or leave its votes out ({without})"
    else:
        return
    raise InputError(what, where=data.name, hint=hint)


def _class_missing_from_a_split(data: Data, design: CrossValidation) -> str:
    for seed, split in design.splits.items():
        rows = split.split(data.labels, seed).train
        train = rows[VALIDATION.split(data.labels[rows], seed, "validation").train]
        missing = (data.people[train].sum(0) == 0).nonzero().flatten()
        if len(missing):
            return data.classes[int(missing[0])]
    return ""


VALIDATION = Holdout(0.2)


def head_recipe(kept: KeptSet, items: int) -> Recipe:
    """What all methods have in common: an MLP on standardised features, at its best epoch by validation loss."""
    return Recipe(
        model=Mlp(),
        data=OWN,
        options=kept.options,
        validation=VALIDATION,
        optimiser=AdamW(weight_decay=0.01),
        schedule=Constant(),
        epochs=40,
        batch=max(4, min(64, items // 16)),
        stopping=EarlyStopping(patience=4),
        best=Best("validation"),
        keep="scores",
    )


def comparison(
    kept: KeptSet,
    data: Data,
    design: CrossValidation,
    command: FitCommand,
    chosen: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Experiment[Node]:
    """The methods that the data allow, baselines and a control that must fail, on the same splits."""
    methods, left_out = usable_methods(data, chosen)
    heads = {label: _head_cells(method, kept, len(data), design) for label, method in methods.items()}
    control = VoteMethod(Shuffled(Empirical()), Soft(), "the shares of other items' votes: a control that must fail")
    ref = DataRef(OWN, kept.options)
    baselines: dict[str, dict[str, Node]] = {
        label: {
            str(seed): Measurement(BaselineScores(ref, baseline, split, seed)) for seed, split in design.splits.items()
        }
        for label, baseline in BASELINE_ROWS.items()
    }
    control_cells = {CONTROL: _head_cells(control, kept, len(data), design)}
    words = {label: method.about for label, method in {**methods, CONTROL: control}.items()}
    words |= {
        "Logistic, votes": "logistic regression with every vote a row, the penalty chosen by cross-validation",
        "Logistic, majority": "the same on the most frequent vote alone",
        PRIOR: "the mean opinion, whatever the item",
    }

    def table(key: str, title: str, rows: Mapping[str, dict[str, Node]], note: str) -> ScoreTable[Node]:
        return ScoreTable(
            key=key,
            title=title,
            cells={label: {"": runs} for label, runs in rows.items()},
            baseline=BASELINE,
            methods={label: words[label] for label in rows},
            checkpoint="best",
            replicate="split",
            note=note,
        )

    reasons = tuple(f"{label} is left out: {problem}." for label, problem in left_out.items())
    return Experiment(
        key="compare",
        title="How should your votes be used?",
        question=f"{len(data):,} items, {_votes(data)}, {len(data.classes)} classes: which way of training on the votes "
        "gives a classifier whose probabilities match what people would say?",
        scale="",
        notes=(*notes, *reasons),
        exhibits=(
            table(
                "methods",
                "Ways to use the votes",
                heads,
                f"{design.folds}-fold cross-validation, {design.repeats} times. Heads are Linear(256)–GELU–Dropout(0.2)–"
                f"Linear on standardised features; of {len(RATES)} learning rates the one with the lowest validation "
                "loss counts, for each method and split.",
            ),
            table(
                "baselines",
                "Baselines and control",
                {BASELINE: heads[BASELINE], **baselines, **control_cells},
                "What a head has to beat, on the same splits, and a control that must fail. Logistic regression is "
                "solved exactly.",
            ),
            ValueTable(
                key="cost",
                title="Cost",
                cells={label: {"": runs} for label, runs in heads.items()},
                columns={"epochs of the chosen head": fact("epochs"), "GFLOP, all rates": fact("cost", "gigaflops")},
                note="What training one head costs, choice of the learning rate included.",
            ),
        ),
        candidates=Candidates(
            "methods",
            "baselines",
            {label: command.of(m) for label, m in methods.items()},
            design.test_to_train,
            blind=(PRIOR, CONTROL),
        ),
    )


def _head_cells(method: VoteMethod, kept: KeptSet, items: int, design: CrossValidation) -> dict[str, Node]:
    recipe = replace(head_recipe(kept, items), target=method.target, delivery=method.delivery)
    return {
        str(seed): Measurement(
            WinnerScores(),
            tuple(
                Training(replace(recipe, split=split, optimiser=replace(recipe.optimiser, lr=rate)), seed)  # type: ignore[type-var]
                for rate in RATES
            ),
        )
        for seed, split in design.splits.items()
    }


def _votes(data: Data) -> str:
    if data.counts is None:
        return "shares of votes"
    each = data.counts.sum(1)
    low, high = int(each.min()), int(each.max())
    return f"{low} votes per item" if low == high else f"{low} to {high} votes per item"
