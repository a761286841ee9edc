"""Where the net runs, and in which number format."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import torch
from torch import nn

from zstci.config import Precision
from zstci.errors import InvalidConfig

__all__ = ["autocast", "on", "resolve"]

Net = TypeVar("Net", bound=nn.Module)


def resolve(name: str) -> torch.device:
    """`auto` is the first GPU where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InvalidConfig(f"unknown device {name!r}; use auto, cpu, cuda or cuda:0") from error
    if device.type not in ("cpu", "cuda"):
        raise InvalidConfig(f"device {name!r} is not supported; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidConfig(f"device {name!r} is not on this machine; use auto or cpu")
    return device


def on(net: Net, device: torch.device) -> Net:
    """The net on a device. Never moved in place: snapshots share their trunk, and another may be serving with it."""
    return net if device.type == "cpu" else copy.deepcopy(net).to(device)


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """`auto` is bfloat16 on a GPU and full precision on a CPU, where bf16 gains little and resuming stays exact."""
    mixed = precision == "mixed" or (precision == "auto" and device.type == "cuda")
    return torch.autocast(device.type, dtype=torch.bfloat16) if mixed else nullcontext()
