"""The classes that the live version knows."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.dependencies import MODEL_VERSION, CurrentModel
from service.api.pages import Cursor, Limit, page
from service.api.problems import problems
from service.api.schemas import ClassEntry, ClassPage
from service.errors import UnknownClass
from service.serving.live import LiveModel

__all__ = ["router"]

router = APIRouter(prefix="/v1/classes", tags=["classes"])


@router.get("", summary="All classes", responses={200: MODEL_VERSION, **problems(503)})
async def list_classes(live: CurrentModel, limit: Limit = 100, cursor: Cursor = None) -> ClassPage:
    positions, next_cursor = page(range(len(live.index)), limit, cursor)
    return ClassPage(data=[_entry(live, position) for position in positions], next_cursor=next_cursor)


@router.get("/{class_id}", summary="One class", responses={200: MODEL_VERSION, **problems(404, 503)})
async def get_class(live: CurrentModel, class_id: str) -> ClassEntry:
    ids = live.snapshot.prototypes.ids
    if class_id not in ids:
        raise UnknownClass(f"version {live.version} knows no class {class_id!r}")
    return _entry(live, ids.index(class_id))


def _entry(live: LiveModel, position: int) -> ClassEntry:
    prototypes = live.snapshot.prototypes
    name = prototypes.ids[position]
    return ClassEntry(id=name, name=name, images=int(prototypes.counts[position]), hops=int(prototypes.hops[position]))
