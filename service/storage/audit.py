"""The rows of the audit log: written before a change, ended after it."""

from __future__ import annotations

from sqlalchemy import select, update

from service.domain import Actor, AuditEntry
from service.storage.database import Database
from service.storage.rows import printable
from service.storage.tables import AuditRow
from service.storage.times import now

__all__ = ["BEGUN", "AuditStore"]

BEGUN = "begun"

# The class has a method `list`, which would be meant inside of it.
_Page = tuple[list[AuditEntry], int | None]


class AuditStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, actor: Actor, action: str, what: str) -> int:
        row = AuditRow(
            at=now(),
            key_id=actor.key_id,
            actor=actor.name,
            action=action,
            object=printable(what),
            request_id=actor.request_id,
            outcome=BEGUN,
        )
        with self._database.write() as session:
            session.add(row)
            session.flush()
            return row.id

    def end(self, entry: int, what: str, outcome: str) -> None:
        with self._database.write() as session:
            here = update(AuditRow).where(AuditRow.id == entry)
            session.execute(here.values(object=printable(what), outcome=outcome))

    def list(self, limit: int, cursor: int | None = None) -> _Page:
        """Newest first, and the cursor of the next page, if there is one."""
        wanted = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(AuditRow.id < min(cursor, 2**62))
        with self._database.read() as session:
            rows = session.scalars(wanted).all()
        return [_entry_of(row) for row in rows[:limit]], rows[limit - 1].id if len(rows) > limit else None


def _entry_of(row: AuditRow) -> AuditEntry:
    return AuditEntry(row.id, row.at, row.key_id, row.actor, row.action, row.object, row.request_id, row.outcome)
