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
    return RECIPES[name](scale, seeds)
