"""The worker process: takes updates from the queue, one at a time, and sees that none is left lying."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import suppress

import torch
from dbos import DBOS

from service import logs
from service.config import Settings
from service.serving.pool import cores
from service.signals import stop_event
from service.storage.exclusive import only_worker, sign_of_life
from service.storage.jobs import QUEUE, WORKFLOW, configuration
from service.storage.standstill import watch
from service.worker_bootstrap import WorkerParts, assemble_worker

__all__ = ["run_worker"]

logger = logging.getLogger(__name__)

_NICENESS = 10  # queries come first
_SWEEP_SECONDS = 2.0
_AGAIN_SECONDS = 5.0
_GRACE_SECONDS = 8.0  # below the ten that container engines give


def run_worker(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. What is at work then stops at its next batch and goes on when a worker starts again."""
    logs.configure()
    torch.set_num_threads(settings.train_threads or max(1, cores() // 2))
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    shutting_down = stop_event()
    parts = assemble_worker(settings, shutting_down)
    with only_worker(settings, parts.database) as held:
        _show_life(settings)
        watch(settings)
        busy = threading.Event()
        _launch(settings, parts, busy, shutting_down)
        logger.info("Worker ready", extra={"action": "worker_ready", "worker": settings.worker_name})
        while not shutting_down.is_set():
            held.keep()
            _sweep(parts)
            shutting_down.wait(_SWEEP_SECONDS)
        _stop(parts, busy)


def _show_life(settings: Settings) -> None:
    """From a thread of its own: the others may wait for the database, or compute for long."""

    def touch() -> None:
        while True:
            with suppress(OSError):  # a home that is away for a while
                sign_of_life(settings).touch()
            time.sleep(settings.lease_seconds / 6)

    threading.Thread(target=touch, daemon=True, name="life").start()


def _launch(settings: Settings, parts: WorkerParts, busy: threading.Event, shutting_down: threading.Event) -> None:
    def run_update(update_id: str) -> None:
        """Never ends before the update has: a job that ends early would leave its update to nobody."""
        busy.set()
        try:
            while True:
                try:
                    return parts.runner.run(update_id)
                except Exception:
                    about = {"action": "run_failed", "update": update_id}
                    logger.exception("Update not run; trying again", extra=about)
                    shutting_down.wait(_AGAIN_SECONDS)
        finally:
            busy.clear()

    DBOS(config=configuration(settings))
    DBOS.workflow(name=WORKFLOW, max_recovery_attempts=1_000_000)(run_update)  # our own rows count the attempts
    DBOS.launch()
    # One at a time: each update builds on the one before.
    DBOS.register_queue(QUEUE, concurrency=1, polling_interval_sec=0.2, on_conflict="always_update")


def _sweep(parts: WorkerParts) -> None:
    try:
        parts.sweeper.sweep()
    except Exception:
        logger.exception("Not swept", extra={"action": "not_swept"})


def _stop(parts: WorkerParts, busy: threading.Event) -> None:
    deadline = time.monotonic() + _GRACE_SECONDS
    while busy.is_set() and not parts.runner.resting.is_set() and time.monotonic() < deadline:
        time.sleep(0.05)
    logger.info("Worker stopped", extra={"action": "worker_stopped"})
    logging.shutdown()
    # The job's thread rests for ever, so that its job stays unfinished; an ordinary exit would wait for it.
    os._exit(0)
