"""Singh et al. 2025 (key 002), Soft-Label Training Preserves Epistemic Uncertainty: soft and hard labels for small heads.

    dissensus embed chaosnli minilm; dissensus embed popquorn minilm; dissensus embed cifar10h_hard efficientnet-lite0
    dissensus run 002/deliveries --scale paper --ledger runs --out deliveries    # includes every run that the others need
    dissensus run 002/table3 --scale paper --ledger runs --out table3

For each data set and each way of using the votes, 108 settings are tried on seed 0 and compared by validation loss; the
best is trained again on seeds 1 to 10. At laptop scale there are 12 settings and 5 seeds. Scores are those of the epoch
with the best validation loss. `002/redrawn` judges each seed on items of its own.
"""

from __future__ import annotations

from dissensus.recipes.paper002.head_figures import figure2, figure4, figure5
from dissensus.recipes.paper002.head_tables import deliveries, table2, table3, table4
from dissensus.recipes.paper002.redrawn import redrawn
from dissensus.recipes.paper002.vote_tables import figure1, figure3, table1

PAPER002 = {
    "002/table1": table1,
    "002/table2": table2,
    "002/table3": table3,
    "002/table4": table4,
    "002/figure1": figure1,
    "002/figure2": figure2,
    "002/figure3": figure3,
    "002/figure4": figure4,
    "002/figure5": figure5,
    "002/deliveries": deliveries,
    "002/redrawn": redrawn,
}
