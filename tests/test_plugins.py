"""Members from outside the package reach every process that computes runs."""

import os
import subprocess
import sys

PLUGIN = '''
from dataclasses import dataclass, replace

from dissensus.experiments.plan import score_table
from dissensus.experiments.description import Experiment
from dissensus.labels.delivery import DELIVERIES, Labels
from dissensus.models import Linear
from dissensus.recipes import RECIPES
from dissensus.store.encoding import table
from dissensus.training.recipe import Recipe


@dataclass(frozen=True)
class Backwards:
    """The distribution with its classes reversed: a delivery that nobody should use."""

    def labels(self, target, seed) -> Labels:
        return lambda epoch: target.probs.float().flip(1)


DELIVERIES.update(table(Backwards))


def outside(scale, seeds=None):
    soft = Recipe(model=Linear(), epochs=1, batch=256)
    rows = {"Soft": soft, "Backwards": replace(soft, delivery=Backwards())}
    scores = score_table(rows, (0, 1), key="scores", title="Scores", baseline="Soft")
    return Experiment(key="outside", title="Outside", question="?", scale=scale, exhibits=(scores,))


RECIPES["outside"] = outside
'''


def dissensus(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dissensus", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
    )


def test_a_delivery_and_a_recipe_of_a_plugin_are_computed_in_worker_processes(tmp_path):
    (tmp_path / "my_lab.py").write_text(PLUGIN)
    arguments = ("run", "outside", "--scale", "smoke", "--out", "out", "--workers", "2")
    ended = dissensus(tmp_path, *arguments, DISSENSUS_PLUGINS="my_lab")
    assert ended.returncode == 0, ended.stderr
    assert "empirical × backwards" in (tmp_path / "out" / "results.csv").read_text()


def test_a_plugin_that_is_not_there_is_bad_input(tmp_path):
    ended = dissensus(tmp_path, "recipes", DISSENSUS_PLUGINS="no_such_lab")
    assert ended.returncode == 2
    assert "DISSENSUS_PLUGINS: the plugin 'no_such_lab' cannot be imported" in ended.stderr
    assert "Traceback" not in ended.stderr
