"""Durable jobs: a DBOS workflow for each update. The API only enqueues; `service.worker` runs them.

Our own `updates` row is the truth. The job is what makes somebody work on it, and the workers enqueue again whatever
row has none, so a crash between the two loses nothing. A job has no steps of its own: whatever it does can be repeated.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from contextlib import contextmanager
from typing import Any

from dbos import DBOS, DBOSClient, DBOSConfig, Serializer
from dbos._migration import should_migrate
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from service.config import Settings
from service.errors import DatabaseBehind, DatabaseUnreachable
from service.storage.database import Database, database_url

__all__ = ["QUEUE", "WORKFLOW", "Jobs", "configuration", "jobs_url", "migrate_jobs", "require_current_jobs"]

QUEUE, WORKFLOW = "updates", "run_update"
# Jobs are found again after a restart only under the same name and version, whatever release runs them.
_APPLICATION, _VERSION = "zstci", "1"
_ALIVE = ["PENDING", "ENQUEUED", "DELAYED"]
_ENQUEUE_SECONDS = 3.0  # a caller's patience; the workers enqueue what has no job anyway


class JsonSerializer(Serializer):
    """DBOS would pickle by default. What JSON lacks, an error for example, is kept as its text."""

    def serialize(self, data: Any) -> str:
        return json.dumps(data, default=repr)

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
    url = jobs_url(settings)
    DBOS.migrate(url)
    if url.startswith("sqlite"):
        engine = create_engine(url)
        with engine.connect() as connection:
            connection.execute(text("PRAGMA journal_mode=WAL"))  # stays with the file: readers never wait for a writer
        engine.dispose()


def configuration(settings: Settings) -> DBOSConfig:
    """For the worker. A fixed executor id: a worker recovers the jobs of its own earlier life."""
    return {
        "name": _APPLICATION,
        "system_database_url": jobs_url(settings),
        "executor_id": settings.worker_name,
        "application_version": _VERSION,
        "serializer": JsonSerializer(),
        "run_migrations": False,
        "sys_db_idle_transaction_timeout_sec": settings.lease_seconds,
        "log_level": "WARNING",
    }


def require_current_jobs(database: Database) -> None:
    """On Postgres, where nobody but `zstci migrate` changes tables: the library's own may be older than it, too."""
    with database.read():  # whether it answers at all
        if should_migrate(database.engine, "dbos", True):
            raise DatabaseBehind(
                f"the job queue's tables in {database.shown_url} (schema dbos) are missing or older than this program; "
                "run: zstci migrate"
            )


class Jobs:
    """The queue, seen from outside of any job."""

    def __init__(self, settings: Settings) -> None:
        self._client = DBOSClient(
            system_database_url=jobs_url(settings),
            serializer=JsonSerializer(),
            application_name=_APPLICATION,
            lazy=True,
            retry_connection_errors=False,
            sys_db_idle_transaction_timeout_sec=settings.lease_seconds,
        )
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="enqueue")

    def enqueue(self, update_id: str) -> None:
        """Any number of times: it is one job. Gives up soon: an update that is stored must not wait for its job."""
        try:
            self._pool.submit(self._enqueue, update_id, update_id).result(_ENQUEUE_SECONDS)
        except TooLate as error:
            raise DatabaseUnreachable("the job queue is slow to answer; try again soon") from error

    def begin_anew(self, update_id: str) -> None:
        """A new job instead of one whose worker is gone. That one is cancelled: it would keep its place for ever."""
        self.end(update_id)
        self._enqueue(update_id, f"{update_id}-{uuid.uuid4().hex[:8]}")

    def end(self, update_id: str) -> None:
        with _named():
            for workflow in self._alive(update_id):
                self._client.cancel_workflow(workflow)

    def is_alive(self, update_id: str) -> bool:
        """Whether a job for it waits or runs."""
        with _named():
            return bool(self._alive(update_id))

    def running(self) -> set[str]:
        """The updates whose jobs have begun and not ended."""
        with _named():
            found = self._client.list_workflows(status="PENDING", load_input=False, load_output=False)
        return {workflow.workflow_id.partition("-")[0] for workflow in found}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.destroy()

    def _alive(self, update_id: str) -> list[str]:
        found = self._client.list_workflows(
            workflow_id_prefix=update_id, status=_ALIVE, load_input=False, load_output=False
        )
        return [workflow.workflow_id for workflow in found]

    def _enqueue(self, update_id: str, job_id: str) -> None:
        with _named():
            self._client.enqueue(
                {"workflow_name": WORKFLOW, "queue_name": QUEUE, "workflow_id": job_id, "app_version": _VERSION},
                update_id,
            )


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise DatabaseUnreachable(f"the job queue does not answer ({error.orig}); try again soon") from error
