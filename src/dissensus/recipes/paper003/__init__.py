"""003: same target, different basins. One recipe a table or figure; they share their runs by hash."""

from dissensus.recipes.paper003 import figures, tables
from dissensus.recipes.paper003.quality import quality

PAPER003 = {
    **{f"003/table{number}": getattr(tables, f"table{number}") for number in range(1, 10)},
    **{f"003/figure{number}": getattr(figures, f"figure{number}") for number in range(1, 13)},
    "003/quality": quality,
}
