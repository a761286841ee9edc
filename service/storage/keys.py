"""The rows of keys. No row holds a key, only digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from service.domain import Key, Scope, StoredKey
from service.errors import KeyRevoked, UnknownKey
from service.storage.database import Database
from service.storage.rows import printable
from service.storage.tables import KeyRow
from service.storage.times import now

__all__ = ["KeyStore"]

# The class has a method `list`, which would be meant inside of it.
_Page = tuple[list[Key], int | None]
_Keys = list[StoredKey]


class KeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Key, digest: str) -> Key:
        with self._database.write() as session:
            session.add(KeyRow(**vars(new), digest=digest))
        return new

    def list(self, limit: int, cursor: int | None = None) -> _Page:
        """Newest first, also those that are good no more, and the cursor of the next page, if there is one."""
        wanted = select(KeyRow).order_by(KeyRow.seq.desc()).limit(limit + 1)
        if cursor is not None:
            wanted = wanted.where(KeyRow.seq < min(cursor, 2**62))
        with self._database.read() as session:
            rows = session.scalars(wanted).all()
        return [_key_of(row) for row in rows[:limit]], rows[limit - 1].seq if len(rows) > limit else None

    def good(self) -> _Keys:
        """Neither revoked nor expired."""
        expires = or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > now())
        with self._database.read() as session:
            rows = session.scalars(select(KeyRow).where(KeyRow.revoked_at.is_(None), expires))
            return [StoredKey(_key_of(row), row.digest, row.previous_digest, row.previous_until) for row in rows]

    def any(self) -> bool:
        """Whether there is or ever was one."""
        with self._database.read() as session:
            return session.scalar(select(KeyRow.seq).limit(1)) is not None

    def rotate(self, key_id: str, digest: str, previous_until: str) -> Key:
        """Another secret for the same key. What was the previous one before is good no more."""
        with self._database.write() as session:
            row = _locked(session, key_id)
            if row.revoked_at is not None:
                raise KeyRevoked(f"key {row.id} was revoked at {row.revoked_at}; make a new one")
            row.previous_digest, row.previous_until = row.digest, previous_until
            row.digest, row.rotated_at = digest, now()
            return _key_of(row)

    def revoke(self, key_id: str) -> Key:
        """For good. Once more does nothing."""
        with self._database.write() as session:
            row = _locked(session, key_id)
            row.revoked_at = row.revoked_at or now()
            return _key_of(row)

    def note_used(self, used: Mapping[str, str]) -> None:
        """When each key was used last; several processes tell it in any order."""
        with self._database.write() as session:
            for key_id, at in sorted(used.items()):  # in one order, or two processes could wait for each other
                earlier = or_(KeyRow.last_used_at.is_(None), KeyRow.last_used_at < at)
                session.execute(update(KeyRow).where(KeyRow.id == key_id, earlier).values(last_used_at=at))


def _locked(session: Session, key_id: str) -> KeyRow:
    row = session.scalar(select(KeyRow).where(KeyRow.id == printable(key_id)).with_for_update())
    if row is None:
        raise UnknownKey(f"no key {printable(key_id)!r}; GET /v1/keys and `zstci keys list` name them all")
    return row


def _key_of(row: KeyRow) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        scope=cast(Scope, row.scope),
        created_at=row.created_at,
        expires_at=row.expires_at,
        rotated_at=row.rotated_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
