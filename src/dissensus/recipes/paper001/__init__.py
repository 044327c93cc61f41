"""Peterson et al. 2019 (key 001), Human uncertainty makes classification more robust: a recipe per table or figure.

Those that take `as_printed` have two protocols (see `study`): a clean one, and what the authors' released code shows.
"""

from dissensus.recipes.paper001.fine_tuning import table1
from dissensus.recipes.paper001.generalisation import figure1, figure2, figure3
from dissensus.recipes.paper001.under_attack import figure4, table2
from dissensus.recipes.paper001.vote_entropy import concentration

PAPER001 = {
    "001/table1": table1,
    "001/table2": table2,
    "001/figure1": figure1,
    "001/figure2": figure2,
    "001/figure3": figure3,
    "001/figure4": figure4,
    "001/concentration": concentration,
}
