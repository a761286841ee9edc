"""The tables. A change here needs a migration: a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Double, ForeignKey, Integer, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = ["MAIN", "AuditRow", "Base", "ClassRow", "EventRow", "KeyRow", "LineRow", "UpdateRow", "VersionRow"]

MAIN = "main"  # the only line of versions so far

# SQLite counts up only what is declared INTEGER, and those have 64 bits anyway.
_BigId = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    # Times are ISO 8601 in UTC as text: they sort as text, and come back the same from both databases.
    type_annotation_map = {  # noqa: RUF012
        str: Text,
        float: Double,
        dict[str, Any]: JSON,
        list[str]: JSON,
        list[dict[str, Any]]: JSON,
    }
    # Without names SQLite could not drop a constraint in a later migration.
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class LineRow(Base):
    """Which version is active. The migration makes the one row, so that publishing always has something to lock."""

    __tablename__ = "lines"

    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int | None] = mapped_column(ForeignKey("versions.number"))
    names_revision: Mapped[int] = mapped_column(default=0)


class VersionRow(Base):
    __tablename__ = "versions"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    parent: Mapped[int | None] = mapped_column(ForeignKey("versions.number"))
    kind: Mapped[str]
    bundle: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[str]
    sha256: Mapped[str]
    bytes: Mapped[int] = mapped_column(BigInteger)
    facts: Mapped[dict[str, Any]]
    update_id: Mapped[str | None]


class ClassRow(Base):
    """The name that is shown for a class. Rows stay when a class is deleted: older versions still know it."""

    __tablename__ = "classes"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    created_at: Mapped[str]


class UpdateRow(Base):
    __tablename__ = "updates"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    seq: Mapped[int] = mapped_column(_BigId, primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    state: Mapped[str] = mapped_column(index=True)
    stage: Mapped[str]
    progress: Mapped[float]
    eta_seconds: Mapped[float | None]
    attempt: Mapped[int]
    clean_stops: Mapped[int]
    options: Mapped[dict[str, Any]]
    classes: Mapped[list[str]]
    images: Mapped[int]
    rejected: Mapped[list[dict[str, Any]]]
    created_at: Mapped[str]
    started_at: Mapped[str | None]
    ended_at: Mapped[str | None]
    parent: Mapped[int | None]
    version: Mapped[int | None]
    instant_version: Mapped[int | None]
    metrics: Mapped[dict[str, Any]]
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    cancel_requested: Mapped[bool]
    purged_at: Mapped[str | None]
    receipt: Mapped[dict[str, Any]]
    idempotency_key: Mapped[str | None] = mapped_column(unique=True)
    fingerprint: Mapped[str]
    heartbeat_at: Mapped[str | None]


class EventRow(Base):
    """What happened to an update, in the order of the ids. A client that was cut off goes on after the last it saw."""

    __tablename__ = "update_events"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(_BigId, primary_key=True)
    update_id: Mapped[str] = mapped_column(ForeignKey("updates.id"), index=True)
    attempt: Mapped[int]
    kind: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[str]


class KeyRow(Base):
    """Rows stay when a key is revoked: the audit log still names it, and a service that has had a key wants one."""

    __tablename__ = "api_keys"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    seq: Mapped[int] = mapped_column(_BigId, primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    scope: Mapped[str]
    digest: Mapped[str]
    previous_digest: Mapped[str | None]
    previous_until: Mapped[str | None]
    created_at: Mapped[str]
    expires_at: Mapped[str | None]
    rotated_at: Mapped[str | None]
    revoked_at: Mapped[str | None]
    last_used_at: Mapped[str | None]


class AuditRow(Base):
    """Who changed what. Nothing points here, so that nothing is in the way of writing it."""

    __tablename__ = "audit_log"
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012

    id: Mapped[int] = mapped_column(_BigId, primary_key=True)
    at: Mapped[str]
    key_id: Mapped[str | None]
    actor: Mapped[str]
    action: Mapped[str]
    object: Mapped[str]
    request_id: Mapped[str | None]
    outcome: Mapped[str]
