"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REINSTALL", "Finding"]

REINSTALL = "install again: make clean, then make serve (or pip install -c constraints.txt zstci)"


@dataclass(frozen=True)
class Finding:
    """`cure` says what to type or change; empty where there is nothing to do."""

    name: str
    state: Literal["ok", "warn", "bad"]
    detail: str
    cure: str = ""
