"""Everything that can go wrong in the library, each with a stable code and a sentence that says what to do.

ZstciError
├── InvalidConfig          a setting has a value that cannot work
│   └── UnknownStrategy    a name that is in none of our tables
├── InvalidData            the images or labels cannot be learnt from
│   ├── TooFewImages       a class has fewer images than a mean and a spread need
│   ├── LabelMismatch      labels and images do not line up
│   ├── MixedImages        arrays of different size or mode
│   ├── UnreadableImage    a file that is no image
│   └── NotFinite          NaN or infinity in the input
├── MissingData            a data set or a weights file that is not on this machine
├── SnapshotError
│   ├── CorruptSnapshot    truncated, altered or incomplete files
│   └── UnsupportedSnapshot  written by another format version
├── Diverged               training left the finite numbers
└── Stopped                `should_stop` answered yes; the last checkpoint stays
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "CorruptSnapshot",
    "Diverged",
    "InvalidConfig",
    "InvalidData",
    "LabelMismatch",
    "MissingData",
    "MixedImages",
    "NotFinite",
    "SnapshotError",
    "Stopped",
    "TooFewImages",
    "UnknownStrategy",
    "UnreadableImage",
    "UnsupportedSnapshot",
    "ZstciError",
]


class ZstciError(Exception):
    code = "error"


class InvalidConfig(ZstciError):
    code = "invalid_config"


class UnknownStrategy(InvalidConfig):
    code = "unknown_strategy"

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        super().__init__(f"unknown {kind} {name!r}; choose one of: {', '.join(self.known)}")


class InvalidData(ZstciError):
    code = "invalid_data"


class TooFewImages(InvalidData):
    code = "too_few_images"


class LabelMismatch(InvalidData):
    code = "label_mismatch"


class MixedImages(InvalidData):
    code = "mixed_images"


class UnreadableImage(InvalidData):
    code = "unreadable_image"


class NotFinite(InvalidData):
    code = "not_finite"


class MissingData(ZstciError):
    code = "missing_data"


class SnapshotError(ZstciError):
    code = "snapshot_error"


class CorruptSnapshot(SnapshotError):
    code = "corrupt_snapshot"


class UnsupportedSnapshot(SnapshotError):
    code = "unsupported_snapshot"


class Diverged(ZstciError):
    code = "diverged"


class Stopped(ZstciError):
    code = "stopped"
