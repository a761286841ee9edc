"""Rows as values of the domain, and back."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, cast

from service.domain import (
    Event,
    EventKind,
    Facts,
    Failure,
    RejectedImage,
    Stage,
    State,
    Update,
    UpdateOptions,
    Version,
    VersionKind,
)
from service.storage.tables import EventRow, UpdateRow, VersionRow

__all__ = ["event_of", "facts_as_json", "finite", "printable", "row_of", "update_of", "version_of"]


def update_of(row: UpdateRow) -> Update:
    return Update(
        id=row.id,
        state=cast(State, row.state),
        stage=cast(Stage, row.stage),
        progress=row.progress,
        eta_seconds=row.eta_seconds,
        attempt=row.attempt,
        options=UpdateOptions(**row.options),
        classes=tuple(row.classes),
        images=row.images,
        rejected=tuple(RejectedImage(**image) for image in row.rejected),
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        parent=row.parent,
        version=row.version,
        instant_version=row.instant_version,
        metrics=row.metrics,
        error=None if row.error_code is None else Failure(row.error_code, row.error_detail or ""),
        cancel_requested=row.cancel_requested,
        purged_at=row.purged_at,
        receipt=row.receipt,
        clean_stops=row.clean_stops,
    )


def row_of(update: Update, idempotency_key: str | None, fingerprint: str) -> UpdateRow:
    values = {name: value for name, value in vars(update).items() if name != "error"}
    values |= {
        "options": finite(asdict(update.options)),
        "classes": list(update.classes),
        "rejected": [asdict(image) for image in update.rejected],
        "metrics": finite(update.metrics),
        "error_code": update.error.code if update.error else None,
        "error_detail": printable(update.error.detail) if update.error else None,
    }
    return UpdateRow(**values, idempotency_key=idempotency_key, fingerprint=fingerprint)


def event_of(row: EventRow) -> Event:
    return Event(row.id, row.update_id, row.attempt, cast(EventKind, row.kind), row.data, row.created_at)


def version_of(row: VersionRow) -> Version:
    return Version(
        number=row.number,
        parent=row.parent,
        kind=cast(VersionKind, row.kind),
        bundle=row.bundle,
        created_at=row.created_at,
        sha256=row.sha256,
        bytes=row.bytes,
        facts=Facts(**row.facts | {"added": tuple(row.facts["added"])}),
        update_id=row.update_id,
    )


def facts_as_json(facts: Facts) -> dict[str, Any]:
    stored: dict[str, Any] = finite(asdict(facts))
    # Translation holds numbers and words, never nothing.
    stored["translation"] = {name: value for name, value in stored["translation"].items() if value is not None}
    return stored


def finite(value: Any) -> Any:
    """With None for NaN and infinity: JSON has neither, PostgreSQL refuses them, and a client could not read them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def printable(text: str) -> str:
    """Text of foreign making: PostgreSQL stores neither NUL nor halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
