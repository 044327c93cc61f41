"""What can be trained stacked: decided here, and nowhere else."""

from __future__ import annotations

from dissensus.labels.mixing import Unmixed
from dissensus.models import Architecture, Mlp
from dissensus.training.augmentation import NoAugment
from dissensus.training.optimisers import Adam, AdamW, OptimiserRule, Sgd
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Schedule


def why_not_stacked(recipe: Recipe) -> str:
    """Why runs of this recipe must be trained one by one; empty where they can be stacked."""
    reasons = {
        "a stack needs frozen features, which the data option `features` names": "features" not in dict(recipe.options),
        f"a stack mixes no items, and this recipe does: {recipe.mixing}": recipe.mixing != Unmixed(),
        f"a stack augments nothing, and this recipe does: {recipe.augment}": recipe.augment != NoAugment(),
        f"a stack computes in float32, not in {recipe.precision}": recipe.precision != "float32",
        "a stack averages no weights": recipe.averaging is not None,
        "a stack starts from weights of its own": recipe.init is not None,
        "a stack needs a validation part": recipe.validation is None,
        "a stack keeps the best epoch by the validation loss alone": recipe.best not in (None, Best("validation")),
    }
    first = next((reason for reason, holds in reasons.items() if holds), "")
    return architecture_problem(recipe.model) or rules_problem(recipe.optimiser, recipe.schedule) or first


def architecture_problem(architecture: Architecture) -> str:
    """Why a stack cannot hold such networks; empty where it can."""
    if isinstance(architecture, Mlp) and architecture.hidden and 0 <= architecture.dropout < 1:
        return ""
    return f"a stack holds MLPs with hidden layers and a dropout in [0, 1), not {architecture}"


def rules_problem(optimiser: OptimiserRule, schedule: Schedule) -> str:
    """Why a stack cannot step by these rules; empty where it can."""
    if not isinstance(optimiser, (Adam, AdamW, Sgd)):
        return f"a stack takes adam, adamw and sgd, not {optimiser}"
    if not schedule.set_per_epoch:
        return f"a stack takes a schedule that is set per epoch (constant, plateau), not {schedule}"
    return ""
