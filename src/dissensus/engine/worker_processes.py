"""How worker processes are born: forked from a server that has imported what they need, in some milliseconds each.

Importing torch, torch's compiler (the first optimiser does that) and this package takes a core about five seconds. A
server does it once, and can do it while its parent still plans: this module imports nothing heavy, so that it can be
asked for at once. The server never computes, so nothing that a fork breaks (threads, CUDA) has begun in it.
"""

from __future__ import annotations

import multiprocessing
import sys
from multiprocessing.context import ForkServerContext, SpawnContext

NEEDED = ["dissensus.engine.local", "torch._dynamo"]


def context() -> ForkServerContext | SpawnContext:
    """Where to make processes and their pipes. Elsewhere than on Linux, system libraries do not bear a fork."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(NEEDED)  # without effect on a server that runs already
    return made


def prepare() -> None:
    """Let the server begin its imports, without waiting for them."""
    if sys.platform == "linux":
        from multiprocessing import forkserver

        context()
        forkserver.ensure_running()
