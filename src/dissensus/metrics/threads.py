"""How many threads torch uses, for a while.

Small products gain nothing from a second thread, and on a busy machine the threads of one product wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A block (or a function, as a decorator) in which torch uses so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
