"""zstci: image classes that keep changing, learnt without keeping an image."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zstci.config import PRESETS, Config, preset
    from zstci.data import ImageArrays, ImageFiles, TaskData, Vectors
    from zstci.errors import ZstciError
    from zstci.learner import learn
    from zstci.progress import Progress
    from zstci.snapshot import Snapshot

__all__ = [
    "PRESETS",
    "Config",
    "ImageArrays",
    "ImageFiles",
    "Progress",
    "Snapshot",
    "TaskData",
    "Vectors",
    "ZstciError",
    "learn",
    "preset",
]

_HOMES = {
    "config": ("PRESETS", "Config", "preset"),
    "data": ("ImageArrays", "ImageFiles", "TaskData", "Vectors"),
    "errors": ("ZstciError",),
    "learner": ("learn",),
    "progress": ("Progress",),
    "snapshot": ("Snapshot",),
}


def __getattr__(name: str) -> Any:
    """Imported when it is first asked for: a command that only wants our errors should not wait for torch."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"zstci.{module}"), name)
    raise AttributeError(f"module 'zstci' has no attribute {name!r}")
