"""Table 1 of Peterson et al. 2019 (001): pretrained networks, fine-tuned with six kinds of target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean

from dissensus.engine.measures import ShiftedScores
from dissensus.experiments.description import Claim, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Measurement, Node
from dissensus.experiments.values import Measured, Score, Value
from dissensus.recipes.paper001.study import (
    CATEGORY,
    CITATION,
    CONDITIONS,
    DISTILLED,
    ENSEMBLE,
    HARD,
    MIXUP,
    SAMPLED,
    SOFT,
    TRAIN_PART,
    TRAINED,
    V4,
    V6,
    Seeds,
    Study,
    at,
)
from dissensus.recipes.printed import attach, printed_numbers

ROWS = (TRAINED, *CONDITIONS)
TO_PEOPLE, TO_LABELS = Score("soft_nll", "best"), Score("nll_gold", "best")
LAST = Score("soft_nll", "last")
TEMPERED = Score("soft_nll", "best", "tempered_votes")
ACCURACY = Score("accuracy", "best")
OF_SHIFT = Measured("nll_gold")
COLUMNS: dict[str, tuple[str, Value]] = {
    "c10H": ("Cross-entropy to people on the held-out fold", TO_PEOPLE),
    "tempered": ("Cross-entropy to people after one temperature, cross-fitted on the fold", TEMPERED),
    "c10": ("Cross-entropy to the labels on the held-out fold", TO_LABELS),
    "accuracy": ("Accuracy on the held-out fold", ACCURACY),
}
PRINTED_COLUMN = {"c10H": "soft_nll", "c10": "nll_gold", V4: "nll_gold_v4", V6: "nll_gold_v6"}
POOLED = (
    "Claims over all networks compare pairs of equal network and fold. Networks share their folds, so these intervals "
    "are narrower than they should be."
)


def table1(scale: str, seeds: Seeds | None = None, *, as_printed: bool = False) -> Experiment[Node]:
    """Networks × conditions × test sets, and the ensemble of the pretrained networks."""
    study = at(scale, seeds, as_printed=as_printed)
    shifts = [name for name in study.shifts if name != TRAIN_PART]
    tables = [_networks_table(study, key, title, value) for key, (title, value) in COLUMNS.items()]
    tables += [_shift_table(study, shift) for shift in shifts]
    ensemble, apart = _ensemble_tables(study)
    return Experiment(
        key="001/table1",
        title="Fine-tuning with human, category, mixed and distilled targets",
        question="Which targets make a pretrained network match people's uncertainty, and what does it cost elsewhere?",
        scale=scale,
        notes=(*study.notes, POOLED),
        exhibits=(_summary(study), _last_epoch(study), *tables, *ensemble),
        claims=tuple(_findings(study, shifts)),
        apart=apart,
    )


def _summary(study: Study) -> ValueTable[Node]:
    """All networks together."""
    return ValueTable(
        key="summary",
        title="All networks together",
        cells={
            **{condition: {"": _pooled(study, condition)} for condition in ROWS},
            ENSEMBLE: {"": study.not_tuned(study.networks)},
        },
        columns={
            "CE to people": TO_PEOPLE,
            "CE to people, tempered": TEMPERED,
            "CE to labels": TO_LABELS,
            "accuracy": ACCURACY,
        },
        baseline=HARD,
        picture="dots",
        note="The mean over networks and folds. Each row but the ensemble is tested against hard labels in pairs of "
        "network and fold; networks share their folds, so p is too small.",
    )


def _last_epoch(study: Study) -> ValueTable[Node]:
    """The same runs where nothing chose the epoch."""
    return ValueTable(
        key="last",
        title="All networks together, after the last epoch",
        cells={condition: {"": _pooled(study, condition)} for condition in CONDITIONS},
        columns={
            "CE to people": LAST,
            "CE to people, tempered": Score("soft_nll", "last", "tempered_votes"),
            "CE to labels": Score("nll_gold", "last"),
            "accuracy": Score("accuracy", "last"),
        },
        baseline=HARD,
        note="Choosing the epoch by the validation loss stops a network before it is too sure. Here no epoch is chosen.",
    )


def _pooled(study: Study, condition: str) -> dict[str, Node]:
    """A condition's runs of all networks."""
    return study.pooled(lambda network: study.row(network, condition))


def _networks_table(study: Study, key: str, title: str, value: Value) -> ValueTable[Node]:
    table: ValueTable[Node] = ValueTable(
        key=key,
        title=title,
        cells={row: {network: study.row(network, row) for network in study.networks} for row in ROWS},
        columns={"CE" if value.name != "accuracy" else "accuracy": value},
        baseline=HARD,
    )
    return _beside(table, key)


def _shift_table(study: Study, shift: str) -> ValueTable[Node]:
    cells = {row: {network: _on_shift(study, shift, network, row) for network in study.networks} for row in ROWS}
    table: ValueTable[Node] = ValueTable(
        key=_key(shift),
        title=f"Cross-entropy to the labels on {shift}",
        cells=cells,
        columns={"CE": OF_SHIFT},
        baseline=HARD,
    )
    return _beside(table, shift)


def _key(shift: str) -> str:
    return shift.replace(" ", "-").replace(".", "_")


def _on_shift(study: Study, shift: str, network: str, condition: str) -> dict[str, Node]:
    """A row on a test set from elsewhere. The pretrained network is one run: its number is the same beside each fold."""
    if condition != TRAINED:
        return study.shifted(shift, study.fine_tuned(network, condition))
    (judged,) = study.shifted(shift, {"": study.pretrained(network)}).values()
    return dict.fromkeys(study.fine_tuned(network, HARD), judged)


def _pooled_on_shift(study: Study, shift: str, condition: str) -> dict[str, Node]:
    return study.pooled(lambda network: _on_shift(study, shift, network, condition))


def _beside(table: ValueTable[Node], column: str) -> ValueTable[Node]:
    """With the paper's numbers of one of its four columns."""
    (value,) = table.columns.values()
    wanted = PRINTED_COLUMN.get(column)
    numbers = [number for number in printed_numbers("001", "table1") if number.column == wanted]
    points = {network: network for points in table.cells.values() for network in points}
    return attach(table, numbers, points=points, columns={str(wanted): value.name})[0]


def _ensemble_tables(study: Study) -> tuple[tuple[ValueTable[Node], ...], tuple[PaperNumber, ...]]:
    fold: ValueTable[Node] = ValueTable(
        key="ensemble",
        title="The ensemble of all pretrained networks on the held-out folds",
        cells={ENSEMBLE: {"": study.not_tuned(study.networks)}},
        columns={"CE to people": TO_PEOPLE, "CE to labels": TO_LABELS, "accuracy": ACCURACY},
        note="The mean of the networks' probabilities, not fine-tuned: the teacher of distillation.",
    )
    elsewhere: ValueTable[Node] = ValueTable(
        key="ensemble-elsewhere",
        title="The ensemble on test sets from elsewhere",
        cells={
            ENSEMBLE: {
                shift: {"": Measurement(ShiftedScores(where.data, items=where.items), study.every_pretrained())}
                for shift, where in study.shifts.items()
                if shift != TRAIN_PART
            }
        },
        columns={"CE to labels": OF_SHIFT, "accuracy": Measured("accuracy")},
    )
    placed, apart = attach(fold, printed_numbers("001", "ensemble"))
    return (placed, elsewhere), apart


def _findings(study: Study, shifts: Iterable[str]) -> Iterator[Claim[Node]]:
    """What the paper says of Table 1. Fixed before any run at laptop scale was looked at."""
    source = f"{CITATION}, §6.3"

    def lower(text: str, first: str, second: str, *, is_main: bool = False) -> Claim[Node]:
        groups = {name: _pooled(study, name) for name in (first, second)}
        printed = _printed_difference("soft_nll", first, second)
        return Claim(
            f"{text[:-1]}, over all networks.",
            "lower",
            groups,
            (TO_PEOPLE,),
            source=source,
            printed=printed,
            is_main=is_main,
        )

    yield lower("Human soft targets are closer to people than hard labels.", SOFT, HARD, is_main=True)
    yield lower("Sampled hard targets are closer to people than hard labels.", SAMPLED, HARD, is_main=True)
    yield lower("Human soft targets are closer to people than category soft targets.", SOFT, CATEGORY, is_main=True)
    yield lower("Sampled hard targets are closer to people than category soft targets.", SAMPLED, CATEGORY)
    yield lower("Category soft targets are closer to people than hard labels.", CATEGORY, HARD, is_main=True)
    yield lower("Category soft targets are closer to people than mixup.", CATEGORY, MIXUP)
    yield lower("Mixup is closer to people than hard labels alone.", MIXUP, HARD)
    yield lower("Human soft targets are closer to people than mixup.", SOFT, MIXUP)
    yield lower("Human soft targets are closer to people than what the ensemble teaches.", SOFT, DISTILLED)
    yield lower("Fine-tuning on hard labels brings a pretrained network closer to people.", HARD, TRAINED)
    yield Claim(
        "After the last epoch, too, human soft targets are closer to people than hard labels, over all networks.",
        "lower",
        {name: _pooled(study, name) for name in (SOFT, HARD)},
        (LAST,),
        source=source,
        is_main=True,
    )
    yield Claim(
        "For every network, human soft targets are closer to people than hard labels.",
        "cells_lower",
        {
            f"{network}, {condition}": study.row(network, condition)
            for network in study.networks
            for condition in (SOFT, HARD)
        },
        (TO_PEOPLE,),
        threshold=1.0,
        source=source,
    )
    for network in study.networks:
        groups = {f"{network}, {SOFT}": study.row(network, SOFT), ENSEMBLE: study.not_tuned(study.networks)}
        text = f"{network}, fine-tuned with human soft targets, is closer to people than the ensemble."
        yield Claim(text, "lower", groups, (TO_PEOPLE,), source=source)
    for condition in (SOFT, SAMPLED, CATEGORY):
        yield Claim(
            f"No accuracy is lost: {HARD} is not more accurate than {condition}, over all networks.",
            "not_higher",
            {name: _pooled(study, name) for name in (HARD, condition)},
            (ACCURACY,),
            source=source,
            is_main=condition == SOFT,
        )
    for shift in shifts:
        groups = {condition: _pooled_on_shift(study, shift, condition) for condition in (SOFT, HARD)}
        column = PRINTED_COLUMN.get(shift, "")
        yield Claim(
            f"On {shift}, human soft targets give a lower cross-entropy to labels than hard labels, over all networks.",
            "lower",
            groups,
            (OF_SHIFT,),
            source=source,
            printed=_printed_difference(column, SOFT, HARD) if column else None,
        )
    yield Claim(
        "Beyond the paper: one temperature closes the gap between hard labels and human soft targets, over all networks.",
        "remaining",
        {name: _pooled(study, name) for name in (HARD, SOFT)},
        (TO_PEOPLE, TEMPERED),
        source="not asked in the paper",
        is_main=True,
    )


def _printed_difference(column: str, first: str, second: str) -> float | None:
    """The mean difference of two printed rows over the networks for which both are legible."""
    means = {(n.part, n.row): n.mean for n in printed_numbers("001", "table1") if n.column == column}
    networks = [part for part, row in means if row == first and (part, second) in means]
    differences = [means[network, first] - means[network, second] for network in networks]
    return round(fmean(differences), 4) if differences else None
