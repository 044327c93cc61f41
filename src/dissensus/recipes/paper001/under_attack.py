"""Section 7 of Peterson et al. 2019 (001): fine-tuned networks under FGSM (Table 2) and PGD (Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from dissensus.engine.measures import Attack, AugmentedAttack, ScoreRatio, TransferAttack
from dissensus.experiments.description import Claim, Curve, CurvePlot, Experiment, ValueTable
from dissensus.experiments.plan import Node, measured
from dissensus.experiments.values import Measured, fact
from dissensus.recipes.paper001.fine_tuning import POOLED
from dissensus.recipes.paper001.study import CITATION, HARD, SOFT, Seeds, Study, at
from dissensus.recipes.printed import attach, printed_numbers

ACCURACY, TO_LABELS = Measured("accuracy_attacked"), Measured("nll_gold_attacked")
ROWS = (HARD, SOFT)
LEVELS = 255
ABOUT_HALF = (0.4, 0.65)
"""What counts as about half: the ratios of the paper's Table 2 are between 0.41 and 0.64."""

PRINTED_NOTE = (
    "As printed, by the authors' code: FGSM at 8/255 on all 10,000 images, cropped and flipped at random; 9,000 of them "
    "were fine-tuned on. PGD on 100 images. The paper's text says 4/255."
)
CLEAN_NOTE = (
    "Attacks are on images of the held-out fold, in pixel space, batch norm frozen, on the labels; gradients do not "
    "saturate (docs/robustness.md)."
)


def table2(scale: str, seeds: Seeds | None = None, *, as_printed: bool = False) -> Experiment[Node]:
    """Accuracy and cross-entropy after FGSM."""
    study = at(scale, seeds, as_printed=as_printed)
    attack = (
        AugmentedAttack(8 / LEVELS, checkpoint="best", items=study.attacked)
        if as_printed
        else Attack(4 / LEVELS, checkpoint="best", items=study.attacked)
    )
    table: ValueTable[Node] = ValueTable(
        key="fgsm",
        title=f"After FGSM at {attack.epsilon * LEVELS:.0f}/255",
        cells={
            row: {network: measured(attack, study.fine_tuned(network, row)) for network in study.networks} for row in ROWS
        },
        columns={"accuracy": ACCURACY, "CE": TO_LABELS},
        baseline=HARD,
    )
    networks = {network: network for network in study.networks}
    table, apart = attach(table, printed_numbers("001", "table2"), points=networks)
    beside: ValueTable[Node] = ValueTable(
        key="beside",
        title="Before the attack, after it, and under noise of the same norm",
        cells={row: {"": measured(attack, _pooled(study, row))} for row in ROWS},
        columns={
            "accuracy before": Measured("accuracy"),
            "accuracy after": ACCURACY,
            "accuracy under noise": Measured("accuracy_noise"),
            "CE before": Measured("nll_gold"),
            "CE after": TO_LABELS,
            "CE under noise": Measured("nll_gold_noise"),
        },
        baseline=HARD,
    )
    transfer = TransferAttack(attack.epsilon, checkpoint="best", items=study.attacked)
    transferred: ValueTable[Node] = ValueTable(
        key="transfer",
        title="Is it gradient masking? The same network under an attack made on the other one",
        cells={
            row: {"": measured(transfer, _pooled(study, row), _pooled(study, HARD if row == SOFT else SOFT))}
            for row in ROWS
        },
        columns={
            "attack on itself": ACCURACY,
            "attack on the other": Measured("accuracy_transferred"),
            "masked gradient": Measured("masked_gradient"),
        },
        note="The attack is made on the network of the same kind that was fine-tuned with the other labels. A network "
        "that is fooled more by it than by the attack on itself hides its gradient; the last column is by how much.",
    )
    sizes: ValueTable[Node] = ValueTable(
        key="epsilon",
        title="With the size of the attack",
        cells={
            row: {
                str(size): measured(Attack(size / LEVELS, checkpoint="best", items=study.attacked), _pooled(study, row))
                for size in study.epsilons
            }
            for row in ROWS
        },
        columns={"accuracy": ACCURACY, "CE": TO_LABELS},
        picture="lines",
        axes=("ε in 1/255", ""),
        note="FGSM on held-out images.",
    )
    return Experiment(
        key="001/table2",
        title="Fine-tuned networks after FGSM",
        question="Does fine-tuning with human labels make a network more robust to an attack?",
        scale=scale,
        notes=(*study.notes, PRINTED_NOTE if as_printed else CLEAN_NOTE, POOLED),
        exhibits=(table, beside, transferred, sizes),
        claims=_findings(study, attack),
        apart=apart,
    )


def _pooled(study: Study, condition: str) -> dict[str, Node]:
    return study.pooled(lambda network: study.fine_tuned(network, condition))


def _findings(study: Study, attack: Attack) -> tuple[Claim[Node], ...]:
    """What the paper says of Table 2. Fixed before any run at laptop scale was looked at."""
    source = f"{CITATION}, §7"
    attacked = {row: measured(attack, _pooled(study, row)) for row in ROWS}
    single = {
        f"{network}, {row}": measured(attack, study.fine_tuned(network, row))
        for network in study.networks
        for row in ROWS
    }
    means = {(n.part, n.row, n.column): n.mean for n in printed_numbers("001", "table2")}
    networks = list(dict.fromkeys(part for part, _, _ in means))

    def printed(column: str) -> float:
        return round(fmean(means[part, SOFT, column] - means[part, HARD, column] for part in networks), 4)

    ratios = [means[part, SOFT, TO_LABELS.name] / means[part, HARD, TO_LABELS.name] for part in networks]
    return (
        Claim(
            "Cross-entropy after FGSM is lower with human soft targets, over all networks.",
            "lower",
            {row: attacked[row] for row in (SOFT, HARD)},
            (TO_LABELS,),
            source=source,
            printed=printed(TO_LABELS.name),
            is_main=True,
        ),
        Claim(
            "Cross-entropy after FGSM is lower with human soft targets for every network.",
            "cells_lower",
            _in_pairs(single, (SOFT, HARD), study),
            (TO_LABELS,),
            threshold=1.0,
            source=source,
        ),
        Claim(
            f"Cross-entropy after FGSM is about half ({ABOUT_HALF[0]:g} to {ABOUT_HALF[1]:g}) with human soft targets.",
            "between",
            {"human soft over hard": measured(ScoreRatio(), attacked[SOFT], attacked[HARD])},
            (TO_LABELS,),
            threshold=ABOUT_HALF[0],
            upper=ABOUT_HALF[1],
            source=source,
            printed=round(fmean(ratios), 4),
            is_main=True,
        ),
        Claim(
            "Accuracy after FGSM is higher with human soft targets for most networks (the paper: five of eight).",
            "cells_lower",
            _in_pairs(single, (HARD, SOFT), study),
            (ACCURACY,),
            threshold=5 / 8,
            source=source,
        ),
        Claim(
            "Accuracy after FGSM is higher with human soft targets, over all networks.",
            "lower",
            {row: attacked[row] for row in (HARD, SOFT)},
            (ACCURACY,),
            source=source,
            printed=-printed(ACCURACY.name),
        ),
    )


def _in_pairs(single: Mapping[str, dict[str, Node]], rows: tuple[str, str], study: Study) -> dict[str, dict[str, Node]]:
    """Two groups per network, the first of which is claimed to be the lower."""
    return {f"{network}, {row}": single[f"{network}, {row}"] for network in study.networks for row in rows}


def figure4(scale: str, seeds: Seeds | None = None, *, as_printed: bool = False) -> Experiment[Node]:
    """Cross-entropy with every step of PGD."""
    study = at(scale, seeds, as_printed=as_printed)
    steps, items = study.pgd_steps, 100 if as_printed and scale == "paper" else study.pgd_items
    attack = Attack(4 / LEVELS, steps=steps, step_size=1 / LEVELS, checkpoint="best", items=items)
    every = {row: measured(attack, _pooled(study, row)) for row in ROWS}
    curve: CurvePlot[Node] = CurvePlot(
        key="pgd",
        title="Cross-entropy with every step of PGD",
        cells={row: {"": every[row]} for row in ROWS},
        curves={"all networks": Curve(fact("losses"))},
        axes=("1: before the attack; then step by step", "CE to labels"),
        note=f"ε = 4/255, {steps} steps of 1/255, without a random start.",
    )
    single: ValueTable[Node] = ValueTable(
        key="end",
        title="After the last step",
        cells={
            row: {network: measured(attack, study.fine_tuned(network, row)) for network in study.networks} for row in ROWS
        },
        columns={"accuracy": ACCURACY, "CE": TO_LABELS},
        baseline=HARD,
    )
    together: ValueTable[Node] = ValueTable(
        key="end-together",
        title="After the last step, all networks together",
        cells={row: {"": every[row]} for row in ROWS},
        columns={"accuracy": ACCURACY, "CE": TO_LABELS},
        baseline=HARD,
    )
    together, apart = attach(together, printed_numbers("001", "figure4"))
    return Experiment(
        key="001/figure4",
        title="Cross-entropy under PGD",
        question="How far does an iterated attack drive up the loss of networks fine-tuned with hard or human labels?",
        scale=scale,
        notes=(*study.notes, PRINTED_NOTE if as_printed else CLEAN_NOTE, POOLED),
        exhibits=(curve, together, single),
        claims=(
            Claim(
                "PGD drives the loss less high after fine-tuning with human soft targets, over all networks.",
                "lower",
                {row: every[row] for row in (SOFT, HARD)},
                (TO_LABELS,),
                source=f"{CITATION}, Figure 4",
                is_main=True,
            ),
        ),
        apart=apart,
    )
