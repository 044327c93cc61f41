"""Files in and out: votes, predictions, probabilities, gold labels and features. Imports no torch."""

from dissensus.readers.alignment import align, match_rows
from dissensus.readers.gold import read_gold
from dissensus.readers.matrices import Matrix, read_features, read_predictions, read_probabilities
from dissensus.readers.read import read_votes
from dissensus.readers.write import write_predictions, write_votes

__all__ = [
    "Matrix",
    "align",
    "match_rows",
    "read_features",
    "read_gold",
    "read_predictions",
    "read_probabilities",
    "read_votes",
    "write_predictions",
    "write_votes",
]
