"""A full disk by its name, wherever files are written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import StorageFull

__all__ = ["full_disk_is_named", "is_full_disk"]

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full_disk(error: BaseException) -> bool:
    """Also by its text: safetensors and FAISS raise errors of their own, without the system's number."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return any(os.strerror(number) in str(error) for number in _FULL)


@contextmanager
def full_disk_is_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_full_disk(error):
            raise StorageFull("there is no room left for what was sent; free some, or send less at once") from error
        raise
