"""Recipes that come with the package, by name: PAPER/tableN, PAPER/figureN, and the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from dissensus.errors import InputError
from dissensus.experiments.description import SCALES, Experiment
from dissensus.experiments.plan import Node
from dissensus.recipes.demo import demo
from dissensus.recipes.paper000 import PAPER000
from dissensus.recipes.paper001 import PAPER001
from dissensus.recipes.paper002 import PAPER002
from dissensus.recipes.paper003 import PAPER003

Seeds = tuple[int, ...]
Make = Callable[..., Experiment[Node]]

RECIPES: dict[str, Make] = {"demo": demo, **PAPER000, **PAPER001, **PAPER002, **PAPER003}
"""Each maps a scale, and seeds instead of the recipe's own, to an experiment; those that encode take encoders, too."""


def find(
    name: str,
    scale: str,
    seeds: Seeds | None = None,
    encoders: Mapping[str, str] | None = None,
    *,
    as_printed: bool = False,
) -> Experiment[Node]:
    """The experiment of a recipe at a scale; `encoders` replace the recipe's own.

    With `as_printed`, by the protocol that the paper's authors really followed, where it differs from the clean one.
    """
    if name not in RECIPES:
        raise InputError(f"there is no recipe {name!r}", where="recipes", hint=f"Choose one of: {', '.join(RECIPES)}")
    if scale not in SCALES:
        raise InputError(f"there is no scale {scale!r}", where="recipes", hint=f"Choose one of: {', '.join(SCALES)}")
    if scale not in scales_of(name):
        raise InputError(
            f"it has no scale {scale!r}", where=f"recipe {name}", hint=f"Choose one of: {', '.join(scales_of(name))}"
        )
    taken, options = signature(RECIPES[name]).parameters, dict[str, Any]()
    if encoders:
        if "encoders" not in taken:
            raise InputError("it encodes nothing", where=f"recipe {name}", hint="Leave --encoder out")
        options["encoders"] = encoders
    if as_printed:
        if "as_printed" not in taken:
            raise InputError("it has one protocol alone", where=f"recipe {name}", hint="Leave --as-printed out")
        options["as_printed"] = True
    return RECIPES[name](scale, seeds, **options)


def scales_of(name: str) -> tuple[str, ...]:
    """The scales that a recipe has: miniature only where effects depend on a paper's own training, offline where features
    are made by an encoder."""
    special = {"miniature": name.startswith("003/") and name != "003/quality", "offline": name.startswith("002/")}
    return tuple(scale for scale in SCALES if special.get(scale, True))
