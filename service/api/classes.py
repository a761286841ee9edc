"""The classes that the live version knows."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Path

from service.api.dependencies import MODEL_VERSION, CurrentModel, CurrentParts
from service.api.guard import CurrentActor
from service.api.pages import Cursor, Limit, page
from service.api.preconditions import IfMatch, expected_version
from service.api.problem_examples import BODY, CHANGES, FILES
from service.api.problems import problems
from service.api.schemas import ClassEntry, ClassName, ClassPage, VersionEntry, version_entry
from service.api.small_body import SmallBody
from service.bootstrap import Parts
from service.errors import (
    BadClassName,
    BadRequest,
    InvalidPrecondition,
    InvalidRequest,
    LastClass,
    NameTaken,
    NoClassesYet,
    ServiceError,
    UnknownClass,
    VersionChanged,
)
from service.serving.live import LiveModel
from service.usecases.known import missing_class

__all__ = ["router"]

router = APIRouter(prefix="/v1/classes", tags=["classes"], route_class=SmallBody)

_RENAME = (*BODY, BadRequest, UnknownClass, NameTaken, BadClassName, NoClassesYet, *CHANGES)
_DELETE = (*BODY, InvalidPrecondition, UnknownClass, LastClass, VersionChanged, *CHANGES, *FILES)
ClassId = Annotated[str, Path(max_length=200, description="`id` of the class", examples=["c0123456789abcde"])]


@router.get("", summary="All classes", responses={200: MODEL_VERSION, **problems(InvalidRequest, NoClassesYet)})
async def list_classes(parts: CurrentParts, live: CurrentModel, limit: Limit = 100, cursor: Cursor = None) -> ClassPage:
    """What the active version knows, with the `id` that the calls for one class need."""
    positions, next_cursor = page(range(len(live.ids)), limit, cursor)
    return ClassPage(data=[_entry(parts, live, position) for position in positions], next_cursor=next_cursor)


@router.get(
    "/{class_id}",
    summary="One class",
    responses={200: MODEL_VERSION, **problems(UnknownClass, InvalidRequest, NoClassesYet)},
)
async def get_class(parts: CurrentParts, live: CurrentModel, class_id: ClassId) -> ClassEntry:
    """By its id, not its name: names can change. GET /v1/classes tells both."""
    return _find(parts, live, class_id)


# Not async from here on: these work with the database and with files, so they belong in a thread.
@router.patch("/{class_id}", summary="Rename a class", responses=problems(*_RENAME))
def rename_class(parts: CurrentParts, actor: CurrentActor, class_id: ClassId, change: ClassName) -> ClassEntry:
    """The id stays. The new name is shown in every version; other API processes show it within their poll interval. A
    class that only older versions have can be renamed as well; its numbers are 0 then."""
    with parts.audit.change(actor, "class_renamed", class_id):
        parts.changer.rename(class_id, change.name)
    _follow_at_once(parts)
    if class_id not in parts.slot.current.ids:
        return ClassEntry(id=class_id, name=parts.slot.name_of(class_id), images=0, hops=0)
    return _find(parts, parts.slot.current, class_id)


@router.delete("/{class_id}", summary="Delete a class", responses=problems(*_DELETE))
def delete_class(parts: CurrentParts, actor: CurrentActor, class_id: ClassId, if_match: IfMatch = None) -> VersionEntry:
    """Makes a new version without the class and answers from it at once. The version before stays, so this can be
    rolled back."""
    expected = expected_version(if_match)
    with parts.audit.change(actor, "class_deleted", class_id):
        version = parts.changer.delete(class_id, expected)
    _follow_at_once(parts)
    return version_entry(version, version.number)


def _follow_at_once(parts: Parts) -> None:
    """It has happened by now; if it cannot be seen here yet, the next poll sees it."""
    with suppress(ServiceError):
        parts.follower.refresh()


def _find(parts: Parts, live: LiveModel, class_id: str) -> ClassEntry:
    if class_id not in live.ids:
        names = parts.slot.names
        called = [i for i in live.ids if names.get(i) == class_id]
        raise missing_class(class_id, live.version, names.get(class_id), called)
    return _entry(parts, live, live.ids.index(class_id))


def _entry(parts: Parts, live: LiveModel, position: int) -> ClassEntry:
    class_id = live.ids[position]
    return ClassEntry(
        id=class_id,
        name=parts.slot.name_of(class_id),
        images=int(live.counts[position]),
        hops=int(live.hops[position]),
    )
