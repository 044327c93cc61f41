"""Votes: who chose which class for which item; read, written and inspected. Imports no torch."""

from dissensus.votes.alignment import Items, Matched, align, match, match_rows
from dissensus.votes.annotators import Annotator, describe_annotators
from dissensus.votes.anonymise import anonymise
from dissensus.votes.datasets_folder import write_datasets_folder
from dissensus.votes.inspection import alpha_interval, inspect_votes, krippendorff_alpha, pairwise_agreement
from dissensus.votes.read import read_votes
from dissensus.votes.read_as import ReadAs
from dissensus.votes.votes import Floats, Ints, Votes, row_names
from dissensus.votes.write import write_predictions, write_votes

__all__ = [
    "Annotator",
    "Floats",
    "Ints",
    "Items",
    "Matched",
    "ReadAs",
    "Votes",
    "align",
    "alpha_interval",
    "anonymise",
    "describe_annotators",
    "inspect_votes",
    "krippendorff_alpha",
    "match",
    "match_rows",
    "pairwise_agreement",
    "read_votes",
    "row_names",
    "write_datasets_folder",
    "write_predictions",
    "write_votes",
]
