"""What the changes of an update's row have in common: find and lock it, tell what happened, end it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.domain import EventKind, Failure, State
from service.errors import AttemptOver, ClassExists, UnknownUpdate
from service.storage.rows import printable
from service.storage.tables import EventRow, UpdateRow
from service.storage.times import now
from zstci.errors import Stopped

__all__ = [
    "UNFINISHED",
    "end",
    "found",
    "is_current",
    "locked",
    "pending_names",
    "require_current",
    "require_free",
    "require_wanted",
    "tell",
]

UNFINISHED: tuple[State, ...] = ("queued", "running")


def found(session: Session, update_id: str, lock: bool = False) -> UpdateRow:
    # Ids come from addresses that anybody may type, so they may hold what PostgreSQL cannot even compare.
    wanted = select(UpdateRow).where(UpdateRow.id == printable(update_id))
    row = session.scalar(wanted.with_for_update() if lock else wanted)
    if row is None:
        raise UnknownUpdate(f"no update {printable(update_id)}; GET /v1/updates lists them")
    return row


def locked(session: Session, update_id: str) -> UpdateRow:
    """Nobody else changes it until the end of the transaction. SQLite needs no lock: it has one writer at a time."""
    return found(session, update_id, lock=True)


def is_current(row: UpdateRow, attempt: int) -> bool:
    return row.state == "running" and row.attempt == attempt


def require_current(row: UpdateRow, attempt: int) -> UpdateRow:
    """For what an attempt may do only as long as nobody else has begun a newer one."""
    if not is_current(row, attempt):
        raise AttemptOver(f"attempt {attempt} of update {row.id} is over: it is {row.state}, in attempt {row.attempt}")
    return row


def require_wanted(row: UpdateRow) -> None:
    if row.cancel_requested:
        raise Stopped("stopped on request")


def tell(session: Session, row: UpdateRow, kind: EventKind, data: dict[str, Any]) -> None:
    session.add(EventRow(update_id=row.id, attempt=row.attempt, kind=kind, data=data, created_at=now()))
    # At once: the order of the ids is that of the calls.
    session.flush()


def end(session: Session, row: UpdateRow, state: State, version: int | None, failure: Failure | None) -> None:
    row.state, row.version, row.ended_at, row.eta_seconds = state, version, now(), None
    if state == "succeeded":
        row.stage, row.progress = "ended", 1.0
    if failure is not None:
        failure = Failure(failure.code, printable(failure.detail))
        row.error_code, row.error_detail = failure.code, failure.detail
    tell(session, row, "state", {"state": state})
    tell(session, row, "done", {"state": state, "version": version, "error": failure and asdict(failure)})


def require_free(session: Session, classes: Sequence[str]) -> None:
    taken = sorted(pending_names(session) & set(classes))
    if taken:
        raise ClassExists(
            f"{', '.join(taken[:5])}: in an update that has not ended; send on_existing_class=merge to add to what "
            "it brings, or use another name"
        )


def pending_names(session: Session) -> set[str]:
    """Names of classes in updates that have not ended yet."""
    wanted = select(UpdateRow.classes).where(UpdateRow.state.in_(UNFINISHED))
    return {name for names in session.scalars(wanted) for name in names}
