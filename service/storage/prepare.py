"""Tables before anything runs. Without torch, so that `zstci serve`, which only watches two processes, stays small."""

from __future__ import annotations

from service.config import Settings
from service.storage.database import Database, database_url
from service.storage.jobs import migrate_jobs, require_current_jobs
from service.storage.migrate import current, head, require_current, upgrade

__all__ = ["migrate", "prepare_database"]


def migrate(settings: Settings) -> None:
    """Our own tables and the job queue's, to what this program needs."""
    settings.home.mkdir(parents=True, exist_ok=True)
    upgrade(database_url(settings))
    migrate_jobs(settings)


def prepare_database(settings: Settings) -> None:
    """SQLite belongs to this service alone, so it is brought up to date by itself; a Postgres is somebody's, who
    decides when its tables change."""
    if database_url(settings).startswith("sqlite"):
        settings.home.mkdir(parents=True, exist_ok=True)
        if current(database_url(settings)) == head():
            # Without asking for a lock: it may be held by a worker that stands still, and only who runs can end that.
            migrate_jobs(settings)
        else:
            migrate(settings)
        return
    database = Database(database_url(settings))
    try:
        require_current(database)
        require_current_jobs(database)
    finally:
        database.close()
