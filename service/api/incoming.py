"""A folder for one request's upload, gone when the request ends, and also when its process was killed meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from service.config import Settings
from service.usecases.disk import full_disk_is_named

__all__ = ["clear_leftovers", "incoming"]

_PREFIX, _LOCK = "incoming-", ".lock"


@asynccontextmanager
async def incoming(settings: Settings) -> AsyncIterator[Path]:
    """Locked while it is in use: the system lets go of the lock when a process ends, however it ends."""
    folder = settings.home / "work" / f"{_PREFIX}{uuid.uuid4().hex}"
    try:
        with full_disk_is_named():
            folder.mkdir(parents=True)
            lock = (folder / _LOCK).open("w")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def clear_leftovers(settings: Settings) -> None:
    """Folders whose process is gone."""
    for lock in (settings.home / "work").glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # in use, or gone already
