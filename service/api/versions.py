"""The versions in the folder, and which of them answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from service.api.dependencies import CurrentPublisher, Store
from service.api.pages import Cursor, Limit, page
from service.api.problems import problems
from service.api.schemas import VersionEntry, VersionPage
from service.domain import Version
from service.errors import InvalidPrecondition

__all__ = ["router"]

router = APIRouter(prefix="/v1/versions", tags=["versions"])

Number = Annotated[int, Path(ge=1, le=10**18, description="Number of the version", examples=[2])]
_ETAG: dict[str, Any] = {
    "headers": {"ETag": {"description": "The active version, to send as If-Match", "schema": {"type": "string"}}}
}


# Not async: these read and write files, so they belong in a thread.
@router.get("", summary="All versions", responses={200: _ETAG})
def list_versions(store: Store, response: Response, limit: Limit = 100, cursor: Cursor = None) -> VersionPage:
    active = store.active()
    numbers, next_cursor = page(store.numbers()[::-1], limit, cursor)
    response.headers["ETag"] = f'"{active or 0}"'
    entries = [_entry(store.get(number), active) for number in numbers]
    return VersionPage(data=entries, active=active, next_cursor=next_cursor)


@router.get("/{number}", summary="One version", responses=problems(404))
def get_version(store: Store, number: Number) -> VersionEntry:
    return _entry(store.get(number), store.active())


@router.post("/{number}/activate", summary="Roll back or forward", responses={200: _ETAG, **problems(400, 404, 412)})
def activate_version(
    publisher: CurrentPublisher,
    response: Response,
    number: Number,
    if_match: Annotated[
        str | None,
        Header(description="The version you believe is active. If it is not, 412 and nothing changes.", examples=["3"]),
    ] = None,
) -> VersionEntry:
    """Load the version, check every byte of it, then answer from it. Other processes on the same home follow within
    their poll interval."""
    version = publisher.activate(number, _expected(if_match))
    response.headers["ETag"] = f'"{number}"'
    return _entry(version, number)


def _expected(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix('"').removesuffix('"')
    if not text.isdecimal():
        raise InvalidPrecondition(f"If-Match must be the number of a version, such as 3, not {if_match!r}")
    return int(text)


def _entry(version: Version, active: int | None) -> VersionEntry:
    facts = asdict(version.facts) | {"parent": version.facts.parent or None}
    return VersionEntry(
        number=version.number,
        active=version.number == active,
        sha256=version.sha256,
        bytes=version.bytes,
        **facts,
    )
