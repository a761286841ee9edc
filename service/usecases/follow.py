"""Which version this process answers from: it follows the active one, and swaps to what it has loaded and checked."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread

from service.domain import Version
from service.errors import DatabaseUnreachable, ServiceError, StorageUnreachable
from service.serving.bundle import verify
from service.serving.live import LiveModel, ModelSlot
from service.serving.memory import give_back
from service.storage.artifacts import Artifacts
from service.storage.versions import VersionStore

__all__ = ["Follower"]

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 30.0
_NICENESS = 5  # of the thread that loads a version while others answer
_INTERVAL_SECONDS = 0.0005
_AWAY_SECONDS = 2.0  # nothing is wrong with the version itself


class Follower:
    """The only one that swaps the slot of this process. Its lock is never on the way of a query, and its thread is its
    own: whatever else there is to do, a new version is noticed in time."""

    def __init__(self, versions: VersionStore, artifacts: Artifacts, slot: ModelSlot) -> None:
        self._versions, self._artifacts, self._slot = versions, artifacts, slot
        self._lock = Lock()
        self._names_revision: int | None = None
        self._failed: tuple[int, float] | None = None  # version, when to try again
        self.problem: str | None = None  # why this process is not where it should be
        self.database_problem: str | None = "not asked yet"
        self.load_seconds = 0.0  # of the last version: reading, checking, warming up
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self, poll_seconds: float) -> None:
        """A poll is the truth: it cannot be missed, and works for any number of processes."""
        self._thread = Thread(target=self._poll, args=(poll_seconds,), daemon=True, name="follow")
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()

    def _poll(self, seconds: float) -> None:
        """Answering from the version at hand beats not answering, so an error is only noted, once for as long as it
        stays the same."""
        noted = ""
        with suppress(OSError):  # a system that refuses it
            _step_back()
        while not self._stop.is_set():
            reason = ""
            try:
                self.refresh()
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                if reason != noted:
                    about = {"action": "active_not_read", "reason": reason}
                    logger.warning("Active version not read", exc_info=not isinstance(error, ServiceError), extra=about)
            if noted and not reason:
                logger.info("Active version read again", extra={"action": "active_read_again"})
            noted = reason
            self._stop.wait(seconds)

    def refresh(self) -> bool:
        """Swap to the active version if it is another one. One that cannot be loaded leaves the old one answering."""
        with self._lock:
            try:
                active = self._versions.active()
                self._refresh_names(active.names_revision)
            except ServiceError as error:  # also one without our tables: a disk that is not mounted, say
                self.database_problem = error.title  # not its text, which tells anybody where the database is
                raise
            self.database_problem = None
            if active.version is not None and active.version == self._slot.version:
                self._failed = self.problem = None  # another process may have gone back from one that failed here
                return False
            if active.version is None or self._waits(active.version):
                return False
            return self._follow(active.version)

    def activate(self, number: int, expected: int | None = None) -> Version:
        """Loaded and checked first, so that a damaged version never becomes the active one."""
        with self._lock:
            live = self._load(number)
            version = self._versions.activate(number, expected)
            self._refresh_names(self._versions.active().names_revision)
            self._swap(live)
        return version

    def _follow(self, number: int) -> bool:
        try:
            self._swap(self._load(number))
        except DatabaseUnreachable:
            raise
        except Exception as error:
            away = isinstance(error, StorageUnreachable)
            self._failed = number, time.monotonic() + (_AWAY_SECONDS if away else _RETRY_SECONDS)
            # Not the error's text, which tells anybody where the files are; the log has it.
            title = error.title if isinstance(error, ServiceError) else "something broke inside"
            self.problem = f"version {number} cannot be loaded ({title}); the log says why"
            about = {"action": "version_not_loaded", "version": number, "reason": str(error)}
            logger.exception("Version not loaded", exc_info=not away, extra=about)
            return self._fall_back(number)
        return True

    def _fall_back(self, number: int) -> bool:
        """With nothing to answer from, the newest version below that is whole: an old answer beats none."""
        parent = self._versions.get(number).parent
        while self._slot.version is None and parent is not None:
            try:
                live = self._load(parent)
            except DatabaseUnreachable:
                raise
            except Exception:
                logger.exception("Version not loaded", extra={"action": "version_not_loaded", "version": parent})
                parent = self._versions.get(parent).parent
            else:
                problem, failed = self.problem, self._failed
                self._swap(live)
                self.problem = f"{problem}; version {parent} answers instead"
                self._failed = failed
                return True
        return False

    def _load(self, number: int) -> LiveModel:
        if number in self._slot.loaded:
            return self._slot.get(number)  # rolling back to what is still warm takes no time
        with _others_first():
            return self._read(number)

    def _read(self, number: int) -> LiveModel:
        started = time.monotonic()
        version = self._versions.get(number)
        folder = self._artifacts.local(version.bundle)
        # First: for a damaged one nothing has to make room. Its index stays in memory only where there is some.
        manifest = verify(folder, version.sha256, keep_index=self._slot.has_room)
        self._slot.make_room()
        live = LiveModel.read(folder, number, manifest, self._slot.models)
        self._learn_names(live)
        self.load_seconds = time.monotonic() - started
        return live

    def _refresh_names(self, revision: int) -> None:
        if revision != self._names_revision:
            self._slot.names = self._versions.names()
            self._names_revision = revision

    def _learn_names(self, live: LiveModel) -> None:
        """Of the classes that are new. To read all names anew takes seconds of a million, and slows every query."""
        # In Python, so that queries come in between: a difference of sets would keep them waiting until it is done.
        if new := [class_id for class_id in live.ids if class_id not in self._slot.names]:
            self._slot.names = self._slot.names | self._versions.names(new)

    def _waits(self, number: int) -> bool:
        return self._failed is not None and self._failed[0] == number and time.monotonic() < self._failed[1]

    def _swap(self, live: LiveModel) -> None:
        self._slot.swap(live)
        self._failed = self.problem = None
        give_back()
        logger.info("Version live", extra={"action": "version_live", "version": live.version, "classes": len(live.ids)})


@contextmanager
def _others_first() -> Iterator[None]:
    """A query needs Python's lock several times, and who holds it lets go only after an interval: 5 ms, unless told."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_INTERVAL_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _step_back() -> None:
    """Queries come first on a full machine: to hash and to read a version takes a core for seconds."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        me = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, me, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, me)))
