"""The default model: linear models and MLPs over a small grid, chosen on items left out, pooled, refitted on everything.

0. Where items have very different numbers of votes, each counts by what its votes are worth.
1. Every candidate is trained without each fifth of the items in turn and predicts that fifth: linear models exactly
   (`training.logistic`), over a path of penalties, on features scaled each for itself and all alike; MLPs stacked, over
   dropout and weight decay, each stopped early by its loss on the fifth that it does not train on.
2. The linear models and the two best MLPs are pooled with the weights that fit the votes on items left out best
   (`pool_weights`): what does not help gets none. One temperature follows where it helps on items left out.
3. Members with weight are trained again on all items: the MLPs for as many epochs as were best, from several seeds.

    lesson.py             what there is to learn, and what a candidate is
    feature_bounds.py     what lies far outside of all features seen
    linear_candidates.py  solved exactly
    mlp_candidates.py     trained stacked; divergence
    vote_weights.py       how much an item counts, by its number of votes
    pool_weights.py       how much each candidate counts
    pooled_training.py    all of it

`benchmarks/default_fit.py` compares it with tuned logistic regression; docs/results/crowds.md has the numbers.
"""

from dissensus.training.selection.lesson import Candidate, CandidateGrid, Lesson
from dissensus.training.selection.pooled_training import TrainedPool, train_pool

__all__ = ["Candidate", "CandidateGrid", "Lesson", "TrainedPool", "train_pool"]
