"""Scores are computed in blocks of items: the same numbers as over all items at once, and no large matrix on the way."""

import io

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rich.console import Console

from crowds import crowd
from dissensus import metrics
from dissensus.cli import cli
from dissensus.cli.stage_progress import StageProgress
from dissensus.datasets.data import Data
from dissensus.engine.judging import judge
from dissensus.errors import InputError
from dissensus.metrics import row_blocks as blocks_module
from dissensus.metrics import vote_mixture
from dissensus.metrics.agreement import second_choice
from dissensus.metrics.proper import p_log_p
from dissensus.metrics.row_blocks import LogProbs, log_softmax
from dissensus.metrics.scoring import score_all
from dissensus.metrics.temperature import fit_temperature, tempered
from dissensus.models.predictions import Predictions
from dissensus.votes.votes import Votes

DATA = crowd(items=90)
LOGITS = torch.from_numpy(np.log(DATA.people.numpy() + 0.1) + np.random.default_rng(0).normal(size=DATA.people.shape))
LOG_PROBS = torch.log_softmax(LOGITS, 1)
NAIVE = {
    "soft_nll": lambda lq, p, gold: metrics.soft_nll(lq, p).mean(),
    "kl": lambda lq, p, gold: metrics.kl(lq, p).mean(),
    "js": lambda lq, p, gold: metrics.js(lq.exp(), p).mean(),
    "soft_brier": lambda lq, p, gold: metrics.soft_brier(lq.exp(), p).mean(),
    "nll_gold": lambda lq, p, gold: metrics.nll_gold(lq, gold).mean(),
    "accuracy": lambda lq, p, gold: metrics.accuracy(lq, gold),
    "second_best_accuracy": lambda lq, p, gold: metrics.second_best_accuracy(lq, p),
    "second_best_accuracy_well_defined": lambda lq, p, gold: metrics.second_best_accuracy(lq, p, well_defined=True),
    "ece_mass_15": lambda lq, p, gold: metrics.ece(*metrics.top_label(lq, gold), binning="mass", bins=15),
    "smooth_ece": lambda lq, p, gold: metrics.smooth_ece(*metrics.top_label(lq, gold)),
    "entropy_pearson": lambda lq, p, gold: metrics.entropy_correlation(lq.exp(), p, kind="pearson"),
    "entropy_spearman": lambda lq, p, gold: metrics.entropy_correlation(lq.exp(), p, kind="spearman"),
    "soft_nll_floor": lambda lq, p, gold: metrics.soft_nll_floor(p).mean(),
    "soft_brier_unbiased": lambda lq, p, gold: metrics.soft_brier_unbiased(lq.exp(), DATA.counts).mean(),
}


@pytest.fixture(params=[1, 64, 2**16])
def numbers(request, monkeypatch):
    """In a block: one item each, some items each, and all at once."""
    monkeypatch.setattr(blocks_module, "NUMBERS", request.param)


class InBlocks:
    """A matrix that hands out at most so many rows at a time."""

    def __init__(self, whole, most):
        self.whole, self.most, self.shape = whole, most, tuple(whole.shape)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        part = self.whole[rows]
        assert len(part) <= self.most
        return part


@pytest.mark.usefixtures("numbers")
def test_scores_in_blocks_are_those_of_all_items_at_once():
    scores = metrics.score(LOG_PROBS, DATA.people, DATA.labels, DATA.counts)
    for name, naive in NAIVE.items():
        assert scores[name] == pytest.approx(float(naive(LOG_PROBS, DATA.people, DATA.labels)), rel=1e-12), name
    assert scores["soft_nll_expected"] == metrics.estimate_truth_scores(DATA.counts).soft_nll.value


@pytest.mark.usefixtures("numbers")
def test_a_temperature_in_blocks_is_the_one_at_which_the_whole_loss_is_flat():
    for target in (DATA.people, DATA.labels):
        chosen = torch.arange(0, 90, 3)
        fitted = fit_temperature(LOGITS, target, chosen)
        inverse = torch.tensor(1 / fitted.value, dtype=torch.float64, requires_grad=True)
        torch.nn.functional.cross_entropy(LOGITS[chosen] * inverse, target[chosen]).backward()
        assert float(inverse.grad) == pytest.approx(0, abs=1e-12)
        assert fitted == fit_temperature(LOGITS[chosen], target[chosen])


def test_no_metric_asks_for_more_than_a_block_of_any_matrix(monkeypatch):
    monkeypatch.setattr(blocks_module, "NUMBERS", 10 * DATA.people.shape[1])
    log_probs, people, counts = (InBlocks(part, most=10) for part in (LOG_PROBS, DATA.people, DATA.counts))
    scores = score_all({"scores": log_probs}, people, DATA.labels, counts)["scores"]
    assert scores == metrics.score(LOG_PROBS, DATA.people, DATA.labels, DATA.counts)


def test_judging_makes_no_table_of_all_votes_where_most_counts_are_zero():
    rng = np.random.default_rng(0)
    names = [str(number) for number in range(300)]
    votes = Votes(np.repeat(np.arange(300), 3), rng.integers(300, size=900), names, names)
    logits = torch.from_numpy(rng.normal(size=(300, 300)))
    data = Data.of_votes(votes)
    scores, _ = judge(Predictions(logits), data, torch.arange(300), seed=0)
    assert not {"counts", "soft"} & vars(votes).keys()
    assert not {"counts", "people"} & vars(data).keys()
    whole = metrics.score(
        LogProbs(logits), torch.from_numpy(votes.soft.copy()), None, torch.from_numpy(votes.counts.copy())
    )
    assert scores["raw"] == whole


@pytest.mark.parametrize("classes", [3, 400])
def test_counts_of_some_items_are_rows_of_the_whole_table(classes):
    rng = np.random.default_rng(1)
    item, label = np.repeat(np.arange(20), 4), rng.integers(classes, size=80)
    rows = np.array([7, 0, 19, 7])
    few = Votes(item, label, [f"i{n}" for n in range(20)], [f"c{n}" for n in range(classes)]).counts_of(rows)
    naive = np.stack([np.bincount(label[item == row], minlength=classes) for row in rows])
    assert (few == naive).all()
    assert few.dtype == np.int64


@pytest.mark.usefixtures("numbers")
def test_a_bad_row_is_named_by_its_number_among_all_items():
    log_probs, people, counts = LOG_PROBS.clone(), DATA.people.clone(), DATA.counts.clone()
    log_probs[61] += 1
    with pytest.raises(InputError, match="row 61 sum to 2"):
        metrics.score(log_probs, people)
    people[62] = 0.9
    with pytest.raises(InputError, match="row 62"):
        metrics.score(LOG_PROBS, people)
    counts[63] = 0
    with pytest.raises(InputError, match="row 63 has a negative count"):
        metrics.score(LOG_PROBS, DATA.people, counts=counts)


@settings(deadline=None, max_examples=200)
@given(
    arrays.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(2, 5)), elements=st.sampled_from([-np.inf, -2.0, -1.0, 0.0])
    )
)
def test_the_second_choice_is_that_of_a_stable_sort_whatever_ties(values):
    second, strict = second_choice(values)
    assert second.tolist() == values.argsort(1, kind="stable")[:, -2].tolist()
    ranked = np.sort(values, 1)[:, ::-1][:, :3]
    assert strict.tolist() == (ranked[:, :-1] > ranked[:, 1:]).all(1).tolist()


def test_faster_logarithms_are_those_of_torch():
    probs = torch.cat([torch.rand(1000, dtype=torch.float64), torch.tensor([0.0, 1.0, 1e-300, 1 - 1e-16])])
    torch.testing.assert_close(p_log_p(probs), torch.xlogy(probs, probs), rtol=1e-14, atol=0)
    logits = torch.tensor([[800.0, -800.0, 3.0], [0.0, -torch.inf, 1e-9]], dtype=torch.float64)
    torch.testing.assert_close(log_softmax(logits), torch.log_softmax(logits, 1), rtol=1e-14, atol=1e-16)


def test_tempered_rows_are_rows_of_the_whole():
    for fit in tempered(LOGITS, DATA.people, DATA.labels, rows=torch.arange(90), seed=0).values():
        assert torch.cat([fit.rows[:7], fit.rows[7:90]]).equal(fit.log_probs)


@pytest.mark.usefixtures("numbers")
def test_the_sample_behind_the_ceilings_is_that_of_all_rows_sorted(monkeypatch):
    monkeypatch.setattr(vote_mixture, "MOST_ITEMS", 17)
    counts = np.random.default_rng(2).poisson(0.4, size=(60, 12)) + np.eye(12, dtype=np.int64)[0]
    rows = np.sort(counts, 1)[:, ::-1]
    rows = rows[np.lexsort(rows.T)][(np.arange(17) * 60) // 17]
    ours = vote_mixture.sample(counts)
    assert (ours == rows[:, : ours.shape[1]]).all()
    assert not rows[:, ours.shape[1] :].any()


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal():
    console = Console(width=80, force_terminal=False, record=True, file=io.StringIO())
    with StageProgress(console, line_every=0.0) as tell:
        judge(Predictions(LOGITS), DATA, torch.arange(90), seed=0, tell=tell)
    lines = console.export_text().splitlines()
    assert "reading the votes: 90 of 90 items, after 0 s" in lines
    assert {line.split(":")[0] for line in lines} == {
        "fitting temperatures",
        "reading the votes",
        "scoring raw",
        "scoring tempered to votes",
        "scoring tempered to gold",
    }
    with StageProgress(console) as tell:
        tell("scoring", 1, 2)
    assert len(console.export_text()) == 0


def test_the_command_score_makes_no_table_of_all_items(tmp_path, monkeypatch):
    """100,000 items of 1,000 classes took 5 GB when a note on ties asked for all shares at once."""

    def whole_table(data):
        raise AssertionError("a table of all items was made")

    monkeypatch.setattr(Data, "people", property(whole_table))
    np.save(tmp_path / "counts.npy", np.array([[1, 1, 0], [0, 2, 1], [3, 0, 0], [0, 0, 4]]))
    np.save(tmp_path / "probs.npy", np.full((4, 3), 1 / 3))
    ended = CliRunner().invoke(
        cli, ["score", str(tmp_path / "probs.npy"), str(tmp_path / "counts.npy"), "--json"], catch_exceptions=False
    )
    assert ended.exit_code == 0
    assert "1 of 4 items have no unique majority" in ended.output
