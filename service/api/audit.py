"""Who changed what."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.dependencies import CurrentParts
from service.api.guard import Guarded
from service.api.key_schemas import AuditItem, AuditPage
from service.api.pages import Cursor, Limit
from service.api.problem_examples import STORED
from service.api.problems import problems
from service.errors import InvalidRequest

__all__ = ["router"]

router = APIRouter(prefix="/v1/audit", tags=["keys"], route_class=Guarded)


# Not async: it asks the database, so it belongs in a thread.
@router.get("", summary="Who changed what", responses=problems(InvalidRequest, *STORED))
def list_audit(parts: CurrentParts, limit: Limit = 100, cursor: Cursor = None) -> AuditPage:
    """Updates submitted and cancelled, classes renamed and deleted, versions activated, keys made, rotated and revoked,
    and attempts at these that were refused on the way."""
    found, following = parts.audit_log.list(limit, int(cursor) if cursor else None)
    data = [AuditItem.model_validate(entry) for entry in found]
    return AuditPage(data=data, next_cursor=str(following) if following else None)
