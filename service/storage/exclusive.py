"""One worker of a name at a time: a second one would take the first one's unfinished job for its own."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import text

from service.config import Settings
from service.errors import WorkerNameTaken
from service.storage.database import Database

__all__ = ["only_worker", "sign_of_life"]


def sign_of_life(settings: Settings) -> Path:
    """A worker's lock, which it touches now and then: whoever looks after it sees that it has not stopped."""
    return settings.home / f"worker-{_short(settings.worker_id)}.lock"


@contextmanager
def only_worker(settings: Settings, database: Database) -> Iterator[None]:
    """Held until the process ends, however it ends: the system lets go of the file, Postgres of its session's lock."""
    name = settings.worker_id
    taken = WorkerNameTaken(
        f"another worker called {name!r} is running; end it first, or give this one a ZSTCI_WORKER_ID of its own"
    )
    with ExitStack() as held:
        file = held.enter_context(sign_of_life(settings).open("w"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise taken from error
        if not database.is_sqlite:
            # Workers on other machines have homes of their own, but the same database.
            session = held.enter_context(database.engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
            number = int(_short(name)[:15], 16)
            if not session.execute(text("SELECT pg_try_advisory_lock(:number)"), {"number": number}).scalar():
                raise taken
        yield


def _short(name: str) -> str:
    """A name of ours: that of a worker may hold anything."""
    return hashlib.sha256(f"zstci worker {name}".encode()).hexdigest()[:16]
