"""What alembic runs. The URL is the one that it was called with, or else that of the settings."""

from __future__ import annotations

import sqlite3

from alembic import context
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from service.config import load_settings
from service.storage.database import Database, database_url
from service.storage.tables import Base

_LOCK = 7_478_203_519  # any number, as long as nobody else locks it


def run() -> None:
    url = context.config.get_main_option("sqlalchemy.url") or database_url(load_settings())
    database = Database(url)
    if database.is_sqlite:
        event.listen(database.engine, "connect", _without_foreign_keys)
    try:
        # One transaction for all steps, changes of tables included: either all of them or none.
        with database.write() as session:
            _take_turns(session, database.is_sqlite)
            context.configure(
                connection=session.connection(),
                target_metadata=Base.metadata,
                include_name=_is_ours,
                render_as_batch=database.is_sqlite,
                transactional_ddl=True,
            )
            with context.begin_transaction():
                context.run_migrations()
    finally:
        database.close()


def _take_turns(session: Session, is_sqlite: bool) -> None:
    """Of processes that start together one migrates, and the others wait. SQLite's writers take turns by themselves."""
    if not is_sqlite:
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def _without_foreign_keys(connection: sqlite3.Connection, _: object) -> None:
    # SQLite changes a table by making a new one and dropping the old, to which others may point. Inside of a
    # transaction it is too late to say so.
    connection.execute("PRAGMA foreign_keys = OFF")


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    """The jobs may have their tables in the same database; those have a history of their own."""
    return kind != "table" or name in Base.metadata.tables


run()
