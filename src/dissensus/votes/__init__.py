"""Votes: who said what about which item; read from and written to files. Imports no torch."""

from dissensus.votes.alignment import align, match_rows
from dissensus.votes.read import read_votes
from dissensus.votes.votes import Floats, Ints, Votes, row_names
from dissensus.votes.write import write_predictions, write_votes

__all__ = [
    "Floats",
    "Ints",
    "Votes",
    "align",
    "match_rows",
    "read_votes",
    "row_names",
    "write_predictions",
    "write_votes",
]
