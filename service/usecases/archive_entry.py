"""What an archive gives, whatever its format, and how much of it is too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from service.errors import BadArchive, TooLarge, TooManyImages
from service.usecases.deadline import Deadline

__all__ = ["Entry", "Meter", "shown"]

_HARMLESS = 256 * 2**20  # photos are hardly packed at all; only what was made to be a bomb is packed well and large


@dataclass(frozen=True)
class Entry:
    """`read` works until the next entry is asked for. A folder's name ends with a slash."""

    name: str
    size: int  # as its header says; never more is read, and less is an error
    read: Callable[[], bytes]


class Meter:
    """Counts over all archives of an upload what they unpack to, and stops it in time."""

    def __init__(
        self,
        packed_bytes: int,
        max_bytes: int,
        max_entries: int,
        max_ratio: float = 100.0,
        deadline: Deadline | None = None,
    ) -> None:
        self._packed, self._max_bytes, self._max_entries = packed_bytes, max_bytes, max_entries
        self._max_ratio = max_ratio
        self.deadline = deadline or Deadline(float("inf"))
        self._bytes = self._entries = 0

    def add_bytes(self, count: int) -> None:
        self.deadline.check()
        self._bytes += count
        if self._bytes > self._max_bytes:
            raise TooLarge(f"it unpacks to more than {self._max_bytes} bytes; send it in several updates")
        if self._bytes > _HARMLESS and self._bytes > self._max_ratio * self._packed:
            raise BadArchive(f"it unpacks to more than {self._max_ratio:g} times its size, as no set of photos does")

    def add_entry(self) -> None:
        self.deadline.check()
        self._entries += 1
        if self._entries > self._max_entries:
            raise TooManyImages(f"it has more than {self._max_entries} entries; send it in several updates")


def shown(name: str) -> str:
    """A stranger's name for a message: short, and nothing in it is invisible."""
    return repr(name if len(name) <= 100 else name[:100] + "...")
