"""The scikit-learn face: features and votes in, probabilities that match what people would say out.

vote_classifier.py  the estimator
training_data.py    what users hand over, made into Data
vote_frames.py      votes in data frames
named_heads.py      heads by name, and the grid that is searched
weighted_rows.py    any scikit-learn classifier on votes
measured_fit.py     scores on held-out items, beside the baselines
model_folder.py     a model on disk, whole or refused
model_card.py       what a reader must know about a model
"""

from dissensus.estimator.named_heads import HEADS
from dissensus.estimator.vote_classifier import VoteClassifier

__all__ = ["HEADS", "VoteClassifier"]
