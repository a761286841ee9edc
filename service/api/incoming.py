"""Folders for uploads, one a request, gone when the request ends, and also when its process was killed meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from service.config import Settings
from service.usecases.disk import full_disk_is_named

__all__ = ["Incoming"]

_PREFIX, _LOCK = "incoming-", ".lock"
_STRAY_SECONDS = 60.0  # a lock comes a moment before its folder
_LOOK_SECONDS = 0.02


class Incoming:
    """Those of this process."""

    def __init__(self, settings: Settings) -> None:
        self._work = settings.home / "work"
        self._open: set[Path] = set()

    @asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """Locked while it is in use: the system lets go of the lock when a process ends, however it ends. The lock lies
        beside the folder, so that a folder that is half deleted can still be told from one in use."""
        folder = self._work / f"{_PREFIX}{uuid.uuid4().hex}"
        self._open.add(folder)
        try:
            with full_disk_is_named():
                self._work.mkdir(parents=True, exist_ok=True)
                lock = _lock_of(folder).open("w")
            with lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                with full_disk_is_named():
                    folder.mkdir()
                yield folder
        finally:
            clearing = asyncio.ensure_future(asyncio.to_thread(_clear, folder))
            clearing.add_done_callback(lambda _: self._open.discard(folder))
            await asyncio.shield(clearing)

    async def all_gone(self) -> None:
        """Before the process ends. Who is cut off at the end of its grace goes without waiting for threads."""
        while self._open:
            await asyncio.sleep(_LOOK_SECONDS)

    def clear_leftovers(self) -> None:
        """Folders whose process is gone."""
        for found in self._work.glob(f"{_PREFIX}*"):
            folder = found.with_suffix("")
            try:
                stray = not folder.exists()
                if stray and time.time() - found.stat().st_mtime < _STRAY_SECONDS:
                    continue
                with _lock_of(folder).open("a") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _clear(folder)
            except OSError:
                continue  # in use, or gone already


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _lock_of(folder).unlink(missing_ok=True)


def _lock_of(folder: Path) -> Path:
    return folder.with_suffix(_LOCK)
