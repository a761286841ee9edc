"""A full disk by its name, wherever files of an upload are written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import StorageFull

__all__ = ["full_disk_is_named"]


@contextmanager
def full_disk_is_named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("there is no room left for the upload; free some, or send less at once") from error
        raise
