"""How worker processes start: forked from a server that has imported what they need, in some milliseconds each.

Importing torch, torch's compiler (the first optimiser does that) and this package takes a core about five seconds. A
server does it once, and can do it while its parent still plans: this module imports nothing heavy, so that it can be
used at once. The server never computes, so nothing that a fork breaks (threads, CUDA) has begun in it.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from multiprocessing.context import ForkServerContext, SpawnContext

PRELOADED = ["dissensus.engine.local", "torch._dynamo"]


def context() -> ForkServerContext | SpawnContext:
    """Makes processes and their pipes. On other systems than Linux, system libraries do not survive a fork."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(PRELOADED)  # without effect on a server that runs already
    return forkserver


def prepare() -> None:
    """Let the server begin its imports, without waiting for them."""
    if sys.platform == "linux":
        from multiprocessing import forkserver, resource_tracker

        context()
        resource_tracker.ensure_running()  # first, because it lets signals through again when it has started
        # Ctrl-C reaches the server too. It would ignore it once its imports are done; until then it is kept from it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            forkserver.ensure_running()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
