"""Which version answers: follow what is active, or make another one active."""

from __future__ import annotations

import logging
import time
from threading import Lock

from service.domain import Version
from service.serving.live import LiveModel, ModelSlot
from service.storage.versions import VersionStore

__all__ = ["Publisher"]

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 30.0


class Publisher:
    """The only one that swaps the slot of this process. Its lock is never on the way of a query."""

    def __init__(self, store: VersionStore, slot: ModelSlot) -> None:
        self._store, self._slot = store, slot
        self._lock = Lock()
        self._failed: tuple[int, float] | None = None  # version, when to try again

    def refresh(self) -> bool:
        """Swap to the active version if it is another one. One that cannot be loaded leaves the old one answering."""
        with self._lock:
            number = self._store.active()
            if number is None or number == self._slot.version or self._waits(number):
                return False
            try:
                live = LiveModel.load(self._store.folder(number), number)
            except Exception:
                self._failed = number, time.monotonic() + _RETRY_SECONDS
                logger.exception("Version not loaded", extra={"action": "version_not_loaded", "version": number})
                return False
            self._swap(live)
            return True

    def activate(self, number: int, expected: int | None = None) -> Version:
        """Loaded and checked first, so that a damaged version never becomes the active one."""
        with self._lock:
            version = self._store.get(number)
            self._store.check_active(expected)  # it is checked again when it counts; this saves loading for nothing
            live = LiveModel.load(self._store.folder(number), number)
            self._store.activate(number, expected)
            self._swap(live)
        return version

    def _waits(self, number: int) -> bool:
        return self._failed is not None and self._failed[0] == number and time.monotonic() < self._failed[1]

    def _swap(self, live: LiveModel) -> None:
        self._slot.swap(live)
        self._failed = None
        logger.info(
            "Version live", extra={"action": "version_live", "version": live.version, "classes": len(live.index)}
        )
