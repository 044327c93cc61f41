"""Section 5 of Peterson et al. 2019 (001): networks trained from scratch with hard or human labels (Figures 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator

from dissensus.engine.measures import RankedShares, SameFirstChoice, ScoreDifference
from dissensus.experiments.description import BarChart, Claim, Curve, CurvePlot, Experiment, ValueTable
from dissensus.experiments.plan import Measurement, Node, measured
from dissensus.experiments.values import Measured, Score, fact
from dissensus.recipes.paper001.fine_tuning import POOLED
from dissensus.recipes.paper001.study import (
    CITATION,
    FAR,
    FROM_SCRATCH,
    HARD_LABELS,
    HUMAN_LABELS,
    TRAIN_PART,
    Seeds,
    Study,
    at,
)
from dissensus.recipes.printed import attach, printed_numbers

ACCURACY, TO_LABELS = Measured("accuracy"), Measured("nll_gold")
SECOND_BEST = Score("second_best_accuracy", "best")
RIGHT, WRONG = Score("confidence_right", "best"), Score("confidence_wrong", "best")
LAST_WRONG = Score("confidence_wrong", "last")
APART = Measured("total_variation")
SOURCE = f"{CITATION}, §5.2"


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """A gallery: people and a network with the same first choice, and other shares for the rest."""
    study = at(scale, seeds)
    network = list(study.networks)[-1]  # Shake-Shake at paper scale: the most accurate of the eight, as in the paper
    judged = tuple(study.not_tuned((network,)).values())
    measure = SameFirstChoice(study.votes, network, items=12 if scale != "smoke" else 2)
    return Experiment(
        key="001/figure1",
        title="Images on which people and a network agree first and differ then",
        question="Where does a network that names the people's first choice disagree with them about the rest?",
        scale=scale,
        notes=study.notes,
        exhibits=(
            BarChart(
                key="gallery",
                title=f"People and {network}",
                cells={network: {"": {"": Measurement(measure, judged)}}},
                items=fact("examples"),
                note="The network is trained on the labels of CIFAR-10's 50,000 images and never saw these. Images with "
                "one first choice, the same for both, by the total variation between the two distributions, the "
                "largest first, at most two per class. A rule chose them, and no eye.",
            ),
        ),
    )


def figure2(scale: str, seeds: Seeds | None = None, *, as_printed: bool = False) -> Experiment[Node]:
    """Accuracy and cross-entropy with growing shift; second-best accuracy."""
    study = at(scale, seeds, as_printed=as_printed)
    shifts: ValueTable[Node] = ValueTable(
        key="shifts",
        title="Left and centre: with growing shift",
        cells={labels: {shift: _shifted(study, shift, labels) for shift in study.shifts} for labels in FROM_SCRATCH},
        columns={"accuracy": ACCURACY, "CE to labels": TO_LABELS},
        baseline=HARD_LABELS,
        picture="dots",
        note="The mean over networks and folds; test sets from near to far.",
    )
    shifts, apart = attach(shifts, printed_numbers("001", "figure2"), points={shift: shift for shift in study.shifts})
    gains: ValueTable[Node] = ValueTable(
        key="gains",
        title="What human labels change",
        cells={shift: {"": _gain(study, shift)} for shift in study.shifts},
        columns={"accuracy": ACCURACY, "CE to labels": TO_LABELS},
        picture="differences",
        note="Human minus hard labels, in pairs of network and fold: better is above 0 in accuracy, below 0 in CE.",
    )
    second: ValueTable[Node] = ValueTable(
        key="second-best",
        title="Right: second-best accuracy on the held-out folds",
        cells={
            labels: {network: study.from_scratch(network, labels) for network in study.networks}
            for labels in FROM_SCRATCH
        },
        columns={"SBA": SECOND_BEST, "SBA, well defined": Score("second_best_accuracy_well_defined", "best")},
        baseline=HARD_LABELS,
        note="The network's second choice against the people's. Where all people agree, their second choice is a "
        "tie-break: well defined are images with a strict first, second and third choice.",
    )
    return Experiment(
        key="001/figure2",
        title="Generalisation under shift, with hard and human labels",
        question="Do human labels help a network more, the further the test images are from those it was trained on?",
        scale=scale,
        notes=(*study.notes, POOLED),
        exhibits=(shifts, gains, second),
        claims=tuple(_shift_findings(study)),
        apart=apart,
    )


def _pooled(study: Study, labels: str) -> dict[str, Node]:
    return study.pooled(lambda network: study.from_scratch(network, labels))


def _shifted(study: Study, shift: str, labels: str) -> dict[str, Node]:
    return study.shifted(shift, _pooled(study, labels))


def _gain(study: Study, shift: str) -> dict[str, Node]:
    """Human minus hard labels on a test set."""
    return measured(ScoreDifference(), *(_shifted(study, shift, labels) for labels in (HUMAN_LABELS, HARD_LABELS)))


def _shift_findings(study: Study) -> Iterator[Claim[Node]]:
    """What the paper says of Figure 2. Fixed before any run at laptop scale was looked at."""
    means = {(n.part, n.row, n.column): n.mean for n in printed_numbers("001", "figure2")}

    def printed(shift: str, column: str, first: str, second: str) -> float | None:
        ends = (shift, first, column), (shift, second, column)
        return round(means[ends[0]] - means[ends[1]], 4) if all(end in means for end in ends) else None

    for shift in study.shifts:
        is_main = shift in (TRAIN_PART, FAR)
        for text, value, first, second in (
            ("human labels give a higher accuracy", ACCURACY, HARD_LABELS, HUMAN_LABELS),
            ("human labels give a lower cross-entropy", TO_LABELS, HUMAN_LABELS, HARD_LABELS),
        ):
            yield Claim(
                f"On {shift}, {text} than hard labels, over all networks.",
                "lower",
                {labels: _shifted(study, shift, labels) for labels in (first, second)},
                (value,),
                source=SOURCE,
                printed=printed(shift, value.name, first, second),
                is_main=is_main,
            )
    for text, value, first, second in (
        ("Accuracy is higher with human labels", ACCURACY, HARD_LABELS, HUMAN_LABELS),
        ("Cross-entropy is lower with human labels", TO_LABELS, HUMAN_LABELS, HARD_LABELS),
    ):
        yield Claim(
            f"{text} for every network and test set.",
            "cells_lower",
            {
                f"{network} on {shift}, {labels}": study.shifted(shift, study.from_scratch(network, labels))
                for network in study.networks
                for shift in study.shifts
                for labels in (first, second)
            },
            (value,),
            threshold=1.0,
            source=f"{CITATION}, Figure 2",
        )
    if {TRAIN_PART, FAR} <= study.shifts.keys():
        near, far = (f"gain on {shift}" for shift in (TRAIN_PART, FAR))
        yield Claim(
            "The gain in accuracy grows with shift: larger on ImageNet-Far than on CIFAR-10, over all networks.",
            "lower",
            {near: _gain(study, TRAIN_PART), far: _gain(study, FAR)},
            (ACCURACY,),
            source=SOURCE,
            printed=-0.01,
            is_main=True,
        )
        yield Claim(
            "The drop in cross-entropy grows with shift: larger on ImageNet-Far than on CIFAR-10, over all networks.",
            "lower",
            {far: _gain(study, FAR), near: _gain(study, TRAIN_PART)},
            (TO_LABELS,),
            source=SOURCE,
            printed=-0.9,
            is_main=True,
        )
    yield Claim(
        "Second-best accuracy is higher with human labels, over all networks.",
        "lower",
        {labels: _pooled(study, labels) for labels in (HARD_LABELS, HUMAN_LABELS)},
        (SECOND_BEST,),
        source=SOURCE,
        printed=-0.05,
        is_main=True,
    )


def figure3(scale: str, seeds: Seeds | None = None, *, as_printed: bool = False) -> Experiment[Node]:
    """Confidence when right and when wrong; how the rest is spread where the first choice is the people's."""
    study = at(scale, seeds, as_printed=as_printed)
    runs = {labels: _pooled(study, labels) for labels in (HARD_LABELS, HUMAN_LABELS)}
    ranked = {labels: measured(RankedShares("best"), of_labels) for labels, of_labels in runs.items()}
    confidence: ValueTable[Node] = ValueTable(
        key="confidence",
        title="A: mean confidence on the held-out folds",
        cells={labels: {"": of_labels} for labels, of_labels in runs.items()},
        columns={
            "when right": RIGHT,
            "when wrong": WRONG,
            "when right, last epoch": Score("confidence_right", "last"),
            "when wrong, last epoch": LAST_WRONG,
        },
        baseline=HARD_LABELS,
        picture="dots",
        note="At the epoch that the validation loss chose, and after the last one, which nothing chose.",
    )
    curves: CurvePlot[Node] = CurvePlot(
        key="ranked",
        title="B: probability of the people's first, second, third … choice",
        cells={labels: {"": of_labels} for labels, of_labels in ranked.items()},
        curves={
            "what people give": Curve(fact("people", "y"), fact("people", "x")),
            "what the network gives": Curve(fact("model", "y"), fact("model", "x")),
        },
        axes=("the people's choice", "mean share"),
        note="Over held-out images on which network and people have the same first choice.",
    )
    distances: ValueTable[Node] = ValueTable(
        key="distance",
        title="B in one number: total variation from people, where the first choice is the same",
        cells={labels: {"": of_labels} for labels, of_labels in ranked.items()},
        columns={"total variation": APART},
        baseline=HARD_LABELS,
    )
    return Experiment(
        key="001/figure3",
        title="Confidence with hard and human labels",
        question="Are networks that learn from people less sure where they are wrong, and do they doubt as people do?",
        scale=scale,
        notes=(*study.notes, POOLED),
        exhibits=(confidence, curves, distances),
        claims=(
            *(
                Claim(
                    f"Networks trained on human labels are less confident {name}, over all networks.",
                    "lower",
                    {labels: runs[labels] for labels in (HUMAN_LABELS, HARD_LABELS)},
                    (value,),
                    source=f"{CITATION}, Figure 3A",
                    is_main=name == "when wrong",
                )
                for name, value in (
                    ("when wrong", WRONG),
                    ("when right", RIGHT),
                    ("when wrong after the last epoch", LAST_WRONG),
                )
            ),
            Claim(
                "Where both name the same first choice, human labels bring the rest closer to people, over all networks.",
                "lower",
                {labels: ranked[labels] for labels in (HUMAN_LABELS, HARD_LABELS)},
                (APART,),
                source=f"{CITATION}, Figure 3B",
                is_main=True,
            ),
        ),
    )
