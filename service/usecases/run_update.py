"""One update from its first attempt to its end. All of it may be repeated: a crash at any line leaves the old version
answering, and the next attempt ends as this one would have."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from service.config import Settings
from service.domain import Failure, State, Update
from service.errors import (
    AttemptOver,
    DatabaseBehind,
    DatabaseUnreachable,
    StorageFull,
    StorageUnreachable,
    UnknownUpdate,
    VersionChanged,
)
from service.storage.artifacts import Artifacts
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases.disk import is_full_disk
from service.usecases.instant import take_back
from service.usecases.known import by_name
from service.usecases.make_version import Maker, class_id
from service.usecases.progress import Reporter
from service.usecases.pulse import Pulse
from service.usecases.purge import Purger
from zstci.errors import Stopped, ZstciError

__all__ = ["UpdateRunner"]

logger = logging.getLogger(__name__)

_INSTANT = 0.1  # of the bar, where the instant part comes first
_AWAY = (DatabaseUnreachable, DatabaseBehind, StorageUnreachable)
# A database that is away, full or being migrated comes back; what happened must be written down all the same.
_PASSING = (*_AWAY, StorageFull)
# A GPU's, the CPU allocator's, the system's and C++'s; most of them come as a RuntimeError.
_OUT_OF_MEMORY = ("out of memory", "allocate memory", "bad_alloc")

Value = TypeVar("Value")


@dataclass(frozen=True)
class End:
    """What an update comes to. A `version` or a `failure`, or neither where it was cancelled."""

    state: State
    version: int | None = None
    failure: Failure | None = None


class _BrokeDown(Exception):
    """Something unexpected, which may not happen again."""


class UpdateRunner:
    def __init__(
        self,
        updates: UpdateStore,
        versions: VersionStore,
        artifacts: Artifacts,
        settings: Settings,
        shutting_down: threading.Event,
    ) -> None:
        self._updates, self._versions, self._settings = updates, versions, settings
        self._maker = Maker(updates, versions, artifacts, settings)
        self._purger = Purger(updates, versions, artifacts, settings)
        self._pulse = Pulse(updates, settings)
        self._shutting_down = shutting_down
        self.at_work: str | None = None  # the update that this process works on
        self.resting = threading.Event()  # set when the work has stopped for a shutdown

    def run(self, update_id: str) -> None:
        """Until it has ended, however often work on it has to begin anew."""
        self.at_work = update_id  # from here on: it may take long to begin where the database cannot be written
        try:
            while self._breaks_down(update_id):
                pass
        finally:
            self.at_work = None

    def _breaks_down(self, update_id: str) -> bool:
        """One attempt. False when there is nothing more to do here."""
        try:
            update = self._surely(lambda: self._updates.begin(update_id))
        except UnknownUpdate:  # rows come before jobs, so this one is of a database that was restored since
            logger.warning("Job without an update", extra={"action": "job_without_update", "update": update_id})
            return False
        if update is None:  # cancelled while it waited, or finished just before a crash
            self._surely(lambda: self._purger.purge(update_id))
            return False
        logger.info("Update begun", extra=_about(update, "update_begun"))
        try:
            with self._pulse.beating(update):
                self._finish(update, self._work(update))
        except AttemptOver:
            logger.warning("Update taken over by another worker", extra=_about(update, "update_taken_over"))
        except _BrokeDown:
            self._pause(min(2.0**update.attempt, 30.0))
            return True
        return False

    def _work(self, update: Update) -> End:
        published = self._surely(lambda: self._versions.of_update(update.id))
        if published is not None:  # just before a crash
            return End("succeeded", published.number)
        if update.error is not None:  # noted just before a crash
            return End("failed", failure=update.error)
        if update.cancel_requested:
            return End("cancelled")
        begun = update.attempt - update.clean_stops
        if begun > self._settings.max_attempts:
            detail = f"its worker died or broke down {begun - 1} times; see the worker's log"
            return End("failed", failure=Failure("gave_up", detail))
        while True:
            try:
                return End("succeeded", self._patiently(lambda: self._learn(update)))
            except VersionChanged as error:
                logger.info("Learning again", extra=_about(update, "learning_again", reason=str(error)))
            except Exception as error:
                return self._failed(update, error)

    def _learn(self, update: Update) -> int:
        """The version that was published."""
        published = self._versions.of_update(update.id)
        if published is not None:  # the database went away just after
            return published.number
        self._reporter(update, (0.0, 0.0)).stop_if_asked()  # cancelled while the database or the files were away
        instant = self._versions.of_update(update.id, "instant")
        update = replace(update, instant_version=None if instant is None else instant.number)
        if update.options.instant and update.instant_version is None:
            made = self._maker.make(update, self._reporter(update, (0.0, _INSTANT)), instant=True)
            version = self._versions.publish(made.version, expected=made.expected, activate=True, names=made.names)
            update = replace(update, instant_version=version.number)
        if update.instant_version is not None:
            self._updates.note_instant(update.id, update.instant_version)
        reporter = self._reporter(update, (_INSTANT if update.options.instant else 0.0, 1.0))
        made = self._maker.make(update, reporter)
        self._updates.note_parent(update.id, made.version.parent)
        reporter.stop_if_asked()
        activate = update.options.activate == "auto"
        version = self._versions.publish(made.version, expected=made.expected, activate=activate, names=made.names)
        logger.info("Version published", extra=_about(update, "version_published", version=version.number))
        return version.number

    def _failed(self, update: Update, error: Exception) -> End:
        """Why, in words for who sent it. Raises where another attempt may do better, or somebody else makes it."""
        current = self._surely(lambda: self._updates.get(update.id))
        if current.attempt != update.attempt:
            raise AttemptOver(f"attempt {current.attempt} is at work") from error
        if isinstance(error, Stopped):
            if not current.cancel_requested:
                self._rest(update)
            return End("cancelled")
        if isinstance(error, ZstciError):
            return End("failed", failure=Failure(error.code, self._by_name(update, str(error))))
        if is_full_disk(error):
            full = "no room left on the worker's disk; free some and send the update again"
            return End("failed", failure=Failure(StorageFull.code, full))
        if isinstance(error, MemoryError) or any(words in str(error).lower() for words in _OUT_OF_MEMORY):
            detail = "not enough memory; send fewer images, lower train.images_per_class, or give the worker more"
            return End("failed", failure=Failure("out_of_memory", detail))
        logger.error("Update broke down", exc_info=error, extra=_about(update, "update_broke_down"))
        if update.attempt - update.clean_stops < self._settings.max_attempts:
            raise _BrokeDown from error
        detail = f"it broke down again and again, the last time with {type(error).__name__}: {error}"
        return End("failed", failure=Failure("broke_down", f"{detail}; see the worker's log"))

    def _by_name(self, update: Update, text: str) -> str:
        names = {class_id(update.id, name): name for name in update.classes} | self._surely(self._versions.names)
        return by_name(text, names)

    def _finish(self, update: Update, end: End) -> None:
        with suppress(StorageFull):  # the purge makes room
            self._retried(lambda: self._updates.note_end(update.id, update.attempt, end.failure), _AWAY)
        # The images first: whoever is told that an update has ended finds none of them.
        self._surely(lambda: self._purger.purge(update.id, ending=True))
        failure = end.failure if end.state == "succeeded" else self._without_instant(update.id, end.failure)
        self._surely(
            lambda: self._updates.finish(update.id, update.attempt, end.state, version=end.version, failure=failure)
        )
        reason = failure.detail if failure is not None else None
        logger.info("Update ended", extra=_about(update, "update_ended", state=end.state, reason=reason))

    def _without_instant(self, update_id: str, failure: Failure | None) -> Failure | None:
        """Whoever reads that an update failed or was cancelled may rely on it: what still answers is told."""
        stays = self._surely(lambda: take_back(self._versions, update_id))
        if stays is None:
            return failure
        return (
            Failure("instant_kept", stays) if failure is None else Failure(failure.code, f"{failure.detail}; {stays}")
        )

    def _reporter(self, update: Update, span: tuple[float, float]) -> Reporter:
        stopping = self._shutting_down.is_set
        return Reporter(self._updates, update.id, update.attempt, stopping, span, self._pulse.move)

    def _patiently(self, work: Callable[[], Value]) -> Value:
        """Work that can be done again when the database or the files are back."""
        return self._retried(work, _AWAY)

    def _surely(self, record: Callable[[], Value]) -> Value:
        """A record that must be made, however long it takes."""
        return self._retried(record, _PASSING)

    def _retried(self, call: Callable[[], Value], passing: tuple[type[Exception], ...]) -> Value:
        pause = 0.5
        while True:
            try:
                return call()
            except passing as error:
                away = "storage_away" if isinstance(error, StorageUnreachable) else "database_away"
                logger.warning("Waiting for it to come back", extra={"action": away, "reason": str(error)})
                self._pause(pause)
                pause = min(2 * pause, 5.0)

    def _pause(self, seconds: float) -> None:
        self._pulse.move()
        if self._shutting_down.wait(seconds):
            self._rest(None)

    def _rest(self, update: Update | None) -> NoReturn:
        """The process is about to end, and the job must stay unfinished for the next one."""
        if update is not None:
            try:
                self._updates.stopped(update.id, update.attempt)
            except ZstciError as error:
                logger.warning("Stop not noted", extra=_about(update, "stop_not_noted", reason=str(error)))
        self.resting.set()
        while True:
            time.sleep(60)


def _about(update: Update, action: str, **more: object) -> dict[str, object]:
    return {"action": action, "update": update.id, "attempt": update.attempt, **more}
