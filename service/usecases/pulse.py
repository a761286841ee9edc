"""Signs of life: another worker takes over when they end. Work that hangs must end them too."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.config import Settings
from service.domain import Update
from service.storage.updates import UpdateStore

__all__ = ["HUNG", "Pulse"]

logger = logging.getLogger(__name__)

HUNG = 70  # the exit code of a worker whose work does not get on


class Pulse:
    """Beats in a thread of its own, which would go on while the work hangs: so the work has to `move`. A thread cannot
    be ended from outside, but a process can: the next one begins the update anew, and gives up after some attempts."""

    def __init__(self, updates: UpdateStore, settings: Settings) -> None:
        self._updates, self._settings = updates, settings
        self._moved = time.monotonic()

    def move(self) -> None:
        """The work gets on."""
        self._moved = time.monotonic()

    @contextmanager
    def beating(self, update: Update) -> Iterator[None]:
        over = threading.Event()
        self.move()

        def beat() -> None:
            while not over.wait(min(self._settings.lease_seconds, self._settings.stall_seconds) / 6):
                self._beat(update)

        threading.Thread(target=beat, daemon=True, name="heartbeat").start()
        try:
            yield
        finally:
            over.set()

    def _beat(self, update: Update) -> None:
        about = {"update": update.id, "attempt": update.attempt}
        still = time.monotonic() - self._moved
        if still > self._settings.stall_seconds:
            reason = f"no progress for {still:.0f} s (ZSTCI_STALL_SECONDS)"
            logger.critical("Update hangs", extra={"action": "update_hangs", "reason": reason, **about})
            logging.shutdown()
            os._exit(HUNG)
        try:
            self._updates.heartbeat(update.id, update.attempt)
        except Exception as error:
            logger.warning("No sign of life", extra={"action": "no_heartbeat", "reason": str(error), **about})
