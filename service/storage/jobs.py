"""Durable jobs: one DBOS workflow for each update. The API only enqueues; `service.worker` runs them.

Our own `updates` row is the truth. The job is what makes somebody work on it, and a worker enqueues again whatever row
has none, so a crash between the two loses nothing.
"""

from __future__ import annotations

import json
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig, Serializer
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from service.config import Settings
from service.errors import DatabaseUnreachable
from service.storage.database import database_url

__all__ = ["QUEUE", "WORKFLOW", "Jobs", "configuration", "jobs_url", "migrate_jobs"]

QUEUE, WORKFLOW = "updates", "run_update"
# Jobs are found again after a restart only under the same name and version, whatever release runs them.
_APPLICATION, _VERSION = "zstci", "1"


class JsonSerializer(Serializer):
    """DBOS would pickle by default."""

    def serialize(self, data: Any) -> str:
        return json.dumps(data)

    def deserialize(self, serialized_data: str) -> Any:
        return json.loads(serialized_data)

    def name(self) -> str:
        return "json"


def jobs_url(settings: Settings) -> str:
    """Beside our tables on Postgres (schema `dbos`); a file of its own on SQLite, which has one writer."""
    url = make_url(database_url(settings))
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{settings.home.resolve() / 'jobs.db'}"
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def migrate_jobs(settings: Settings) -> None:
    DBOS.migrate(jobs_url(settings))


def configuration(settings: Settings) -> DBOSConfig:
    """For the worker. A fixed executor id: a worker recovers the jobs of its own earlier life."""
    return {
        "name": _APPLICATION,
        "system_database_url": jobs_url(settings),
        "executor_id": settings.worker_id,
        "application_version": _VERSION,
        "serializer": JsonSerializer(),
        "run_migrations": False,
        "log_level": "WARNING",
        "notification_listener_polling_interval_sec": 1.0,
    }


class Jobs:
    """The API's end of the queue."""

    def __init__(self, settings: Settings) -> None:
        self._client = DBOSClient(
            system_database_url=jobs_url(settings),
            serializer=JsonSerializer(),
            application_name=_APPLICATION,
            lazy=True,
            retry_connection_errors=False,
        )

    def enqueue(self, update_id: str) -> None:
        """Any number of times: it is one job."""
        try:
            self._client.enqueue(
                {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": update_id,
                    "app_version": _VERSION,
                },
                update_id,
            )
        except OperationalError as error:
            raise DatabaseUnreachable(f"the database does not answer ({error.orig}); try again soon") from error

    def ended(self, update_id: str) -> bool:
        """Whether the job will never run again, by itself."""
        found = self._client.list_workflows(workflow_ids=[update_id], load_input=False, load_output=False)
        return bool(found) and found[0].status not in ("PENDING", "ENQUEUED", "DELAYED")

    def close(self) -> None:
        self._client.destroy()
