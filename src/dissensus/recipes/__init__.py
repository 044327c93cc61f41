"""Recipes that come with the package, by name. A recipe is a function from a scale to an experiment."""

from __future__ import annotations

from collections.abc import Callable

from dissensus.errors import InputError
from dissensus.experiment import SCALES, Experiment
from dissensus.recipes.demo import demo

RECIPES: dict[str, Callable[[str], Experiment]] = {"demo": demo}


def find(name: str, scale: str) -> Experiment:
    """The experiment of a recipe at a scale."""
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}", where="recipes", mend=f"Choose one of: {', '.join(RECIPES)}")
    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}", where="recipes", mend=f"Choose one of: {', '.join(SCALES)}")
    return RECIPES[name](scale)
