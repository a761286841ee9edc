"""What a crash can leave behind, found again: rows without a job, jobs without a row, files without either."""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from service.config import Settings
from service.domain import ENDED
from service.errors import UnknownUpdate
from service.storage.artifacts import Artifacts
from service.storage.folders import clear, last_change
from service.storage.jobs import Jobs
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases.purge import Purger

__all__ = ["Sweeper"]

logger = logging.getLogger(__name__)

_UPDATE = re.compile("[0-9a-f]{32}")
_ORPHAN_SECONDS = 600.0  # files without a row may be on their way to one
_FOREIGN = {"action": "files_of_another_database", "look_at": "ZSTCI_DATABASE_URL and ZSTCI_ARTIFACTS_URL"}
_FILES_SECONDS = 30.0  # between two looks at all files, which a bucket makes one pay for


class Sweeper:
    """Every worker has one; it does not matter how many sweep at the same time."""

    def __init__(
        self,
        updates: UpdateStore,
        versions: VersionStore,
        artifacts: Artifacts,
        jobs: Jobs,
        purger: Purger,
        settings: Settings,
        at_work: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`at_work` tells the update that this very process works on."""
        self._updates, self._versions, self._artifacts, self._jobs = updates, versions, artifacts, jobs
        self._purger, self._settings, self._at_work = purger, settings, at_work
        self._orphans: dict[str, float] = {}  # key -> when it was first seen
        self._looked: float | None = None  # at all files
        self._warned = False
        self._jobless: set[str] = set()  # updates that waited without a job at the last sweep
        self._taken: dict[str, float] = {}  # updates that wait although their job has begun -> when it was first seen
        self._over: set[str] = set()  # ended updates whose job was still there at the last sweep

    def sweep(self) -> None:
        self._waiting()
        self._abandoned()
        running = self._jobs.running()
        self._not_begun(running)
        self._left_over(running)
        for update_id in self._updates.unpurged():
            self._purger.purge(update_id)
        self._files()

    def _waiting(self) -> None:
        """The API died between the row and its job, or the queue was away. At the second look: at the first the job may
        be on its way, and to begin that one anew would cost an attempt."""
        jobless = {update_id for update_id in self._updates.unfinished() if self._has_no_job(update_id)}
        for update_id in sorted(jobless & self._jobless):
            self._jobs.begin_anew(update_id)
        self._jobless = jobless

    def _has_no_job(self, update_id: str) -> bool:
        return self._updates.get(update_id).state == "queued" and not self._jobs.is_alive(update_id)

    def _abandoned(self) -> None:
        """Their worker is gone, and may never come back under its name."""
        for update_id in self._updates.abandoned(self._settings.lease_seconds):
            if update_id == self._at_work():
                continue  # the database was away, not the worker
            self._updates.heartbeat(update_id)  # the other sweepers need not do the same
            self._jobs.begin_anew(update_id)
            logger.warning("Update begun anew", extra={"action": "update_begun_anew", "update": update_id})

    def _not_begun(self, running: set[str]) -> None:
        """Their worker is gone, or stands still, between taking the job and beginning the update."""
        now = time.monotonic()
        waiting = running.intersection(self._updates.unfinished()) - {self._at_work()}
        waiting = {update_id for update_id in waiting if self._updates.get(update_id).state == "queued"}
        self._taken = {update_id: self._taken.get(update_id, now) for update_id in waiting}
        for update_id, since in list(self._taken.items()):
            if now - since > self._settings.lease_seconds:
                self._updates.heartbeat(update_id)  # raises while nobody can write: then it can begin nowhere
                del self._taken[update_id]
                self._jobs.begin_anew(update_id)
                logger.warning("Update begun anew", extra={"action": "update_begun_anew", "update": update_id})

    def _left_over(self, running: set[str]) -> None:
        """A job that could not write down its end would keep its place in the queue for ever."""
        over = {update_id for update_id in running if self._has_ended(update_id)}
        for update_id in over & self._over:
            self._jobs.end(update_id)
        self._over = over

    def _has_ended(self, update_id: str) -> bool:
        try:
            return self._updates.get(update_id).state in ENDED
        except UnknownUpdate:
            return True

    def _files(self) -> None:
        now = time.monotonic()
        if self._looked is not None and now - self._looked < _FILES_SECONDS:
            return
        self._looked = now
        self._left_here()
        self._half_done()
        self._orphans = {key: self._orphans.get(key, now) for key in self._unowned()}
        for key in [key for key, since in self._orphans.items() if now - since > _ORPHAN_SECONDS]:
            self._artifacts.delete(key)
            logger.info("Files without a row deleted", extra={"action": "orphan_deleted", "key": key})
        for folder in (self._settings.home / "work").glob("*"):
            with suppress(FileNotFoundError):  # another sweeper was faster
                if self._is_left_behind(folder):
                    shutil.rmtree(folder, ignore_errors=True)

    def _is_left_behind(self, folder: Path) -> bool:
        """Of a class that was being deleted, or of a worker that went on after another one had ended its update."""
        if folder.name.lstrip(".").startswith("delete-"):
            return time.time() - folder.stat().st_mtime > _ORPHAN_SECONDS
        return _UPDATE.fullmatch(folder.name) is not None and self._has_ended(folder.name)

    def _left_here(self) -> None:
        """An update that this machine began and another one ended: no copy of an image stays behind."""
        for key in self._artifacts.copies("uploads"):
            if self._has_ended(key.rpartition("/")[2]):
                self._artifacts.forget(key)
        for folder in (self._settings.home / "work").glob("[0-9a-f]" * 32):
            if self._has_ended(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def _half_done(self) -> None:
        """A killed process was putting something there, or deleting it. Nobody waits for what has an ended owner; any
        other is left alone for as long as it changes."""
        for kind in ("uploads", "versions"):
            for folder in self._artifacts.unfinished(kind):
                owner = re.split("[.-]", folder.name.lstrip("."))[0]
                over = _UPDATE.fullmatch(owner) is not None and not self._is_unknown(owner) and self._has_ended(owner)
                if over or time.time() - last_change(folder) > _ORPHAN_SECONDS:
                    clear(folder)
                    logger.info("Half done work deleted", extra={"action": "half_done_deleted", "folder": folder.name})

    def _unowned(self) -> list[str]:
        """Uploads without an update, and bundles that became no version and belong to no update at work."""
        uploads = [key for key in self._artifacts.keys("uploads/") if self._is_unknown(key.rpartition("/")[2])]
        versions = [key for key in self._artifacts.keys("versions/") if self._is_unowned_version(key)]
        if versions and not self._versions.list(1)[0]:
            # Files with a history and a database without one do not belong together: whose files are they?
            if not self._warned:
                logger.error("Nothing swept: the database has no version, the files have", extra=_FOREIGN)
            self._warned = True
            return []
        return uploads + versions

    def _is_unowned_version(self, key: str) -> bool:
        owner = key.rpartition("/")[2].partition("-")[0]
        return self._versions.by_bundle(key) is None and self._has_ended(owner)

    def _is_unknown(self, update_id: str) -> bool:
        try:
            self._updates.get(update_id)
        except UnknownUpdate:
            return True
        return False
