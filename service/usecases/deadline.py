"""How long an upload may be looked at: asked wherever bytes of a stranger are read, so that none can hold a place."""

from __future__ import annotations

import time
from typing import BinaryIO

from service.errors import CheckTooLong

__all__ = ["Deadline", "Timed"]


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def stop(self) -> None:
        """Nobody waits for the result any more. From any thread."""
        self._end = float("-inf")

    def check(self) -> None:
        if time.monotonic() > self._end:
            raise CheckTooLong(f"to look at every image takes longer than {self._seconds:g} s; send several updates")


class Timed:
    """A file whose every read is in time: what unpacks it may read for hours without giving anything back."""

    def __init__(self, file: BinaryIO, deadline: Deadline) -> None:
        self._file, self._deadline = file, deadline

    def read(self, size: int = -1, /) -> bytes:
        self._deadline.check()
        return self._file.read(size)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, position: int, whence: int = 0, /) -> int:
        return self._file.seek(position, whence)

    def seekable(self) -> bool:
        return True
