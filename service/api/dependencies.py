"""What routes ask for. All async: an ordinary function would be sent to a thread for nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from service.config import Settings
from service.serving.live import LiveModel, ModelSlot
from service.storage.versions import VersionStore
from service.usecases.publish import Publisher

__all__ = ["MODEL_VERSION", "CurrentModel", "CurrentPublisher", "CurrentSettings", "Pool", "Slot", "Store"]

MODEL_VERSION: dict[str, Any] = {
    "headers": {"X-Model-Version": {"description": "The version that answered", "schema": {"type": "integer"}}}
}


async def _settings(request: Request) -> Settings:
    return request.app.state.parts.settings


async def _store(request: Request) -> VersionStore:
    return request.app.state.parts.store


async def _publisher(request: Request) -> Publisher:
    return request.app.state.parts.publisher


async def _pool(request: Request) -> ThreadPoolExecutor:
    return request.app.state.parts.pool


async def _slot(request: Request) -> ModelSlot:
    return request.app.state.parts.slot


CurrentSettings = Annotated[Settings, Depends(_settings)]
Store = Annotated[VersionStore, Depends(_store)]
CurrentPublisher = Annotated[Publisher, Depends(_publisher)]
Pool = Annotated[ThreadPoolExecutor, Depends(_pool)]
Slot = Annotated[ModelSlot, Depends(_slot)]


async def _current_model(slot: Slot, response: Response) -> LiveModel:
    """Read once: whatever is swapped in meanwhile, this request ends on the version it began with."""
    live = slot.current
    response.headers["X-Model-Version"] = str(live.version)
    return live


CurrentModel = Annotated[LiveModel, Depends(_current_model)]
