"""003: same target, different basins. One recipe a table or figure; they share their runs by hash."""

from dissensus.recipes.paper003 import all_votes, basins, few_votes, outside
from dissensus.recipes.paper003 import similar_features as features
from dissensus.recipes.paper003.quality import quality

_MODULES = {
    few_votes: ("table1", "figure1", "figure2", "figure4", "figure5", "figure6"),
    all_votes: ("table2", "table3", "table5", "figure3", "figure8", "figure10"),
    basins: ("table4", "table6", "figure7", "figure11"),
    features: ("figure9", "figure12"),
    outside: ("table7", "table8", "table9"),
}
_FOUND = {name: getattr(module, name) for module, names in _MODULES.items() for name in names}

PAPER003 = {
    **{f"003/table{number}": _FOUND[f"table{number}"] for number in range(1, 10)},
    **{f"003/figure{number}": _FOUND[f"figure{number}"] for number in range(1, 13)},
    "003/quality": quality,
}
