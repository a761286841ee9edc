"""One update from its first attempt to its end. Every step may be repeated: a crash at any line leaves the old version
answering, and the next attempt ends as this one would have."""

from __future__ import annotations

import errno
import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from service.config import Settings
from service.domain import Failure, State, Update
from service.errors import DatabaseUnreachable, StorageFull, VersionChanged
from service.storage.artifacts import Artifacts
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases.make_version import Made, Maker
from service.usecases.progress import Reporter
from service.usecases.purge import Purger
from zstci.errors import Stopped, ZstciError

__all__ = ["Outcome", "Step", "UpdateRunner"]

logger = logging.getLogger(__name__)

_INSTANT = 0.1  # of the bar, where the instant part comes first

_STATES: dict[str, State] = {"published": "succeeded", "cancelled": "cancelled"}

Value = TypeVar("Value")
Outcome = dict[str, Any]
Step = Callable[[str, Callable[[], Outcome]], Outcome]
"""Runs a named part of the work and remembers its outcome, so that it is not repeated after a crash."""


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
        self._shutting_down = shutting_down
        self.resting = threading.Event()  # set when the work has stopped for a shutdown

    def run(self, update_id: str, step: Step) -> None:
        """Until it has ended, however often work on it has to begin anew."""
        while True:
            update = self._patiently(lambda: self._updates.begin(update_id))
            if update is None:  # cancelled while it waited, or finished just before a crash
                self._patiently(lambda: self._purger.purge(update_id))
                break
            logger.info("Update begun", extra=_about(update, "update_begun"))
            if self._attempt(update, step):
                break
            self._pause(min(2.0**update.attempt, 30.0))

    def _attempt(self, update: Update, step: Step) -> bool:
        """True when the update has ended."""
        if update.attempt > self._settings.max_attempts:
            detail = f"its worker died or broke down {update.attempt - 1} times in a row; see the worker's log"
            return self._end(update, {"outcome": "failed", "code": "gave_up", "detail": detail})
        if update.options.instant and update.instant_version is None:
            outcome = step("instant", lambda: self._guarded(update, self._instant))
            if outcome["outcome"] != "published":
                return self._end(update, outcome)
            update = self._patiently(lambda: self._updates.get(update.id))
        while True:
            outcome = step("make", lambda: self._guarded(update, self._make))
            if outcome["outcome"] == "made":
                publish = functools.partial(self._publish, stored=outcome["made"])
                outcome = step("publish", functools.partial(self._guarded, update, publish))
            if outcome["outcome"] != "changed":
                return self._end(update, outcome)
            logger.info("Learning again", extra=_about(update, "learning_again", reason=outcome["detail"]))

    def _instant(self, update: Update) -> Outcome:
        made = self._maker.make(update, self._reporter(update, (0.0, _INSTANT)), instant=True)
        version = self._versions.publish(made.version, expected=made.expected, activate=True, names=made.names)
        self._updates.note_instant(update.id, version.number)
        return {"outcome": "published", "version": version.number}

    def _make(self, update: Update) -> Outcome:
        made = self._maker.make(update, self._reporter(update, (_INSTANT if update.options.instant else 0.0, 1.0)))
        self._updates.note_parent(update.id, made.version.parent)
        return {"outcome": "made", "made": made.to_json()}

    def _publish(self, update: Update, stored: Outcome) -> Outcome:
        made = Made.from_json(stored)
        if self._updates.cancel_requested(update.id) and self._versions.by_bundle(made.version.bundle) is None:
            return {"outcome": "cancelled"}
        activate = update.options.activate == "auto"
        version = self._versions.publish(made.version, expected=made.expected, activate=activate, names=made.names)
        logger.info("Version published", extra=_about(update, "version_published", version=version.number))
        return {"outcome": "published", "version": version.number}

    def _guarded(self, update: Update, work: Callable[[Update], Outcome]) -> Outcome:
        """What became of a step, as plain values. Errors are outcomes: a job's record must not hold a traceback."""
        try:
            return self._patiently(lambda: work(update))
        except VersionChanged as error:
            return {"outcome": "changed", "detail": str(error)}
        except Stopped:
            if self._shutting_down.is_set():
                self._rest()
            return {"outcome": "cancelled"}
        except ZstciError as error:
            return {"outcome": "failed", "code": error.code, "detail": str(error)}
        except MemoryError:
            detail = "not enough memory; send fewer or smaller images, or give the worker more"
            return {"outcome": "failed", "code": "out_of_memory", "detail": detail}
        except OSError as error:
            if error.errno == errno.ENOSPC:
                full = StorageFull("no room left on the worker's disk; free some and send the update again")
                return {"outcome": "failed", "code": full.code, "detail": str(full)}
            return self._broken(update, error)
        except Exception as error:
            if "out of memory" in str(error).lower():  # a GPU's, or the CPU allocator's, both RuntimeErrors
                detail = f"not enough memory ({error}); lower train.classes_per_batch or train.images_per_class"
                return {"outcome": "failed", "code": "out_of_memory", "detail": detail}
            return self._broken(update, error)

    def _broken(self, update: Update, error: Exception) -> Outcome:
        logger.exception("Update broke down", extra=_about(update, "update_broke_down"))
        return {"outcome": "broken", "detail": f"{type(error).__name__}: {error}"}

    def _end(self, update: Update, outcome: Outcome) -> bool:
        kind = outcome["outcome"]
        if kind == "broken" and update.attempt < self._settings.max_attempts:
            return False
        failure, version = None, None
        if kind == "published":
            version = outcome["version"]
        elif kind == "broken":
            detail = (
                f"it broke down {update.attempt} times, the last time with {outcome['detail']}; see the worker's log"
            )
            failure = Failure("broke_down", detail)
        elif kind == "failed":
            failure = Failure(outcome["code"], outcome["detail"])
        state = _STATES.get(kind, "failed")
        # The images first: whoever is told that an update has ended finds none of them.
        self._patiently(lambda: self._purger.purge(update.id, ending=True))
        self._patiently(
            lambda: self._updates.finish(update.id, update.attempt, state, version=version, failure=failure)
        )
        reason = failure.detail if failure is not None else None
        logger.info("Update ended", extra=_about(update, "update_ended", state=state, reason=reason))
        return True

    def _reporter(self, update: Update, span: tuple[float, float]) -> Reporter:
        return Reporter(self._updates, update.id, update.attempt, self._shutting_down.is_set, span)

    def _patiently(self, call: Callable[[], Value]) -> Value:
        """A database that is away comes back; meanwhile nothing is lost and nothing is given up."""
        pause = 0.5
        while True:
            try:
                return call()
            except DatabaseUnreachable as error:
                logger.warning("Waiting for the database", extra={"action": "database_away", "reason": str(error)})
                self._pause(pause)
                pause = min(2 * pause, 5.0)

    def _pause(self, seconds: float) -> None:
        if self._shutting_down.wait(seconds):
            self._rest()

    def _rest(self) -> None:
        """Never return: the process is about to end, and the job must stay unfinished for the next one."""
        self.resting.set()
        while True:
            time.sleep(60)


def _about(update: Update, action: str, **more: object) -> dict[str, object]:
    return {"action": action, "update": update.id, "attempt": update.attempt, **more}
