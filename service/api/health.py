"""Is the process alive, and can it answer?"""

from __future__ import annotations

from fastapi import APIRouter

from service.api.dependencies import MODEL_VERSION, CurrentModel
from service.api.problems import problems
from service.api.schemas import Health, Ready

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Alive")
async def healthz() -> Health:
    """200 as long as the process answers at all."""
    return Health(status="ok")


@router.get("/readyz", summary="Ready", responses={200: MODEL_VERSION, **problems(503)})
async def readyz(live: CurrentModel) -> Ready:
    """200 when a version is loaded and warm; 503 as long as nothing has been learnt."""
    return Ready(status="ready", version=live.version, classes=len(live.index))
