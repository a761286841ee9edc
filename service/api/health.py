"""Is the process alive, and can it answer?"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from service.api.dependencies import MODEL_VERSION, CurrentParts
from service.api.guard import Guarded
from service.api.schemas import Check, Health, Ready

__all__ = ["router"]

router = APIRouter(tags=["health"], route_class=Guarded)

_NOT_READY: dict[str, Any] = {
    "model": Ready,
    "description": "Something needs a look",
    "content": {
        "application/json": {
            "example": {
                "status": "not ready",
                "version": 3,
                "loaded": [3, 2],
                "classes": 30,
                "checks": {
                    "database": {"ok": False, "detail": "postgresql://db/zstci does not answer"},
                    "model": {"ok": True, "detail": "version 3 answers"},
                },
            }
        }
    },
}


@router.get("/healthz", summary="Alive")
async def healthz() -> Health:
    """200 as long as the process answers at all."""
    return Health(status="ok")


@router.get("/readyz", summary="Ready", responses={200: MODEL_VERSION, 503: _NOT_READY})
async def readyz(parts: CurrentParts, response: Response) -> Ready:
    """200 when the database answers and the active version is loaded and warm. Queries are answered without a database
    as well: 503 says that something needs a look, `checks` says what."""
    version, follower = parts.slot.version, parts.follower
    model = follower.problem or (f"version {version} answers" if version else "no classes yet: POST /v1/updates")
    checks = {
        "database": Check(ok=follower.database_problem is None, detail=follower.database_problem or "reachable"),
        "model": Check(ok=version is not None and follower.problem is None, detail=model),
    }
    ready = all(check.ok for check in checks.values())
    response.status_code = 200 if ready else 503
    if version is not None:
        response.headers["X-Model-Version"] = str(version)
    classes = len(parts.slot.current.ids) if version is not None else 0
    return Ready(
        status="ready" if ready else "not ready",
        version=version,
        loaded=list(parts.slot.loaded),
        classes=classes,
        checks=checks,
    )
