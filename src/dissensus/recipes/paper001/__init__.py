"""Peterson et al. 2019 (key 001), Human uncertainty makes classification more robust: a recipe per table or figure."""

from dissensus.recipes.paper001.fine_tuning import table1

PAPER001 = {
    "001/table1": table1,
}
