import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissensus import datasets
from dissensus.errors import InputError
from dissensus.experiments.plan import in_order, score_table
from dissensus.labels.delivery import Multipass, Sampled
from dissensus.labels.mixing import Cutmix, Mixup
from dissensus.labels.targets import TARGETS, Majority, Shuffled, Smoothed, Teacher
from dissensus.models import Mlp, ResNet18, Smallcnn
from dissensus.store.encoding import decode, encode, name_of
from dissensus.store.spec import Spec, canonical
from dissensus.training.augmentation import CropFlip
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Best, Recipe, Resampled
from dissensus.training.schedules import EarlyStopping, Multistep, Plateau
from dissensus.training.splits import Folds, Holdout

RECIPES = [
    Recipe(model=Smallcnn()),
    Recipe(
        model=Mlp(hidden=(8, 4)), target=Shuffled(Smoothed(0.2), seed=3), delivery=Sampled(every=5), mixing=Mixup(0.5)
    ),
    Recipe(model=ResNet18(), votes=Resampled(5), split=Folds(10, 3), mixing=Cutmix(), augment=CropFlip(padding=2)),
    Recipe(
        model=Mlp(),
        options=(("votes", 10),),
        validation=Holdout(0.25),
        schedule=Plateau(),
        stopping=EarlyStopping(),
        best=Best(),
        delivery=Multipass(seed_offset=1000),
    ),
    Recipe(model=Mlp(), optimiser=AdamW(), schedule=Multistep((3, 7)), target=Teacher(("0" * 16, "1" * 16), 2.0)),
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_comes_back_whole_from_the_json_of_its_spec(recipe):
    data = datasets.load("digits")
    spec = recipe.spec(data, seed=4)
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert Recipe.of(again.settings) == recipe
    assert again.id == spec.id
    assert again.settings["seed"] == 4
    assert again.settings["data"] == {"name": "digits", "options": dict(recipe.options), "digest": data.digest}


def test_every_default_is_written_into_the_spec():
    settings = Recipe(model=Smallcnn()).spec(datasets.load("digits"), 0).settings
    names = {field.name for field in fields(Recipe)} - {"options", "init"}  # of the data, and an input
    assert names | {"seed"} == set(settings)
    assert settings["optimiser"] == {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": False}


def test_whatever_differs_in_a_recipe_or_its_seed_differs_in_the_id():
    data = datasets.load("digits")
    base = Recipe(model=Smallcnn())
    others = [
        replace(base, epochs=3),
        replace(base, batch=64),
        replace(base, target=Majority()),
        replace(base, delivery=Sampled()),
        replace(base, delivery=Sampled(every=2)),
        replace(base, model=Smallcnn(width=8)),
        replace(base, votes=Resampled(3)),
        replace(base, votes=Resampled(3, replace=False)),
        replace(base, precision="bfloat16"),
    ]
    ids = [one.spec(data, seed).id for one in (base, *others) for seed in (0, 1)]
    assert len(set(ids)) == len(ids)
    assert replace(base.spec(data, 0), numerics=99).id not in ids


def test_a_spec_that_needs_teachers_names_them_as_inputs():
    spec = RECIPES[-1].spec(datasets.load("digits"), 0)
    assert spec.needs == ("0" * 16, "1" * 16)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (RECIPES[0], "empirical × soft"),
        (RECIPES[1], "shuffled(smoothed(eps=0.2)) × sampled(every=5) × mixup(alpha=0.5)"),
        (RECIPES[3], "empirical × multipass(seed_offset=1000)"),
    ],
)
def test_a_method_is_named_by_its_three_choices(recipe, words):
    assert recipe.method == words


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_canonical_json_does_not_depend_on_the_order_of_keys(document):
    def reversed_keys(part):
        if isinstance(part, dict):
            return {key: reversed_keys(part[key]) for key in reversed(part)}
        return [reversed_keys(one) for one in part] if isinstance(part, list) else part

    assert canonical(document) == canonical(reversed_keys(document))


def test_what_is_no_number_or_no_member_cannot_be_written_into_a_spec():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"loss": float("nan")})
    with pytest.raises(TypeError, match="cannot be written"):
        encode(lambda: 0)
    with pytest.raises(InputError, match="'telepathy' is not one of empirical, majority"):
        decode({"name": "telepathy"}, TARGETS)


def test_names_in_specs_are_lower_case_words():
    assert [name_of(one) for one in (Smallcnn, ResNet18, AdamW, EarlyStopping)] == [
        "smallcnn",
        "resnet18",
        "adamw",
        "early_stopping",
    ]


def test_what_watches_a_validation_loss_needs_a_validation_part():
    for watcher in ({"schedule": Plateau()}, {"stopping": EarlyStopping()}, {"best": Best()}):
        with pytest.raises(InputError, match="validation"):
            Recipe(model=Smallcnn(), **watcher)
    Recipe(model=Smallcnn(), best=Best(on="evaluation"))


def test_a_baseline_that_is_no_row_is_refused():
    with pytest.raises(InputError, match="not a row"):
        score_table({"Soft": Recipe(model=Smallcnn())}, (0,), key="k", title="t", baseline="Best")


def test_specs_are_ordered_after_what_they_need_and_circles_are_refused():
    one = Spec("train", {"seed": 1})
    two = Spec("measure", {"name": "evaluation"}, {"of": (one.id,)})
    three = Spec("relate", {"name": "ensemble"}, {"of": (one.id, two.id)})
    assert [spec.id for spec in in_order([three, two, one])] == [one.id, two.id, three.id]

    class Needy(Spec):
        needs = ("circle",)
        id = "circle"

    with pytest.raises(InputError, match="circle"):
        in_order([Needy("train", {})])
