"""scikit-learn's own checks of an estimator, where votes as `y` allow them."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dissensus.estimator import VoteClassifier

NOT_FOR_VOTES = {
    "check_dtype_object": "asks for a TypeError; bad input raises InputError, which is a ValueError",
    "check_sample_weight_equivalence_on_dense_data": "folds are drawn by row: one of weight 2 is in one fold, not two",
    "check_sample_weight_equivalence_on_sparse_data": "as with dense data",
}
"""By the name of the check, why it does not apply."""


def expected_failures(estimator):
    return NOT_FOR_VOTES


@parametrize_with_checks([VoteClassifier(head="linear", weight_decay=0.1)], expected_failed_checks=expected_failures)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)
