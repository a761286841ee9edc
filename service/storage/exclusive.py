"""One worker of a name at a time: a second one would take the first one's unfinished job for its own."""

from __future__ import annotations

import fcntl
import hashlib
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from service.config import Settings
from service.errors import WorkerNameTaken
from service.storage.database import Database
from service.storage.standstill import Process

__all__ = ["Held", "only_worker", "sign_of_life"]

logger = logging.getLogger(__name__)


class Held:
    """A name in use. `keep` it now and then: a Postgres that was restarted has forgotten whom it belongs to."""

    def __init__(self, name: str, database: Database) -> None:
        self._database = database
        self._number = int(_short(name)[:15], 16)
        self._session: Connection | None = None

    def take(self) -> bool:
        """From the workers on other machines, which have homes of their own but the same database."""
        if self._database.is_sqlite:
            return True
        session = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        taken = bool(session.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": self._number}))
        if taken:
            self._session = session
        else:
            session.close()
        return taken

    def keep(self) -> None:
        if self._database.is_sqlite or self._is_alive():
            return
        # In vain for as long as Postgres does not know that our session is lost, or is away itself.
        with suppress(SQLAlchemyError):
            self.release()
            if self.take():
                logger.info("Name held again", extra={"action": "name_held_again"})

    def _is_alive(self) -> bool:
        try:
            return self._session is not None and bool(self._session.scalar(text("SELECT 1")))
        except SQLAlchemyError:
            return False

    def release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.invalidate()  # not back to the pool: the lock would go with it
            session.close()


def sign_of_life(settings: Settings) -> Path:
    """A worker's lock, which it touches now and then: whoever looks after it sees that it has not stopped. It says
    which process that is."""
    return settings.home / f"worker-{_short(settings.worker_name)}.lock"


@contextmanager
def only_worker(settings: Settings, database: Database) -> Iterator[Held]:
    """Held until the process ends, however it ends: the system lets go of the file, Postgres of its session's lock."""
    name = settings.worker_name
    taken = WorkerNameTaken(
        f"another worker called {name!r} is running; end it first, or give this one a ZSTCI_WORKER_ID of its own"
    )
    with ExitStack() as stack:
        file = stack.enter_context(sign_of_life(settings).open("a"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise taken from error
        file.truncate(0)
        file.write(str(Process.this(settings.lease_seconds) or ""))
        file.flush()
        held = Held(name, database)
        if not held.take():
            raise taken
        stack.callback(held.release)
        yield held


def _short(name: str) -> str:
    """A name of ours: that of a worker may hold anything."""
    return hashlib.sha256(f"zstci worker {name}".encode()).hexdigest()[:16]
