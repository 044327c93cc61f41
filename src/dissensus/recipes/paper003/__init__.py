"""Gheibi and Ghazizadeh 2026 (key 003), Same Target, Different Basins: a recipe per table or figure, with shared runs."""

from dissensus.recipes.paper003 import all_votes, basins, few_votes, outside, similar_features
from dissensus.recipes.paper003.precision_pairs import precision
from dissensus.recipes.paper003.quality import quality
from dissensus.recipes.paper003.regularisation import regularisation

PAPER003 = {
    "003/table1": few_votes.table1,
    "003/table2": all_votes.table2,
    "003/table3": all_votes.table3,
    "003/table4": basins.table4,
    "003/table5": all_votes.table5,
    "003/table6": basins.table6,
    "003/table7": outside.table7,
    "003/table8": outside.table8,
    "003/table9": outside.table9,
    "003/figure1": few_votes.figure1,
    "003/figure2": few_votes.figure2,
    "003/figure3": all_votes.figure3,
    "003/figure4": few_votes.figure4,
    "003/figure5": few_votes.figure5,
    "003/figure6": few_votes.figure6,
    "003/figure7": basins.figure7,
    "003/figure8": all_votes.figure8,
    "003/figure9": similar_features.figure9,
    "003/figure10": all_votes.figure10,
    "003/figure11": basins.figure11,
    "003/figure12": similar_features.figure12,
    "003/precision": precision,
    "003/quality": quality,
    "003/regularisation": regularisation,
}
