"""Puts the parts of a worker process together from the settings."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from service.bootstrap import storage
from service.config import Settings
from service.storage.artifacts import Artifacts
from service.storage.database import Database
from service.storage.jobs import Jobs
from service.storage.migrate import require_current
from service.storage.updates import UpdateStore
from service.storage.versions import VersionStore
from service.usecases.purge import Purger
from service.usecases.run_update import UpdateRunner
from service.usecases.sweep import Sweeper

__all__ = ["WorkerParts", "assemble_worker"]


@dataclass(frozen=True)
class WorkerParts:
    """What a worker process is made of."""

    database: Database
    updates: UpdateStore
    versions: VersionStore
    artifacts: Artifacts
    jobs: Jobs
    runner: UpdateRunner
    sweeper: Sweeper

    def close(self) -> None:
        self.jobs.close()
        self.database.close()


def assemble_worker(settings: Settings, shutting_down: threading.Event) -> WorkerParts:
    database, artifacts = storage(settings)
    require_current(database)
    updates, versions = UpdateStore(database), VersionStore(database)
    runner = UpdateRunner(updates, versions, artifacts, settings, shutting_down)
    jobs, purger = Jobs(settings), Purger(updates, versions, artifacts, settings)
    sweeper = Sweeper(updates, versions, artifacts, jobs, purger, settings, lambda: runner.at_work)
    return WorkerParts(database, updates, versions, artifacts, jobs, runner, sweeper)
