"""zstci: image classes that keep changing, learnt without keeping an image."""

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
