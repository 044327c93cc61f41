"""Learn from people who disagree: votes in, a classifier whose probabilities match what people would say out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dissensus.errors import InputError
    from dissensus.estimator import VoteClassifier
    from dissensus.labels import DeliveredDataset, multipass, sampled, soft
    from dissensus.metrics import score
    from dissensus.votes import read_votes, write_votes
    from dissensus.votes.votes import Votes

__version__ = "0.1.0"
__all__ = [
    "DeliveredDataset",
    "InputError",
    "VoteClassifier",
    "Votes",
    "multipass",
    "read_votes",
    "sampled",
    "score",
    "soft",
    "write_votes",
]

_HOMES = {
    "DeliveredDataset": "dissensus.labels",
    "InputError": "dissensus.errors",
    "VoteClassifier": "dissensus.estimator",
    "Votes": "dissensus.votes.votes",
    "multipass": "dissensus.labels",
    "read_votes": "dissensus.votes",
    "sampled": "dissensus.labels",
    "score": "dissensus.metrics",
    "soft": "dissensus.labels",
    "write_votes": "dissensus.votes",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import dissensus` and the command line's help stay instant."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dissensus' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
