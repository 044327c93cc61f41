"""The results of "Do Soft Labels Enhance Neural Network Training?" (000): 5 blocks, 6 rows, 4 columns; its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean

from dissensus.experiments.description import Claim, Experiment, PaperNumber, ValueTable
from dissensus.experiments.plan import Node
from dissensus.experiments.values import Measured
from dissensus.recipes.paper000.blocks import (
    BASIC,
    BESIDE,
    CITATION,
    COLUMNS,
    DUQ,
    HARD,
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

Group = tuple[str, list[tuple[str, str]]]
"""The name of a group in a claim, and its cells: (block, row)"""

ACCURACY, AUROC, ECE, DECREASE = COLUMNS.values()
POOLED = (
    "Claims that are called pooled are of several blocks or rows at once: their pairs of one seed share their items, so "
    "that the interval is narrower than it should be."
)


def table1(scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """All blocks and rows."""
    run = at(scale, seeds)
    scores = {(block, row): run.scores(block, row) for block, rows in run.rows.items() for row in rows}
    tables, apart = [], list[PaperNumber]()
    numbers = printed_numbers("000", "table1")
    for index, block in enumerate(run.rows):
        table: ValueTable[Node] = ValueTable(
            key=f"block{index + 1}",
            title=f"{block} models",
            cells={row: {"": scores[block, row]} for row in run.rows[block]},
            columns={**COLUMNS, **BESIDE[block]},
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
        notes=(*run.notes, POOLED),
        exhibits=(difference_table(run), *tables),
        claims=tuple(findings(run, scores)),
        apart=(*apart, *printed_numbers("000", "text")),
    )


def findings(run: Blocks, scores: Scores) -> Iterable[Claim[Node]]:
    """The document's four key findings, and its calibration column."""
    means = {(n.part, n.row, n.column): n.mean for n in printed_numbers("000", "table1")}

    def claim(
        source: str, text: str, lower: Group, higher: Group, value: Measured, *, is_main: bool = True
    ) -> Claim[Node]:
        """Cells of the two groups are paired in their order, and runs by seed."""
        groups = {
            name: {f"{pair}, {seed}": node for pair, cell in enumerate(cells) for seed, node in scores[cell].items()}
            for name, cells in (lower, higher)
        }
        first, second = (fmean(means[*cell, value.name] for cell in cells) for _, cells in (lower, higher))
        source, effect = f"{CITATION}, {source}", round(first - second, 4)
        return Claim(text, "lower", groups, (value,), source=source, printed=effect, is_main=is_main)

    def soft_is_better(
        source: str, where: str, soft: Group, hard: Group, than: str = "hard labels", *, is_main: bool = True
    ) -> Iterable[Claim[Node]]:
        """In three columns; calibration is the one in which the document has hard labels ahead."""
        texts = "give more accuracy", "detect SVHN better", "lose less accuracy under FGSM"
        for text, lower, higher, value in zip(
            texts, (hard, hard, soft), (soft, soft, hard), (ACCURACY, AUROC, DECREASE), strict=True
        ):
            yield claim(source, f"{where}, soft labels {text} than {than}.", lower, higher, value, is_main=is_main)

    soft, hard = ((row, [(BASIC, row)]) for row in (SOFT, HARD))
    every_soft, every_hard = ((row, [(block, row) for block in run.rows]) for row in (SOFT, HARD))
    yield from soft_is_better("Key Finding 1", "In the plain network", soft, hard, is_main=False)
    yield from soft_is_better("Key Finding 1", "Over all blocks", every_soft, every_hard, "hard labels (pooled)")

    both = {block: (block, [(block, row) for row in (SOFT, HARD)]) for block in run.rows}
    for block in (BASIC, DUQ, SNGP):
        text = f"MC dropout loses less accuracy under FGSM than {block}, with soft and hard labels (pooled)."
        yield claim("Key Finding 2", text, both[WITH_AUG], both[block], DECREASE)
    for block in (BASIC, WITH_AUG, DUQ):
        text = f"SNGP detects SVHN better than {block}, with soft and hard labels (pooled)."
        yield claim("Key Finding 3", text, both[block], both[SNGP], AUROC)

    where, mixings = "In the plain network", ("Mixup", "CutMix")
    for mixing in mixings:
        row = f"hard + {mixing}"
        yield from soft_is_better("Key Finding 4", where, soft, (row, [(BASIC, row)]), f"hard labels with {mixing}")
    mixed = {
        kind: (f"{kind} + mixing", [(BASIC, f"{kind} + {mixing}") for mixing in mixings]) for kind in ("soft", "hard")
    }
    where, than = "In the plain network under Mixup and CutMix, too", "hard labels (pooled)"
    yield from soft_is_better("Key Finding 4", where, mixed["soft"], mixed["hard"], than, is_main=False)

    text = "The plain network has a lower ECE, to the label, with hard labels than with soft ones."
    yield claim("Results", text, hard, soft, ECE)
