"""The settings of speedy, and what a stage does for its stem."""

from dataclasses import replace

import pytest
import torch

from dissensus import datasets, random
from dissensus.engine.setup import TrainingSetup
from dissensus.models import Speedy, moments
from dissensus.models.flops import training_flops
from dissensus.recipes.speedy_settings import LAPTOP, QUALITY
from dissensus.store.ledger import Ledger
from dissensus.training.recipe import Recipe

DIGITS = datasets.load("digits")
PETA = 1e15
SETTINGS = {"laptop": (LAPTOP, 0.035), "quality": (QUALITY, 0.13)}
"""And what a run of it may cost, in PFLOP, on the 8,000 training images of CIFAR-10H."""


@pytest.mark.parametrize(("recipe", "most"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_stays_within_its_cost(recipe, most):
    model = recipe.model.build((3, 32, 32), 10, torch.zeros(3), torch.ones(3))
    assert 0.8 * most < training_flops(model, (3, 32, 32), 8_000 * recipe.epochs) / PETA <= most


@pytest.mark.parametrize(("recipe", "most"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_selects_nothing_and_goes_through_a_spec_and_back(recipe, most):
    assert (recipe.best, recipe.stopping, recipe.validation) == (None, None, None)
    assert recipe.method == "empirical × soft"
    spec = recipe.spec(replace(DIGITS, name="cifar10h"), seed=3)
    assert Recipe.of(spec.settings) == recipe


def test_the_stem_is_whitened_by_the_training_items_alone(tmp_path):
    recipe = Recipe(model=Speedy((4, 4)), epochs=1)
    stage = TrainingSetup.of(recipe.spec(DIGITS, 0), Ledger(tmp_path))
    mean, std = moments(DIGITS.x[stage.train])
    with random.seeded(0, "init"):
        by_hand = recipe.model.build((1, 8, 8), 10, mean, std)
    by_hand.prepare(DIGITS.x[stage.train])
    torch.testing.assert_close(stage.model().state_dict(), by_hand.state_dict(), rtol=0, atol=0)
    by_hand.prepare(DIGITS.x)
    assert not torch.equal(stage.model().body[0].weight, by_hand.body[0].weight)
