"""Brings the tables to what this program needs, by the steps in the package `migrations`."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

import migrations
from service.errors import DatabaseBehind
from service.storage.database import Database

__all__ = ["current", "downgrade", "head", "require_current", "upgrade"]


def upgrade(url: str, revision: str = "head") -> None:
    """May be called by several processes at once: they take turns, and the second finds nothing left to do."""
    try:
        command.upgrade(_config(url), revision)
    except CommandError as error:
        raise _unknown(error) from error


def downgrade(url: str, revision: str) -> None:
    """`base` takes everything away. What the older tables cannot hold is lost."""
    try:
        command.downgrade(_config(url), revision)
    except CommandError as error:
        raise _unknown(error) from error


def current(url: str) -> str | None:
    database = Database(url)
    try:
        return _revision(database)
    finally:
        database.close()


def head() -> str:
    newest = ScriptDirectory.from_config(_config("")).get_current_head()
    assert newest is not None  # there is a first migration
    return newest


def require_current(database: Database) -> None:
    found, needed = _revision(database), head()
    if found == needed:
        return
    known = {script.revision for script in ScriptDirectory.from_config(_config("")).walk_revisions()}
    if found is not None and found not in known:
        raise DatabaseBehind(
            f"the tables of {database.shown_url} are of a newer program (revision {found}, here it is {needed}); "
            "install that program"
        )
    raise DatabaseBehind(
        f"the tables of {database.shown_url} are at revision {found or 'none'}, this program needs {needed}; "
        "run: zstci migrate"
    )


def _revision(database: Database) -> str | None:
    with database.read() as session:
        return MigrationContext.configure(session.connection()).get_current_revision()


def _unknown(error: CommandError) -> DatabaseBehind:
    return DatabaseBehind(f"the tables cannot be migrated by this program ({error}); a newer one may have made them")


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", _escaped(str(Path(str(migrations.__file__)).parent)))
    config.set_main_option("sqlalchemy.url", _escaped(url))
    return config


def _escaped(value: str) -> str:
    """A % would be taken for a reference to another option."""
    return value.replace("%", "%%")
