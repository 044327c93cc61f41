"""Many small heads on one matrix of features, trained at once: a grid of MLPs on frozen embeddings.

The second training loop, and the only one: a step of a small head is mostly overhead, so members that see the same
batches go through them together, in one matrix product, and each process trains a stack of members of its own. Every
member gets the numbers that `loop.fit` would have given it alone, up to rounding: the same initial weights, order,
labels, dropout masks, updates, plateaus and stops. Tests compare the two.

    eligibility.py    what can be trained stacked
    members.py        what a member is, and what becomes of it
    shared_inputs.py  what members of one seed, batch size and split share: inputs in order, dropout masks
    batched_heads.py  the weights of a stack: forward, backward and update
    grouping.py       which members are one run, and which go together in a stack
    stack.py          epochs, validation, stopping
    side_by_side.py   stacks at the same time, in processes or threads
"""

from dissensus.training.stacked.eligibility import why_not_stacked
from dissensus.training.stacked.members import Member, Monitor, Trained
from dissensus.training.stacked.stack import Checkpoint, fit

__all__ = ["Checkpoint", "Member", "Monitor", "Trained", "fit", "why_not_stacked"]
