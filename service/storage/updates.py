"""The rows of updates and of what happened to them. This, not the queue of jobs, is what the API tells.

queued -> running -> succeeded | failed | cancelled      running -> running is a new attempt; what has ended stays

Whoever adds an event has locked the update's row before. So the ids of one update's events become visible in their
order, and a reader that asks for what came after the last one it saw misses none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from service.domain import ENDED, Event, Failure, Report, State, Update
from service.errors import IdempotencyMismatch, UpdateEnded
from service.storage.database import Database
from service.storage.rows import event_of, finite, printable, row_of, update_of
from service.storage.tables import MAIN, EventRow, LineRow, UpdateRow, VersionRow
from service.storage.times import now
from service.storage.update_rows import (
    UNFINISHED,
    end,
    found,
    is_current,
    locked,
    pending_names,
    require_current,
    require_free,
    tell,
)

__all__ = ["UpdateStore"]

_STATES: tuple[State, ...] = (*UNFINISHED, *ENDED)

# The class has a method `list`, which would be meant inside of it.
_Ids = list[str]
_Events = list[Event]
_Page = tuple[list[Update], int | None]


class UpdateStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Update, idempotency_key: str | None, fingerprint: str) -> Update:
        """Store a queued update. With a key that is there already: the update that came with it, if it is the same.

        Two may come at once, by different processes, with one key or one class: so they take turns here."""
        with self._database.write() as session:
            session.scalars(select(LineRow).where(LineRow.name == MAIN).with_for_update()).one()
            earlier = None if idempotency_key is None else _of_key(session, idempotency_key)
            if earlier is not None:
                return update_of(_same(earlier, fingerprint))
            if new.options.on_existing_class == "reject":
                require_free(session, new.classes)
            row = row_of(new, idempotency_key, fingerprint)
            session.add(row)
            session.flush()
            tell(session, row, "state", {"state": row.state})
            return update_of(row)

    def by_key(self, key: str) -> tuple[Update, str] | None:
        """The update that came with this Idempotency-Key, and the fingerprint of what was sent."""
        with self._database.read() as session:
            row = _of_key(session, key)
            return None if row is None else (update_of(row), row.fingerprint)

    def get(self, update_id: str) -> Update:
        with self._database.read() as session:
            return update_of(found(session, update_id))

    def list(self, limit: int, cursor: int | None = None, state: State | None = None) -> _Page:
        """Newest first, and the cursor of the next page, if there is one."""
        wanted = select(UpdateRow).order_by(UpdateRow.seq.desc()).limit(limit + 1)
        if state is not None:
            wanted = wanted.where(UpdateRow.state == state)
        if cursor is not None:
            wanted = wanted.where(UpdateRow.seq < min(cursor, 2**62))
        with self._database.read() as session:
            rows = session.scalars(wanted).all()
        return [update_of(row) for row in rows[:limit]], rows[limit - 1].seq if len(rows) > limit else None

    def begin(self, update_id: str) -> Update | None:
        """A new attempt; None if there is nothing left to do."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if row.state in ENDED:
                return None
            row.state, row.stage, row.progress, row.eta_seconds = "running", "validating", 0.0, None
            row.attempt += 1
            row.started_at = row.started_at or now()
            row.heartbeat_at = now()
            tell(session, row, "state", {"state": row.state})
            return update_of(row)

    def report(self, update_id: str, attempt: int, report: Report) -> None:
        """Nothing happens for an attempt that is over: its process may live on for a while after a new one began."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if not is_current(row, attempt):
                return
            told = finite(vars(report))
            told["progress"] = min(1.0, max(row.progress, told["progress"] or 0.0))
            row.stage, row.progress, row.eta_seconds = report.stage, told["progress"], told["eta_seconds"]
            row.heartbeat_at = now()
            tell(session, row, "progress", told)

    def metric(self, update_id: str, attempt: int, values: dict[str, Any]) -> None:
        with self._database.write() as session:
            row = locked(session, update_id)
            if is_current(row, attempt):
                told = finite(values)
                row.metrics = row.metrics | told
                tell(session, row, "metric", told)

    def note_parent(self, update_id: str, parent: int | None) -> None:
        self._set(update_id, parent=parent)

    def note_instant(self, update_id: str, version: int) -> None:
        self._set(update_id, instant_version=version)

    def heartbeat(self, update_id: str, attempt: int | None = None) -> None:
        """Somebody works on it. An attempt that is over must not keep alive what a newer one has left."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if attempt is None or is_current(row, attempt):
                row.heartbeat_at = now()

    def note_end(self, update_id: str, attempt: int, failure: Failure | None) -> None:
        """What it comes to, before its images go: who takes up after a crash could not find out again."""
        with self._database.write() as session:
            row = locked(session, update_id)
            require_current(row, attempt)
            if failure is not None:
                row.error_code, row.error_detail = failure.code, printable(failure.detail)

    def note_receipt(self, update_id: str, receipt: dict[str, Any]) -> None:
        """Before anything is deleted, for the same reason."""
        self._set(update_id, receipt=finite(receipt))

    def stopped(self, update_id: str, attempt: int) -> None:
        """This attempt ends because its worker was asked to: that is no fault of the update."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if is_current(row, attempt):
                row.clean_stops += 1

    def finish(
        self,
        update_id: str,
        attempt: int,
        state: State,
        *,
        version: int | None = None,
        failure: Failure | None = None,
    ) -> Update:
        """End it, unless it has ended or a newer attempt is at work. Returns it as it is then."""
        if state not in ENDED:
            raise ValueError(f"{state!r} is no end; choose one of: {', '.join(ENDED)}")
        with self._database.write() as session:
            row = locked(session, update_id)
            if row.state not in ENDED and row.attempt == attempt:
                if (
                    row.cancel_requested and state == "failed"
                ):  # whoever was told that it is cancelled was told the truth
                    state, failure, row.error_code, row.error_detail = "cancelled", None, None, None
                end(session, row, state, version, failure)
            return update_of(row)

    def cancel(self, update_id: str) -> Update:
        """A waiting update ends at once; a running one when the worker looks the next time."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if row.state in ENDED:
                raise UpdateEnded(f"update {update_id} is {row.state} already; there is nothing left to cancel")
            made = session.scalar(
                select(VersionRow.number).where(VersionRow.update_id == row.id, VersionRow.kind == "update")
            )
            if made is not None:  # it has not ended yet: its images are being deleted
                raise UpdateEnded(f"update {row.id} has made version {made} already; there is nothing left to cancel")
            row.cancel_requested = True
            if row.state == "queued":
                end(session, row, "cancelled", None, None)
            return update_of(row)

    def cancel_requested(self, update_id: str) -> bool:
        with self._database.read() as session:
            return found(session, update_id).cancel_requested

    def purged(self, update_id: str, receipt: dict[str, Any]) -> None:
        """The first receipt stays: whoever deletes again after a crash finds nothing any more."""
        with self._database.write() as session:
            row = locked(session, update_id)
            if row.purged_at is None:
                row.purged_at, row.receipt = now(), finite(receipt)

    def events(self, update_id: str, after: int = 0, limit: int = 500) -> _Events:
        wanted = select(EventRow).where(EventRow.update_id == printable(update_id), EventRow.id > min(after, 2**62))
        with self._database.read() as session:
            return [event_of(row) for row in session.scalars(wanted.order_by(EventRow.id).limit(limit))]

    def unfinished(self) -> _Ids:
        """Queued and running, oldest first."""
        return self._ids(UpdateRow.state.in_(UNFINISHED))

    def abandoned(self, seconds: float) -> _Ids:
        """Running, but without a sign of life for so long: their worker is gone."""
        before = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="microseconds")
        return self._ids(UpdateRow.state == "running", UpdateRow.heartbeat_at < before.replace("+00:00", "Z"))

    def unpurged(self) -> _Ids:
        """Ended, but with images that may still be there. Oldest first."""
        return self._ids(UpdateRow.state.in_(ENDED), UpdateRow.purged_at.is_(None))

    def counts(self) -> dict[State, int]:
        with self._database.read() as session:
            rows = session.execute(select(UpdateRow.state, func.count()).group_by(UpdateRow.state)).all()
        counted = {row[0]: row[1] for row in rows}
        return {state: counted.get(state, 0) for state in _STATES}

    def pending_classes(self) -> set[str]:
        """Names in updates that have not ended yet."""
        with self._database.read() as session:
            return pending_names(session)

    def _ids(self, *conditions: ColumnElement[bool]) -> _Ids:
        with self._database.read() as session:
            return list(session.scalars(select(UpdateRow.id).where(*conditions).order_by(UpdateRow.seq)))

    def _set(self, update_id: str, **values: Any) -> None:
        with self._database.write() as session:
            row = locked(session, update_id)
            for name, value in values.items():
                setattr(row, name, value)


def _of_key(session: Session, key: str) -> UpdateRow | None:
    return session.scalar(select(UpdateRow).where(UpdateRow.idempotency_key == printable(key)))


def _same(earlier: UpdateRow, fingerprint: str) -> UpdateRow:
    if earlier.fingerprint != fingerprint:
        raise IdempotencyMismatch(
            f"this Idempotency-Key came with another upload before (update {earlier.id}); choose a new key"
        )
    return earlier
