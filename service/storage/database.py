"""One engine for SQLite and PostgreSQL alike, and sessions that either write everything or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

from service.config import Settings
from service.storage.failures import explained
from zstci.errors import InvalidConfig

__all__ = ["Database", "database_url"]

_PATIENCE = 30  # seconds that a writer waits for another one
_CONNECT_SECONDS = 10
_DRIVERS = {"postgres": "postgresql+psycopg", "postgresql": "postgresql+psycopg"}


class Database:
    """Connects at the first use, not before. May be used by any number of threads; close() it at the end."""

    def __init__(self, url: str, idle_seconds: float | None = None) -> None:
        """After `idle_seconds` without a word within a transaction Postgres takes its locks back: whoever holds them
        stands still, or is cut off. On SQLite `service.storage.standstill` sees to it."""
        parsed = _parsed(url)
        self.url = parsed.render_as_string(hide_password=False)
        self.shown_url = parsed.render_as_string(hide_password=True)  # for messages and logs
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.engine = _sqlite_engine(parsed) if self.is_sqlite else _postgres_engine(parsed, idle_seconds)
        # SQLite must know at BEGIN that a write will come: a reader that turns into a writer can fail at once, without
        # any waiting, because what it has read may be out of date.
        self._writing = self.engine.execution_options(begin="IMMEDIATE")

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Commits at the end, unless something was raised. On SQLite there is one writer at a time, the others wait."""
        with self._explained(), Session(self._writing, expire_on_commit=False) as session, session.begin():
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        with self._explained(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            instead = explained(error, self.shown_url)
            if instead is None:
                raise
            raise instead from error


def database_url(settings: Settings) -> str:
    if settings.database_url:
        return settings.database_url
    # Absolute, so that a process that changes its folder still means the same file.
    path = settings.home.absolute() / "zstci.db"
    return URL.create("sqlite", database=str(path)).render_as_string(hide_password=False)


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The URL itself is not repeated: it may hold a password.
        raise InvalidConfig(f"the database URL cannot be read; write sqlite:///FILE or {_EXAMPLE}") from error
    parsed = parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise InvalidConfig(f"no database of the kind {backend!r} is used here; write sqlite:///FILE or {_EXAMPLE}")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidConfig("a database in memory is not shared between API and worker; write sqlite:///FILE")
    return parsed


_EXAMPLE = "postgresql://USER:PASSWORD@HOST/NAME"


def _postgres_engine(url: URL, idle_seconds: float | None) -> Engine:
    # libpq by itself waits for minutes for a host that swallows packets.
    arguments = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_SECONDS}
    try:
        # pre_ping: a connection that a restarted server has dropped is replaced without anybody noticing.
        engine = create_engine(url, pool_pre_ping=True, connect_args=arguments)
    except (NoSuchModuleError, ImportError) as error:
        raise InvalidConfig(f"the driver of {url.drivername} is not here ({error}); write {_EXAMPLE}") from error
    if idle_seconds is not None:

        @event.listens_for(engine, "connect")
        def limit(connection: Any, _: Any) -> None:
            # Not among the options of the connection: poolers such as PgBouncer refuse those.
            milliseconds = max(1, round(1000 * idle_seconds))  # 0 would be for ever
            connection.cursor().execute(f"SET idle_in_transaction_session_timeout = {milliseconds}")
            connection.commit()  # the pool rolls back what is not

    return engine


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _PATIENCE})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    _stay_with_the_file(engine, Path(url.database or ""))
    return engine


def _stay_with_the_file(engine: Engine, path: Path) -> None:
    """A file that is moved away or replaced lives on for who has it open, and what is written to it is lost. So every
    use of a connection looks whether it is that file still; and one that was there once is never made anew, empty."""
    seen = False

    @event.listens_for(engine, "do_connect")
    def open_or_make(*_: Any) -> None:
        if seen and not path.exists():
            raise sqlite3.OperationalError(f"{path} is gone")
        path.parent.mkdir(parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def remember(_: Any, record: ConnectionPoolEntry) -> None:
        nonlocal seen
        seen, record.info["file"] = True, _identity(path)

    @event.listens_for(engine, "checkout")
    def compare(_: Any, record: ConnectionPoolEntry, __: Any) -> None:
        if record.info["file"] != _identity(path):
            raise DisconnectionError(f"{path} is another file by now")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    # Python's driver would begin transactions by its own rules, and none for reads or changes of tables.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {_PATIENCE * 1000}")
    # Readers and the writer do not wait for each other.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begin', 'DEFERRED')}")
