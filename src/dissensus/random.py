"""All randomness: streams keyed by their purpose, so that no draw depends on earlier draws.

A stream is a pure function of (seed, purpose, where). No state survives between epochs, workers or resumptions, and two
purposes never share a stream. Streams are made on the CPU whatever the device, so a GPU sees the same labels and order.

torch is imported inside the functions: reading and inspecting votes must not wait for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Purpose = Literal["split", "subsample", "init", "order", "augment", "deliver", "mix", "dropout", "probe", "attack"]
PURPOSES: tuple[str, ...] = get_args(Purpose)


def key(seed: int, purpose: Purpose, *where: int | str) -> int:
    """A 64-bit key for one stream. Types are part of the key: 1 and "1" give different streams."""
    if purpose not in PURPOSES:
        raise ValueError(f"unknown purpose {purpose!r}: one of {', '.join(PURPOSES)}")
    text = repr((int(seed), purpose, *where))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def generator(seed: int, purpose: Purpose, *where: int | str) -> torch.Generator:
    """A fresh CPU generator at the start of the stream of its arguments.

    >>> import torch
    >>> a, b = generator(0, "order", 3), generator(0, "order", 3)
    >>> bool((torch.randperm(100, generator=a) == torch.randperm(100, generator=b)).all())
    True
    """
    import torch

    return torch.Generator().manual_seed(key(seed, purpose, *where))


def numpy_generator(seed: int, purpose: Purpose, *where: int | str) -> np.random.Generator:
    """The same for NumPy: for distributions that torch cannot draw with a generator (beta, gamma)."""
    return np.random.Generator(np.random.Philox(key(seed, purpose, *where)))


def uniform(seed: int, purpose: Purpose, *where: int | str, rows: torch.Tensor | NDArray[Any]) -> NDArray[np.float64]:
    """One float64 in [0, 1) per row, keyed by the row's number and not by its position in `rows`.

    A subset or another order of rows therefore changes no draw. Counter-based: two rounds of the SplitMix64
    finaliser over (key, row).

    >>> whole = uniform(0, "deliver", 5, rows=np.arange(10))
    >>> bool((uniform(0, "deliver", 5, rows=np.array([7, 2])) == whole[[7, 2]]).all())
    True
    """
    counter = np.asarray(rows).astype(np.uint64)
    base = np.uint64(key(seed, purpose, *where))
    with np.errstate(over="ignore"):
        mixed = _splitmix(_splitmix(counter + np.uint64(0x9E3779B97F4A7C15)) ^ base)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _splitmix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@contextmanager
def seeded(seed: int, purpose: Purpose, *where: int | str) -> Iterator[None]:
    """Run a block of torch code that takes no generator (weight initialisation, dropout) on its own stream.

    The global generators are restored afterwards.
    """
    import torch

    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(key(seed, purpose, *where))
        yield


def fresh_seed() -> int:
    """A seed that nobody has had before, from the system: for a user who asks for another result each time."""
    return int(np.random.SeedSequence().generate_state(1)[0]) % 2**31
