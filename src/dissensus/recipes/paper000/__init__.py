"""Do Soft Labels Enhance Neural Network Training? (key 000): its two tables, and a figure that it lacks."""

from dissensus.recipes.paper000.differences import figure1
from dissensus.recipes.paper000.results_table import table1
from dissensus.recipes.paper000.sizes import parameters

PAPER000 = {"000/table1": table1, "000/parameters": parameters, "000/figure1": figure1}
