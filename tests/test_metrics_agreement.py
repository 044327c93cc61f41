from itertools import permutations

import pytest
import torch

from dissensus.errors import InputError
from dissensus.metrics import (
    auroc,
    entropy,
    entropy_correlation,
    fpr_at_95,
    high_disagreement,
    normalised_entropy,
    second_best_accuracy,
    top_class,
)


def test_equal_shares_in_any_class_order_tie_in_rank():
    orders = torch.tensor(list(permutations([20, 7, 5, 3])), dtype=torch.float64) / 35
    unanimous = torch.eye(4, dtype=torch.float64)
    assert len(entropy(orders).unique()) > 1  # in the last bit
    model = torch.cat([orders, unanimous])
    steps = torch.cat([torch.tensor([[0.6, 0.4, 0, 0]] * len(orders)), unanimous])
    assert entropy_correlation(model, steps.double(), kind="spearman") == pytest.approx(1, abs=1e-12)


def test_among_equals_the_top_class_is_the_one_with_the_lowest_index():
    tied = torch.tensor([[0.1, 0.3, 0.3, 0.3], [0.25, 0.25, 0.25, 0.25], [0.0, 0.2, 0.4, 0.4]])
    assert top_class(tied).tolist() == [1, 0, 2]
    assert top_class(tied.repeat(1, 50).requires_grad_()).tolist() == [1, 0, 2]


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


def test_scores_that_are_not_one_number_per_item_raise():
    with pytest.raises(InputError, match="not one score per item"):
        auroc(torch.zeros(2, 2), torch.zeros(2))
    with pytest.raises(InputError, match="scores_out: some scores are NaN"):
        fpr_at_95(torch.zeros(2), torch.tensor([torch.nan]))
