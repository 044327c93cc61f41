"""Whether the head of a Ray cluster is still there. Ray itself waits a minute for it, and then ends the process.

Calls to Ray can wait as long as Ray does. A thread looks after the head from outside of Ray: when its port has not
answered for some seconds the driver stops, keeps what is finished, and says so; where the driver waits inside Ray, the
thread ends the process.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from dissensus.errors import InputError

INTERVAL = 1.0  # seconds between two looks
PATIENCE = 4  # looks in vain, one after the other, after which the head counts as gone
LAST_WORD = 2.0  # seconds for a driver to end by itself, before its process is ended


class RayHeadLostError(InputError):
    """The head of the cluster no longer answers."""

    def __init__(self, address: str) -> None:
        super().__init__(
            "the head of the Ray cluster no longer answers",
            where=f"Ray at {address}",
            hint="Start the cluster again and run the same command: it goes on from there",
            state="Finished runs and the last checkpoint of unfinished ones are kept.",
        )


@contextmanager
def watched_head(ray: Any) -> Iterator[RayHeadWatch]:
    """Look after the head of the cluster that this process is connected to."""
    watch = RayHeadWatch(ray.get_runtime_context().gcs_address)
    try:
        yield watch
    finally:
        watch.close()


class RayHeadWatch:
    """Looks whether the head listens, until it is closed. `lost` is what to raise once it no longer does."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._place = address, (host.strip("[]"), int(port))
        self._closed = threading.Event()
        self.lost: RayHeadLostError | None = None
        threading.Thread(target=self._look, daemon=True).start()

    def check(self) -> None:
        """Raise where the head is gone."""
        if self.lost is not None:
            raise self.lost

    def close(self) -> None:
        """The driver has ended."""
        self._closed.set()

    def _look(self) -> None:
        failures = 0
        while failures < PATIENCE:
            if self._closed.wait(INTERVAL):
                return
            try:
                socket.create_connection(self._place, INTERVAL).close()
                failures = 0
            except OSError:
                failures += 1
        self.lost = RayHeadLostError(self._address)
        if not self._closed.wait(LAST_WORD):
            self.end_process()

    def end_process(self) -> None:
        """Say why, and end without waiting for Ray. Locks of a process that is gone are free at once."""
        if self.lost is not None:
            end_without_ray(self.lost)


def end_without_ray(problem: RayHeadLostError) -> NoReturn:
    """End this process with a message. The ordinary end would let Ray wait for its head once more."""
    with suppress(OSError):
        sys.stderr.write(f"\ndissensus: {problem}\n")
        sys.stderr.flush()
    os._exit(2)
