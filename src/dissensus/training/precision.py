"""Which floating-point precision training uses: float32, bfloat16, or whichever the hardware is made for."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PRECISIONS = (*DTYPES, "auto")
"""`auto` is bfloat16 where the device has instructions for it, float32 elsewhere. What was used is provenance."""

CPU_FLAGS = {"avx512_bf16", "amx_bf16"}
"""What Linux calls the instructions that multiply bfloat16."""


def resolved(precision: str, device: torch.device) -> str:
    """The precision that `auto` stands for on this device; any other as it is."""
    if precision != "auto":
        return precision
    return "bfloat16" if has_bfloat16(device.type) else "float32"


@cache
def has_bfloat16(device: str) -> bool:
    """Whether a device multiplies bfloat16 in hardware. Where that cannot be known, it does not."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(_bfloat16_flags())


def instruction_set() -> str:
    """What torch computes with on this processor, such as `AVX512 + avx512_bf16`; the last digits depend on it."""
    return " + ".join((torch.backends.cpu.get_cpu_capability(), *sorted(_bfloat16_flags())))


@cache
def _bfloat16_flags() -> frozenset[str]:
    if sys.platform != "linux":
        return frozenset()
    try:
        return frozenset(CPU_FLAGS & set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split()))
    except OSError:
        return frozenset()
