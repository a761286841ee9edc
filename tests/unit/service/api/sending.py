"""Uploads for tests: digits 7, 8 and 9 are new to the service, 0 to 4 are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.testclient import TestClient

from tests.packing import tarred
from tests.pictures import picture

__all__ = ["NEW", "digits", "packed", "send"]


def digits(*classes: int, count: int = 3) -> dict[str, bytes]:
    return {f"digit-{digit}/{number}.png": picture(digit, number) for digit in classes for number in range(count)}


def packed(entries: Mapping[str, bytes]) -> dict[str, Any]:
    """For `files=`: a form with one archive."""
    return {"archive": ("upload.tar", tarred(entries))}


NEW = digits(7, 8)


def send(
    client: TestClient,
    entries: Mapping[str, bytes] | Sequence[Any] = NEW,
    *,
    key: str | None = None,
    dry_run: bool = False,
    **options: Any,
) -> Any:
    """Entries of an archive, or whole parts of a form. Options that have a dot: `**{"train.epochs": 5}`."""
    return client.post(
        "/v1/updates",
        params={"dry_run": "true"} if dry_run else {},
        files=packed(entries) if isinstance(entries, Mapping) else entries,
        data=options,
        headers={} if key is None else {"Idempotency-Key": key},
    )
