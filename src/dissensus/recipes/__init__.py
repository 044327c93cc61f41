"""Recipes that come with the package, by name: PAPER/tableN, PAPER/figureN, and the demo."""

from __future__ import annotations

from collections.abc import Callable

from dissensus.errors import InputError
from dissensus.experiments.description import SCALES, Experiment
from dissensus.experiments.plan import Node
from dissensus.recipes.demo import demo
from dissensus.recipes.paper002 import PAPER002
from dissensus.recipes.paper003 import PAPER003

Seeds = tuple[int, ...]

RECIPES: dict[str, Callable[[str, Seeds | None], Experiment[Node]]] = {"demo": demo, **PAPER002, **PAPER003}
"""Each maps a scale, and seeds instead of the recipe's own, to an experiment."""


def find(name: str, scale: str, seeds: Seeds | None = None) -> Experiment[Node]:
    """The experiment of a recipe at a scale."""
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}", where="recipes", hint=f"Choose one of: {', '.join(RECIPES)}")
    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}", where="recipes", hint=f"Choose one of: {', '.join(SCALES)}")
    if scale not in scales_of(name):
        raise InputError(
            f"it has no scale {scale!r}", where=f"recipe {name}", hint=f"Choose one of: {', '.join(scales_of(name))}"
        )
    return RECIPES[name](scale, seeds)


def scales_of(name: str) -> tuple[str, ...]:
    """The scales that a recipe has: miniature only where effects depend on a paper's own training."""
    has_miniature = name.startswith("003/") and name != "003/quality"
    return tuple(scale for scale in SCALES if scale != "miniature" or has_miniature)
