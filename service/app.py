"""The API process: routes, errors, and a task that follows the active version."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

from fastapi import FastAPI

from service import logs
from service.api import classes, health, queries, versions
from service.api.openapi import document
from service.api.problems import add_handlers
from service.api.request_id import RequestId
from service.bootstrap import Parts, assemble
from service.config import Settings, load_settings

__all__ = ["create_app", "from_environment"]

logger = logging.getLogger(__name__)

_DESCRIPTION = """\
Classifies images by the nearest class mean in an embedding space, and keeps learning new classes without keeping any
image. Learn the first classes with `zstci learn DIR`, a folder of `class-name/image.jpg`; then

    curl --data-binary @photo.jpg http://127.0.0.1:8000/v1/classify

Every answer says which version it is from (`X-Model-Version`). A new version replaces net, translator, class means and
index at once; a request that has begun ends on the version it began with.

Errors are `application/problem+json` (RFC 9457). Rely on `code`; the sentences may change.
"""


def from_environment() -> FastAPI:
    """For uvicorn, which is given a name to import: `uvicorn --factory service.app:from_environment`."""
    logs.configure()
    return create_app(load_settings())


def create_app(settings: Settings) -> FastAPI:
    parts = assemble(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await _refresh(parts)
        following = asyncio.create_task(_follow(parts))
        yield
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        parts.pool.shutdown()

    app = FastAPI(title="zstci", version=version("zstci"), description=_DESCRIPTION, lifespan=lifespan)
    app.state.parts = parts
    app.add_middleware(RequestId)
    add_handlers(app)
    for router in (queries.router, classes.router, versions.router, health.router):
        app.include_router(router)
    document(app)
    return app


async def _follow(parts: Parts) -> None:
    """A poll is the truth: it cannot be missed, and works for any number of processes."""
    while True:
        await asyncio.sleep(parts.settings.poll_seconds)
        await _refresh(parts)


async def _refresh(parts: Parts) -> None:
    try:
        await asyncio.to_thread(parts.publisher.refresh)
    except Exception:
        # Answering from the version at hand beats not answering; the next poll tries again.
        logger.exception("Active version not read", extra={"action": "active_not_read"})
