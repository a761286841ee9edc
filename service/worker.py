"""The worker process: takes updates from the queue, one at a time, and tidies up after those that died."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable

import torch
from dbos import DBOS

from service import logs
from service.bootstrap import WorkerParts, assemble_worker
from service.config import Settings
from service.domain import Failure
from service.errors import ServiceError, UnknownUpdate
from service.serving.pool import cores
from service.storage.exclusive import only_worker
from service.storage.jobs import QUEUE, WORKFLOW, configuration
from service.usecases.run_update import Outcome

__all__ = ["run_worker"]

logger = logging.getLogger(__name__)

_NICENESS = 10  # queries come first
_SWEEP_SECONDS = 2.0
_ORPHAN_SECONDS = 600.0  # an upload without a row is being submitted, or its API process died
_GRACE_SECONDS = 20.0


def run_worker(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. What is at work then stops at its next batch and goes on when a worker starts again."""
    logs.configure()
    torch.set_num_threads(settings.train_threads or max(1, cores() // 2))
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    shutting_down = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: shutting_down.set())
    parts = assemble_worker(settings, shutting_down)
    with only_worker(settings, parts.database):
        busy = threading.Event()
        _launch(settings, parts, busy)
        logger.info("Worker ready", extra={"action": "worker_ready", "worker": settings.worker_id})
        sweeper = _Sweeper(parts)
        while not shutting_down.is_set():
            sweeper.sweep()
            shutting_down.wait(_SWEEP_SECONDS)
        _stop(parts, busy)


def _launch(settings: Settings, parts: WorkerParts, busy: threading.Event) -> None:
    def run_update(update_id: str) -> None:
        busy.set()
        try:
            parts.runner.run(update_id, _step)
        finally:
            busy.clear()

    DBOS(config=configuration(settings))
    DBOS.workflow(name=WORKFLOW, max_recovery_attempts=1000)(run_update)  # our own rows count the attempts
    DBOS.launch()
    # One at a time: each update builds on the one before.
    DBOS.register_queue(QUEUE, concurrency=1, polling_interval_sec=0.2, on_conflict="always_update")


def _step(name: str, work: Callable[[], Outcome]) -> Outcome:
    return DBOS.run_step({"name": name}, work)


def _stop(parts: WorkerParts, busy: threading.Event) -> None:
    deadline = time.monotonic() + _GRACE_SECONDS
    while busy.is_set() and not parts.runner.resting.is_set() and time.monotonic() < deadline:
        time.sleep(0.05)
    logger.info("Worker stopped", extra={"action": "worker_stopped"})
    logging.shutdown()
    # The job's thread rests for ever, so that its job stays unfinished; an ordinary exit would wait for it.
    os._exit(0)


class _Sweeper:
    """What a crash can leave behind, found again: rows without a job, jobs without an end, files without a row."""

    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._orphans: dict[str, float] = {}  # key -> when it was first seen
        self._enqueued: set[str] = set()

    def sweep(self) -> None:
        try:
            self._unfinished()
            for update_id in self._parts.updates.unpurged():
                self._parts.purger.purge(update_id)
            self._uploads()
        except ServiceError as error:
            logger.warning("Not swept", extra={"action": "not_swept", "reason": str(error)})
        except Exception:
            logger.exception("Not swept", extra={"action": "not_swept"})

    def _unfinished(self) -> None:
        unfinished = self._parts.updates.unfinished()
        for update_id in unfinished:
            if update_id not in self._enqueued:
                self._parts.jobs.enqueue(update_id)
            elif self._parts.jobs.ended(update_id):
                failure = Failure("gave_up", "its job ended without a result; see the worker's log, and send it again")
                current = self._parts.updates.get(update_id)
                self._parts.updates.finish(update_id, current.attempt, "failed", failure=failure)
        self._enqueued = set(unfinished)

    def _uploads(self) -> None:
        found = {key for key in self._parts.artifacts.keys("uploads/") if not self._known(key)}
        now = time.monotonic()
        self._orphans = {key: self._orphans.get(key, now) for key in found}
        for key, since in self._orphans.items():
            if now - since > _ORPHAN_SECONDS:
                self._parts.artifacts.delete(key)
                logger.info("Upload without an update deleted", extra={"action": "orphan_deleted", "key": key})

    def _known(self, key: str) -> bool:
        try:
            self._parts.updates.get(key.rpartition("/")[2])
        except UnknownUpdate:
            return False
        return True
