"""What routes ask for. All async: an ordinary function would be sent to a thread for nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response

from service.bootstrap import Parts
from service.serving.live import LiveModel

__all__ = ["MODEL_VERSION", "AskedModel", "CurrentModel", "CurrentParts"]

MODEL_VERSION: dict[str, Any] = {
    "headers": {"X-Model-Version": {"description": "The version that answered", "schema": {"type": "integer"}}}
}


async def _parts(request: Request) -> Parts:
    return request.app.state.parts


CurrentParts = Annotated[Parts, Depends(_parts)]


async def _current_model(parts: CurrentParts, response: Response) -> LiveModel:
    """Read once: whatever is swapped in meanwhile, this request ends on the version it began with."""
    return _noted(parts.slot.current, response)


async def _asked_model(
    parts: CurrentParts,
    response: Response,
    version: Annotated[
        int | None,
        Query(ge=1, le=10**18, description="Answer from this version, if it is loaded still; the last two are"),
    ] = None,
) -> LiveModel:
    return _noted(parts.slot.current if version is None else parts.slot.get(version), response)


def _noted(live: LiveModel, response: Response) -> LiveModel:
    response.headers["X-Model-Version"] = str(live.version)
    return live


CurrentModel = Annotated[LiveModel, Depends(_current_model)]
AskedModel = Annotated[LiveModel, Depends(_asked_model)]
