"""What the document lacks (000): each block's difference between soft and hard labels, with paired intervals."""

from __future__ import annotations

from dataclasses import replace

from dissensus.experiments.description import Experiment, PaperNumber, Printed, ValueTable
from dissensus.experiments.plan import Node
from dissensus.recipes.paper000.blocks import CITATION, COLUMNS, HARD, SOFT, Blocks, Seeds, at
from dissensus.recipes.printed import printed_numbers


def difference_table(run: Blocks) -> ValueTable[Node]:
    """Soft minus hard, in pairs of equal seed; beside it the difference of the document's two means."""
    table: ValueTable[Node] = ValueTable(
        key="differences",
        title="Soft minus hard labels",
        cells={block: {"": run.soft_minus_hard(block)} for block in run.rows},
        columns=COLUMNS,
        picture="differences",
        note="The mean over pairs of equal seed with its 95% interval; dashed, the difference of the document's means. "
        "Above 0 soft labels are the better in accuracy and AUROC, and the worse in ECE and attack decrease.",
    )
    return replace(table, printed=tuple(_printed(run)))


def figure1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The differences alone."""
    run = at(scale, seeds)
    return Experiment(
        key="000/figure1",
        title="Soft minus hard labels in each block",
        question="In which columns do soft and hard labels differ, and by how much, whatever the method of uncertainty?",
        scale=scale,
        notes=run.notes,
        exhibits=(difference_table(run),),
    )


def _printed(run: Blocks) -> list[Printed]:
    means = {(number.part, number.row, number.column): number.mean for number in printed_numbers("000", "table1")}
    source = f"{CITATION}, Results (the difference of two means)"
    return [
        Printed(
            PaperNumber(block, SOFT, value.name, round(means[soft] - means[hard], 4), None, None, source),
            block,
            value.name,
        )
        for block in run.rows
        for value in COLUMNS.values()
        if (soft := (block, SOFT, value.name)) in means and (hard := (block, HARD, value.name)) in means
    ]
