"""The whole product target × delivery × mixing: each cell works, or stands on the list of refusals."""

import numpy as np
import pytest
import torch

from crowds import crowd
from dissensus.errors import InputError
from dissensus.labels.delivery import DELIVERIES
from dissensus.labels.mixing import MIXINGS
from dissensus.labels.targets import TARGETS, Glad, Mace, Teacher

WITHOUT_VOTES_OF_THEIR_OWN = {
    "majority", "gold", "smoothed", "class_mean", "dirichlet", "dawid_skene", "glad", "mace", "teacher",
}  # fmt: skip
REFUSED = {(target, "multipass") for target in WITHOUT_VOTES_OF_THEIR_OWN}
WITH_OPTIONS = {"teacher": Teacher(("one", "two")), "glad": Glad(iterations=2), "mace": Mace(restarts=1, iterations=2)}


def made(name, data, rows):
    if name in ("glad", "mace"):
        pytest.importorskip("crowdkit", reason="crowd-kit is not installed (the extra `aggregators`)")
    logits = torch.log(data.people[rows] + 0.1)
    rule = WITH_OPTIONS[name] if name in WITH_OPTIONS else TARGETS[name]()
    return rule.target(data, rows, seed=0, teachers=dict.fromkeys(rule.needed_runs, logits))


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("target", TARGETS)
def test_each_cell_delivers_one_label_per_item_or_is_on_the_list_of_refusals(target, delivery, mixing):
    data = crowd(images=True)
    rows = torch.arange(0, 60, 2)
    one = made(target, data, rows)
    assert one.probs.shape == (30, 4)
    assert torch.allclose(one.probs.sum(1), torch.ones(30, dtype=torch.float64))
    if (target, delivery) in REFUSED:
        with pytest.raises(InputError, match="`sampled`"):
            DELIVERIES[delivery]().labels(one, seed=0)
        return
    labels = DELIVERIES[delivery]().labels(one, seed=0)(3)
    if delivery == "soft":
        assert labels.dtype == torch.float32
        assert labels.shape == (30, 4)
    else:
        assert labels.dtype == torch.int64
        assert labels.shape == (30,)
        assert (one.probs.gather(1, labels[:, None]) > 0).all()
    x, mixed = MIXINGS[mixing]()(data.x[rows].float() / 255, labels, 4, np.random.default_rng(0))
    assert x.shape == (30, 1, 8, 8)
    if mixing == "unmixed":
        assert mixed is labels
    else:
        assert mixed.shape == (30, 4)
        assert torch.allclose(mixed.sum(1), torch.ones(30), atol=1e-6)
