import pytest
import torch

from crowds import crowd
from dissensus import metrics
from dissensus.engine import judging
from dissensus.models.predictions import Predictions

DATA = crowd(items=40)
ROWS = torch.arange(0, 40, 2)
SAID = Predictions(torch.log(DATA.people[ROWS] + 0.1))


def test_predictions_are_judged_raw_and_after_each_temperature():
    scores, temperatures = judging.judge(SAID, DATA, ROWS, seed=0)
    assert list(scores) == ["raw", "tempered_votes", "tempered_gold"]
    assert scores["raw"]["soft_nll"] == pytest.approx(float(metrics.soft_nll(SAID.log_probs, DATA.people[ROWS]).mean()))
    assert all(len(halves) == 2 for halves in temperatures.values())


@pytest.mark.parametrize("logits", [SAID.logits[:1], torch.where(SAID.logits < -2, -torch.inf, SAID.logits)])
def test_a_single_item_or_a_probability_of_0_is_judged_raw_alone(logits):
    scores, temperatures = judging.judge(Predictions(logits), DATA, ROWS[: len(logits)], seed=0)
    assert list(scores) == ["raw"]
    assert temperatures == {}


def test_what_a_run_keeps_of_its_predictions_can_be_judged_without_the_data_set():
    kept = judging.record(SAID, DATA, ROWS)
    assert set(kept) == {"rows", "logits", "people", "labels", "counts", "ids"}
    assert kept["ids"].tolist() == [f"item{row}" for row in ROWS.tolist()]
    assert (kept["people"] == DATA.people[ROWS].numpy()).all()
