from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dissensus.errors import InputError
from dissensus.metrics import (
    auroc,
    entropy,
    entropy_correlation,
    fpr_at_95,
    high_disagreement,
    krippendorff_alpha,
    normalised_entropy,
    pairwise_agreement,
    second_best_accuracy,
)

tables = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any), min_size=1, max_size=8)


def ballots(counts):
    """One list of labels an item, of the items with two votes or more."""
    lists = [[label for label, n in enumerate(row) for _ in range(n)] for row in counts]
    return [votes for votes in lists if len(votes) > 1]


@settings(deadline=None)
@given(tables)
def test_alpha_and_pairwise_agreement_are_what_counting_all_pairs_gives(counts):
    items = ballots(counts)
    everyone = [label for votes in items for label in votes]
    ours = krippendorff_alpha(torch.tensor(counts)), pairwise_agreement(torch.tensor(counts))
    if len(set(everyone)) < 2:
        assert ours[0] is None
    else:
        weights = [1 / (len(votes) - 1) for votes in items]
        observed = sum(w * (a != b) for w, votes in zip(weights, items, strict=True) for a, b in permutations(votes, 2))
        expected = sum(a != b for a, b in permutations(everyone, 2)) / (len(everyone) - 1)
        assert ours[0] == pytest.approx(1 - observed / expected)
    if items:
        shares = [np.mean([a == b for a, b in permutations(votes, 2)]) for votes in items]
        assert ours[1] == pytest.approx(np.mean(shares))
    else:
        assert ours[1] is None


def test_alpha_of_krippendorffs_own_example_is_his():
    # Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), example C: 4 observers, 12 units, nominal 0.743.
    units = ["111", "2232", "3333", "3333", "2222", "1234", "4444", "1121", "2222", "555", "11", "3"]
    counts = torch.tensor([[unit.count(str(label)) for label in range(1, 6)] for unit in units])
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


def test_equal_shares_in_any_class_order_tie_in_rank():
    orders = torch.tensor(list(permutations([20, 7, 5, 3])), dtype=torch.float64) / 35
    unanimous = torch.eye(4, dtype=torch.float64)
    assert len(entropy(orders).unique()) > 1  # in the last bit
    model = torch.cat([orders, unanimous])
    steps = torch.cat([torch.tensor([[0.6, 0.4, 0, 0]] * len(orders)), unanimous])
    assert entropy_correlation(model, steps.double(), kind="spearman") == pytest.approx(1, abs=1e-12)


def test_normalised_entropy_goes_from_0_to_1():
    assert normalised_entropy(torch.tensor([[1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])).tolist() == pytest.approx([0, 1])
    assert normalised_entropy(torch.ones(2, 1)).tolist() == [0, 0]


def test_the_high_disagreement_slice_has_the_top_tenth_and_its_ties():
    top = torch.linspace(0.5, 1, 100, dtype=torch.float64)
    assert high_disagreement(torch.stack([top, 1 - top], 1)).nonzero()[:, 0].tolist() == list(range(10))
    assert bool(high_disagreement(torch.tensor([[1.0, 0.0]] * 20)).all())


def test_the_same_votes_in_any_class_order_are_in_the_slice_together():
    orders = torch.tensor(list(permutations([20, 7, 5, 3])), dtype=torch.float64) / 35
    calm = torch.tensor([[0.9, 0.1, 0.0, 0.0]] * 100, dtype=torch.float64)
    chosen = high_disagreement(torch.cat([orders, calm]))
    assert len(entropy(orders).unique()) > 1  # in the last bit
    assert chosen.tolist() == [True] * len(orders) + [False] * len(calm)
    few = torch.cat([orders, calm[:1].expand(10, 4)])  # now the percentile itself lies among the tied
    assert high_disagreement(few).tolist() == [True] * len(orders) + [False] * 10


def test_the_second_choice_among_equals_is_the_higher_class_index():
    model = torch.tensor([[0.1, 0.6, 0.0, 0.3], [0.3, 0.6, 0.0, 0.1], [0.5, 0.3, 0.2, 0.0]]).log()
    people = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.6, 0.3, 0.1, 0.0]])
    assert second_best_accuracy(model, people) == pytest.approx(2 / 3)
    assert second_best_accuracy(model, people, well_defined=True) == 1
    assert second_best_accuracy(model[:2], people[:2], well_defined=True) is None


def test_a_model_in_doubt_where_people_are_has_a_rank_correlation_of_1():
    people = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.6, 0.4]])
    model = torch.tensor([[0.99, 0.01], [0.2, 0.8], [0.7, 0.3]])
    assert entropy_correlation(model, people, kind="spearman") == pytest.approx(1)
    assert 0.8 < entropy_correlation(model, people, kind="pearson") < 1
    assert entropy_correlation(model[:1].expand(3, 2), people, kind="pearson") is None


def test_entropies_of_a_hugely_confident_model_keep_their_order():
    top = torch.tensor([400.0, 500.0, 600.0], dtype=torch.float64)
    model = torch.log_softmax(torch.stack([top, torch.zeros(3)], 1), 1).exp()
    people = torch.tensor([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2]])
    assert entropy_correlation(model, people, kind="spearman") == pytest.approx(1)


def test_auroc_counts_ties_half_and_nothing_else():
    assert auroc(torch.tensor([1.0, 1.0]), torch.tensor([1.0])) == 0.5
    assert auroc(torch.tensor([0.0, 1.0]), torch.tensor([2.0])) == 1
    assert auroc(torch.tensor([0, 1]), torch.tensor([-1])) == 0


def test_fpr_at_95_lets_in_exactly_95_of_100():
    inside = torch.arange(100)
    assert fpr_at_95(inside, torch.tensor([93.0, 94.0, 95.0])) == pytest.approx(2 / 3)
    assert fpr_at_95(inside[:20], torch.tensor([18.0, 19.0])) == pytest.approx(1 / 2)


def test_scores_that_are_not_one_number_an_item_raise():
    with pytest.raises(InputError, match="not one score an item"):
        auroc(torch.zeros(2, 2), torch.zeros(2))
    with pytest.raises(InputError, match="scores_out: some scores are NaN"):
        fpr_at_95(torch.zeros(2), torch.tensor([torch.nan]))
