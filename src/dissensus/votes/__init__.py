"""Votes: who chose which class for which item; read, written and inspected. Imports no torch."""

from dissensus.votes.alignment import align, match_rows
from dissensus.votes.inspection import inspect_votes, krippendorff_alpha, pairwise_agreement
from dissensus.votes.read import read_votes
from dissensus.votes.votes import Floats, Ints, Votes, row_names
from dissensus.votes.write import write_predictions, write_votes

__all__ = [
    "Floats",
    "Ints",
    "Votes",
    "align",
    "inspect_votes",
    "krippendorff_alpha",
    "match_rows",
    "pairwise_agreement",
    "read_votes",
    "row_names",
    "write_predictions",
    "write_votes",
]
