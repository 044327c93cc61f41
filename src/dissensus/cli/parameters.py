"""Types of options that click lacks: numbers that are numbers, and devices that exist."""

from __future__ import annotations

import math
import re
from typing import Any

import click
from typing_extensions import override

DEVICES = ("cpu", "cuda", "mps", "xpu")


class FiniteRange(click.FloatRange):
    """A number within bounds. NaN, which is within no bounds, and infinity are refused."""

    name = "number"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Device(click.ParamType):  # type: ignore[type-arg] # generic since click 8.2
    """A device by its name. Whether this machine has it, `absent` says: a cluster may have it elsewhere."""

    name = "device"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(rf"(cpu|(?:{'|'.join(DEVICES[1:])})(?::\d{{1,3}})?)", str(value)):
            self.fail(f"{value!r} is not a device: write {', '.join(DEVICES)}, or cuda:1 for the second GPU.", param, ctx)
        return str(value)


def absent(device: str) -> str:
    """Why a device cannot be used on this machine; empty where it can."""
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as problem:
        return f"{device!r} cannot be used here ({str(problem).strip().splitlines()[0]})"
    return ""
