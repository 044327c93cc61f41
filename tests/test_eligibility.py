"""One predicate says what can be trained stacked."""

import re
from dataclasses import dataclass, replace

import pytest

from dissensus.engine.stacked_runs import stack_key
from dissensus.labels.mixing import Mixup
from dissensus.labels.targets import Shuffled, Teacher
from dissensus.models import Linear, Mlp
from dissensus.store.spec import Spec
from dissensus.training.augmentation import CropFlip
from dissensus.training.averaging import Ema
from dissensus.training.optimisers import Adam, AdamW, Sgd
from dissensus.training.recipe import Best, Recipe
from dissensus.training.schedules import Constant, Cosine, EarlyStopping, LinearDecay, Multistep, Plateau
from dissensus.training.splits import Holdout
from dissensus.training.stacked import why_not_stacked

HEAD = Recipe(
    data="digits",
    options=(("features", "toy"),),
    model=Mlp((16,)),
    optimiser=Adam(),
    schedule=Constant(),
    validation=Holdout(0.2),
)


@dataclass(frozen=True)
class Named:
    """All that a spec needs of data."""

    digest: str = "0" * 16


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"schedule": Plateau(), "stopping": EarlyStopping(), "best": Best()},
        {"schedule": Multistep((3,)), "optimiser": Sgd(), "model": Mlp((16, 8), 0.0)},
        {"optimiser": AdamW(), "target": Shuffled(Teacher(("0" * 16,)))},
    ],
)
def test_heads_on_features_with_rules_that_are_set_per_epoch_can_be_stacked(change):
    recipe = replace(HEAD, **change)
    assert why_not_stacked(recipe) == ""
    assert stack_key(recipe.spec(Named(), 0)) is not None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"options": ()}, "needs frozen features"),
        ({"model": Linear()}, "not Linear"),
        ({"model": Mlp(())}, "MLPs with hidden layers"),
        ({"model": Mlp(dropout=1.0)}, r"dropout in \[0, 1\)"),
        ({"schedule": Cosine()}, "set per epoch"),
        ({"schedule": LinearDecay()}, "set per epoch"),
        ({"schedule": Multistep(warmup=1)}, "set per epoch"),
        ({"mixing": Mixup()}, "mixes no items"),
        ({"augment": CropFlip()}, "augments nothing"),
        ({"precision": "bfloat16"}, "float32, not in bfloat16"),
        ({"averaging": Ema()}, "averages no weights"),
        ({"validation": None}, "needs a validation part"),
        ({"best": Best("evaluation")}, "validation loss alone"),
    ],
)
def test_every_other_recipe_says_why_not(change, reason):
    recipe = replace(HEAD, **change)
    assert re.search(reason, why_not_stacked(recipe))
    assert stack_key(recipe.spec(Named(), 0)) is None


def test_what_trains_nothing_is_no_member_of_a_stack():
    assert stack_key(Spec("measure", {"name": "evaluation"}, {"of": ("0" * 16,)})) is None
