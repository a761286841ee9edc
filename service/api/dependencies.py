"""What routes ask for. All async: an ordinary function would be sent to a thread for nothing."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request, Response

from service.bootstrap import Parts
from service.serving.live import LiveModel

__all__ = ["MODEL_VERSION", "CurrentModel", "CurrentParts"]

MODEL_VERSION: dict[str, Any] = {
    "headers": {
        "X-Model-Version": {"description": "The version that answered", "schema": {"type": "integer"}, "example": 3}
    }
}


async def _parts(request: Request) -> Parts:
    return request.app.state.parts


CurrentParts = Annotated[Parts, Depends(_parts)]


async def _current_model(parts: CurrentParts, response: Response) -> LiveModel:
    """Read once: whatever is swapped in meanwhile, this request ends on the version it began with."""
    live = parts.slot.current
    response.headers["X-Model-Version"] = str(live.version)
    return live


CurrentModel = Annotated[LiveModel, Depends(_current_model)]
