"""The rows of versions, the one that says which is active, and the names of classes.

A version is published by moving one row, on the condition that it still says what the publisher built upon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.domain import Active, Facts, Version, VersionKind
from service.errors import NameTaken, UnknownClass, UnknownVersion, VersionChanged
from service.storage.database import Database
from service.storage.rows import facts_as_json, printable, version_of
from service.storage.tables import MAIN, ClassRow, LineRow, VersionRow
from service.storage.times import now
from service.storage.update_rows import locked, require_current, require_wanted

__all__ = ["NewVersion", "VersionStore"]

_LARGEST = 2**31 - 1  # of a version's number
_FEW = 1000  # ids that a statement may name; databases have limits of their own
_Page = tuple[list[Version], int | None]


@dataclass(frozen=True)
class NewVersion:
    """A version that has no number yet. Its files are in place."""

    parent: int | None
    kind: VersionKind
    bundle: str
    sha256: str
    bytes: int
    facts: Facts
    update_id: str | None = None
    attempt: int | None = None  # of the update


class VersionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def active(self) -> Active:
        with self._database.read() as session:
            line = session.get_one(LineRow, MAIN)
            return Active(line.version, line.names_revision)

    def get(self, number: int) -> Version:
        with self._database.read() as session:
            return version_of(_found(session, number))

    def by_bundle(self, key: str) -> Version | None:
        with self._database.read() as session:
            row = _of_bundle(session, key)
            return None if row is None else version_of(row)

    def list(self, limit: int, cursor: int | None = None) -> _Page:
        """Newest first, and the cursor of the next page, if there is one."""
        wanted = select(VersionRow).order_by(VersionRow.number.desc()).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(VersionRow.number < min(cursor, _LARGEST))
        with self._database.read() as session:
            rows = session.scalars(wanted).all()
        return [version_of(row) for row in rows[:limit]], rows[limit - 1].number if len(rows) > limit else None

    def publish(self, new: NewVersion, *, expected: int | None, activate: bool, names: dict[str, str]) -> Version:
        """Number it and, with `activate`, make it the active one if `expected` still is; None means that none is.

        The same bundle again gives the version that it has become: whoever publishes may have been killed just after.
        An attempt that is over publishes nothing: a worker may stand still just before this, and be replaced. Nor does
        one whose cancel was accepted: the row is locked, so from here on a cancel is refused instead.
        """
        with self._database.write() as session:
            if new.update_id is not None and new.attempt is not None:
                require_wanted(require_current(locked(session, new.update_id), new.attempt))
            active = _locked_line(session).version
            row = _of_bundle(session, new.bundle)
            if row is None:
                row = _insert(session, new)
                _add_classes(session, names)
                if activate:
                    _move(session, row.number, expected or None, active)
            return version_of(row)

    def activate(self, number: int, expected: int | None = None) -> Version:
        """With `expected` only if that one is active still; 0 means that none is."""
        with self._database.write() as session:
            active = _locked_line(session).version
            row = _found(session, number)
            _move(session, row.number, active if expected is None else expected or None, active)
            return version_of(row)

    def of_update(self, update_id: str, kind: VersionKind = "update") -> Version | None:
        """What an update has made: in the end, or as its instant part."""
        wanted = select(VersionRow).where(VersionRow.update_id == update_id, VersionRow.kind == kind)
        with self._database.read() as session:
            row = session.scalar(wanted)
            return None if row is None else version_of(row)

    def names(self, ids: Collection[str] = ()) -> dict[str, str]:
        """The shown name by class id, also of classes that the active version does not have; with `ids` at least those
        of these classes."""
        wanted = select(ClassRow.id, ClassRow.name)
        if 0 < len(ids) <= _FEW:
            wanted = wanted.where(ClassRow.id.in_([printable(class_id) for class_id in ids]))
        with self._database.read() as session:
            # Plain tuples of the connection: objects of the session take twice as long, which a million names show.
            return {row[0]: row[1] for row in session.connection().execute(wanted)}

    def ids_of(self, names: Collection[str]) -> dict[str, set[str]]:
        """The ids of the classes of these names, by name; a class that is gone keeps its name, so there may be more."""
        found: dict[str, set[str]] = {}
        with self._database.read() as session:
            for some in _batched(sorted(names), _FEW):
                wanted = select(ClassRow.id, ClassRow.name).where(ClassRow.name.in_([printable(name) for name in some]))
                for class_id, name in session.connection().execute(wanted):
                    found.setdefault(name, set()).add(class_id)
        return found

    def called(self, name: str) -> tuple[str, ...]:
        """The ids of the classes of that name."""
        wanted = select(ClassRow.id).where(ClassRow.name == printable(name)).order_by(ClassRow.id)
        with self._database.read() as session:
            return (*session.scalars(wanted),)

    def rename(self, class_id: str, name: str) -> None:
        with self._database.write() as session:
            line = _locked_line(session)
            row = session.get(ClassRow, printable(class_id))
            if row is None:
                raise UnknownClass(f"no class {printable(class_id)}; GET /v1/classes lists them")
            other = session.scalar(select(ClassRow.id).where(ClassRow.name == name, ClassRow.id != row.id).limit(1))
            if other is not None:
                # Also one that the active version does not have: a roll back must not show two of one name.
                raise NameTaken(f"class {other} is called {name!r} already, if only in other versions; rename it first")
            row.name = name
            line.names_revision += 1


def _batched(values: Iterable[str], size: int) -> Iterator[list[str]]:
    """As many as a statement may name, at a time."""
    rest = iter(values)
    while part := list(islice(rest, size)):
        yield part


def _locked_line(session: Session) -> LineRow:
    """Publishers take turns: two of them must not choose the same number. SQLite has one writer at a time anyway."""
    return session.scalars(select(LineRow).where(LineRow.name == MAIN).with_for_update()).one()


def _found(session: Session, number: int) -> VersionRow:
    row = session.get(VersionRow, number) if 0 < number <= _LARGEST else None
    if row is None:
        last = session.scalar(select(func.max(VersionRow.number)))
        raise UnknownVersion(f"no version {number}; {f'there are 1 to {last}' if last else 'there is none yet'}")
    return row


def _of_bundle(session: Session, key: str) -> VersionRow | None:
    return session.scalar(select(VersionRow).where(VersionRow.bundle == key))


def _insert(session: Session, new: NewVersion) -> VersionRow:
    number = session.scalar(select(func.coalesce(func.max(VersionRow.number), 0) + 1))
    values = vars(new) | {"number": number, "created_at": now(), "facts": facts_as_json(new.facts)}
    del values["attempt"]
    row = VersionRow(**values)
    session.add(row)
    session.flush()
    return row


def _add_classes(session: Session, names: dict[str, str]) -> None:
    """Those that are there keep the name that somebody may have given them since."""
    known: set[str] = set()
    for some in _batched(names, _FEW):
        known.update(session.scalars(select(ClassRow.id).where(ClassRow.id.in_(some))))
    session.add_all(ClassRow(id=key, name=name, created_at=now()) for key, name in names.items() if key not in known)
    session.flush()


def _move(session: Session, number: int, expected: int | None, active: int | None) -> None:
    """Compare and set. The condition is in the statement, so that it holds even without the lock."""
    here = update(LineRow).where(LineRow.name == MAIN, LineRow.version.is_not_distinct_from(expected))
    if session.connection().execute(here.values(version=number)).rowcount == 0:
        raise VersionChanged(f"version {active or 0} is active by now, not {expected or 0}; look at it and try again")
