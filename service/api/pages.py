"""Long lists in pages: `?limit=&cursor=` -> `{data, next_cursor}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Query

__all__ = ["Cursor", "Limit", "page"]

Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=1000, description="Most entries on a page", examples=[100])]
Cursor = Annotated[
    str | None,
    Query(
        pattern=r"^[0-9]{1,18}$",
        description="`next_cursor` of the page before; leave it out to start",
        examples=["100"],
    ),
]


def page(items: Sequence[Item], limit: int, cursor: str | None) -> tuple[Sequence[Item], str | None]:
    """The entries behind the cursor, and the next cursor."""
    start = int(cursor or 0)
    end = start + limit
    return items[start:end], str(end) if end < len(items) else None
