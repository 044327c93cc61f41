"""The results of "Do Soft Labels Enhance Neural Network Training?" (000): 5 blocks, 6 rows, 4 columns; its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dissensus.experiments.description import Claim, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Node
from dissensus.experiments.values import Measured
from dissensus.recipes.paper000.blocks import (
    BASIC,
    CITATION,
    COLUMNS,
    DUQ,
    HARD,
    OF_SOFTMAX,
    SNGP,
    SOFT,
    WITH_AUG,
    Blocks,
    Seeds,
    at,
)
from dissensus.recipes.paper000.differences import difference_table
from dissensus.recipes.printed import attach, printed_numbers

Scores = Mapping[tuple[str, str], dict[str, Node]]
"""(block, row) -> what was scored, by seed"""

ACCURACY, AUROC, ECE, DECREASE = COLUMNS.values()
SAME_SEEDS = "(pairs of one seed share their items, so the interval is narrower than it should be)"


def table1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """All blocks and rows."""
    run = at(scale, seeds)
    scores = {(block, row): run.scores(block, row) for block, rows in run.rows.items() for row in rows}
    tables, apart = [], list[PaperNumber]()
    numbers = printed_numbers("000", "table1")
    for index, block in enumerate(run.rows):
        columns = {**COLUMNS, "ECE of the softmax of kernels": OF_SOFTMAX} if block == DUQ else COLUMNS
        table: ValueTable[Node] = ValueTable(
            key=f"block{index + 1}",
            title=f"{block} models",
            cells={row: {"": scores[block, row]} for row in run.rows[block]},
            columns=columns,
            baseline=HARD,
        )
        table, unplaced = attach(table, [n for n in numbers if n.part == block], points={block: ""})
        tables.append(table)
        apart += unplaced
    return Experiment(
        key="000/table1",
        title="Soft and hard labels under four uncertainty methods",
        question="Do soft labels improve accuracy, calibration, out-of-distribution detection and robustness, whatever "
        "the method of uncertainty?",
        scale=scale,
        notes=run.notes,
        exhibits=(difference_table(run), *tables),
        claims=tuple(findings(run, scores)),
        apart=(*apart, *printed_numbers("000", "text")),
    )


def findings(run: Blocks, scores: Scores) -> Iterable[Claim[Node]]:
    """The document's four key findings, and its calibration column."""

    def claim(
        number: str, text: str, lower: tuple[str, dict[str, Node]], higher: tuple[str, dict[str, Node]], value: Measured
    ) -> Claim[Node]:
        return Claim(text, "lower", dict((lower, higher)), (value,), source=f"{CITATION}, {number}")

    def pooled(cells: Iterable[tuple[str, str]], by: int) -> dict[str, Node]:
        """The scores of several cells, named by block (0) or row (1) and seed."""
        return {f"{cell[by]}, {seed}": node for cell in cells for seed, node in scores[cell].items()}

    first = "Key Finding 1"
    soft, hard = (SOFT, scores[BASIC, SOFT]), (HARD, scores[BASIC, HARD])
    yield claim(first, "The plain network is more accurate with soft labels than with hard ones.", hard, soft, ACCURACY)
    yield claim(first, "The plain network detects SVHN better with soft labels than with hard ones.", hard, soft, AUROC)
    yield claim(first, "The plain network loses less accuracy under FGSM with soft labels.", soft, hard, DECREASE)
    every = {row: pooled([(block, row) for block in run.rows], 0) for row in (SOFT, HARD)}
    soft, hard = (SOFT, every[SOFT]), (HARD, every[HARD])
    yield claim(first, f"Over all blocks, soft labels give more accuracy {SAME_SEEDS}.", hard, soft, ACCURACY)
    yield claim(first, f"Over all blocks, soft labels detect SVHN better {SAME_SEEDS}.", hard, soft, AUROC)
    yield claim(first, f"Over all blocks, soft labels lose less accuracy under FGSM {SAME_SEEDS}.", soft, hard, DECREASE)

    both = {block: pooled([(block, row) for row in (SOFT, HARD)], 1) for block in run.rows}
    for block in (BASIC, DUQ, SNGP):
        text = f"MC dropout loses less accuracy under FGSM than {block}, with soft and hard labels {SAME_SEEDS}."
        yield claim("Key Finding 2", text, (WITH_AUG, both[WITH_AUG]), (block, both[block]), DECREASE)
    for block in (BASIC, WITH_AUG, DUQ):
        text = f"SNGP detects SVHN better than {block}, with soft and hard labels {SAME_SEEDS}."
        yield claim("Key Finding 3", text, (block, both[block]), (SNGP, both[SNGP]), AUROC)

    fourth, soft = "Key Finding 4", (SOFT, scores[BASIC, SOFT])
    for row in ("hard + Mixup", "hard + CutMix"):
        mixed, what = (row, scores[BASIC, row]), row.replace("hard + ", "")
        yield claim(fourth, f"Hard labels with {what} do not reach the accuracy of soft labels.", mixed, soft, ACCURACY)
        yield claim(fourth, f"Hard labels with {what} do not detect SVHN as well as soft labels.", mixed, soft, AUROC)
        yield claim(
            fourth, f"Hard labels with {what} lose more accuracy under FGSM than soft labels.", soft, mixed, DECREASE
        )

    soft, hard = (SOFT, scores[BASIC, SOFT]), (HARD, scores[BASIC, HARD])
    text = "The plain network has a lower ECE, to the label, with hard labels than with soft ones."
    yield claim("Results", text, hard, soft, ECE)
