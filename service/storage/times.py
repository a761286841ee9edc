"""The one form of time that rows hold."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["as_text", "now"]


def now() -> str:
    """ISO 8601 in UTC, always with six digits of fraction: of equal length, so that they sort as text."""
    return as_text(datetime.now(UTC))


def as_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
