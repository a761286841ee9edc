"""What SQLite and PostgreSQL call the same few troubles, as errors of the service."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError, TimeoutError

from service.errors import DatabaseBehind, DatabaseUnreachable, ServiceError, StorageFull

__all__ = ["explained"]

_NO_SUCH_TABLE = {"42P01", "42703"}  # PostgreSQL: undefined_table, undefined_column
_DISK_FULL = {"53100"}


def explained(error: SQLAlchemyError, url: str) -> ServiceError | None:
    """The error to raise instead; None for what only a mistake in this program can cause."""
    if isinstance(error, TimeoutError):
        return DatabaseUnreachable(f"all connections to {url} are in use; try again")
    if not isinstance(error, DBAPIError):
        return None
    said = str(error.orig).strip().partition("\n")[0]
    if _lacks_a_table(error.orig):
        return DatabaseBehind(
            f"the tables of {url} are missing or older than this program ({said}); run: zstci migrate"
        )
    if _is_full(error.orig):
        return StorageFull(f"{url} has no room left ({said}); free some space and try again")
    # SQLite's word for a damaged file, or for a file that is something else, is DatabaseError itself.
    unreachable = isinstance(error, OperationalError | InterfaceError) or type(error) is DatabaseError
    if unreachable or error.connection_invalidated:
        return DatabaseUnreachable(
            f"{url} does not answer ({said}); see that it runs and that ZSTCI_DATABASE_URL is right"
        )
    return None


def _lacks_a_table(error: BaseException | None) -> bool:
    # SQLite has no number of its own for this, only the words.
    if isinstance(error, sqlite3.OperationalError):
        return str(error).startswith(("no such table", "no such column")) or "has no column named" in str(error)
    return getattr(error, "sqlstate", None) in _NO_SUCH_TABLE


def _is_full(error: BaseException | None) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) in _DISK_FULL
