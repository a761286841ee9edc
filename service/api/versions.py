"""All versions, and which of them answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from service.api.dependencies import CurrentParts
from service.api.guard import CurrentActor, Guarded
from service.api.pages import Cursor, Limit
from service.api.preconditions import IfMatch, expected_version
from service.api.problem_examples import CHANGES, FILES, STORED, Kinds
from service.api.problems import problems
from service.api.schemas import VersionEntry, VersionPage, version_entry
from service.errors import InvalidPrecondition, InvalidRequest, UnknownVersion, VersionChanged

__all__ = ["router"]

router = APIRouter(prefix="/v1/versions", tags=["versions"], route_class=Guarded)

Number = Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the version", examples=[2])]
_ACTIVATE: Kinds = (InvalidPrecondition, UnknownVersion, VersionChanged, InvalidRequest, *CHANGES, *FILES)
_ETAG: dict[str, Any] = {
    "headers": {
        "ETag": {
            "description": "The active version, to send as If-Match",
            "schema": {"type": "string"},
            "example": '"3"',
        }
    }
}


# Not async: these ask the database, so they belong in a thread.
@router.get("", summary="All versions", responses={200: _ETAG, **problems(InvalidRequest, *STORED)})
def list_versions(parts: CurrentParts, response: Response, limit: Limit = 100, cursor: Cursor = None) -> VersionPage:
    """Newest first. Every update and every deletion of a class made one; none of them ever changes."""
    active = parts.versions.active().version
    found, following = parts.versions.list(limit, int(cursor) if cursor else None)
    response.headers["ETag"] = f'"{active or 0}"'
    entries = [version_entry(version, active) for version in found]
    return VersionPage(data=entries, active=active, next_cursor=str(following) if following else None)


@router.get("/{number}", summary="One version", responses=problems(UnknownVersion, InvalidRequest, *STORED))
def get_version(parts: CurrentParts, number: Number) -> VersionEntry:
    """What it was made of, how, and how well it does on the images that were held out."""
    return version_entry(parts.versions.get(number), parts.versions.active().version)


@router.post("/{number}/activate", summary="Roll back or forward", responses={200: _ETAG, **problems(*_ACTIVATE)})
def activate_version(
    parts: CurrentParts, actor: CurrentActor, response: Response, number: Number, if_match: IfMatch = None
) -> VersionEntry:
    """Load the version, check every byte of it, then answer from it. Other processes follow within their poll
    interval. The next update builds on it."""
    expected = expected_version(if_match)
    with parts.audit.change(actor, "version_activated", str(number)):
        version = parts.follower.activate(number, expected)
    response.headers["ETag"] = f'"{number}"'
    return version_entry(version, number)
