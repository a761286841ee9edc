"""The API process: routes, errors, and a task that follows the active version."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from service import logs
from service.api import audit, classes, health, keys, metrics, queries, updates, versions
from service.api.docs import add_docs
from service.api.guard import Guarded, check_routes
from service.api.headers import SecurityHeaders
from service.api.incoming import Incoming
from service.api.openapi import document
from service.api.patience import BodyPatience
from service.api.problems import add_handlers
from service.api.request_id import HEADER, RequestId
from service.bootstrap import Parts, assemble
from service.config import Settings, load_settings

__all__ = ["create_app", "from_environment"]

logger = logging.getLogger(__name__)

_DESCRIPTION = """\
Classifies images by the nearest class mean in an embedding space, and keeps learning new classes without keeping any
image.

1. **Add classes**: a zip or tar of `class-name/image.jpg`, two images a class or more. The answer says where to watch.

        tar -c -C birds . | curl -F archive=@- localhost:8000/v1/updates

2. **Ask**: send an image, get the nearest classes.

        curl --data-binary @photo.jpg localhost:8000/v1/classify

3. **Add more** whenever you like. Queries go on meanwhile, and the new version replaces net, translator, class means
   and index at once; a request that has begun ends on the version it began with (`X-Model-Version`).
4. **Roll back** with `POST /v1/versions/{number}/activate`.

The words that are used here: a *class* is what an image can show, such as a kind of bird. An *update* is what you send
to teach classes, and the work on it. A *version* is all that is known after an update; one is *active*: it answers.
The net turns an image into a vector, its *embedding*, and the class whose mean is nearest wins. Nothing has
to be trained for that (`regularizer=frozen`, the default). The other regularizers train the net, and then a
*translator* moves the means of the classes before, whose images are gone, to where the net would put them now.

Errors are `application/problem+json` (RFC 9457). Rely on `code`; the sentences may change.

**Keys**: none is needed on the machine itself until there is one (`zstci keys create NAME --scope admin`); from then on
send it as `Authorization: Bearer KEY`. Scopes: query < update < admin.
"""
_TAGS = [
    {"name": "queries", "description": "Ask about images. Nothing is stored, and nothing is learnt from them."},
    {"name": "updates", "description": "Teach classes: send images of them, watch the work, stop it."},
    {
        "name": "classes",
        "description": "What the active version knows. New ones come by updates.",
    },
    {"name": "versions", "description": "What was known when, which version answers, and how to go back."},
    {"name": "keys", "description": "Who may do what, and who changed what."},
    {"name": "health", "description": "For load balancers, probes and monitoring."},
]


def from_environment() -> FastAPI:
    """For uvicorn, which is given a name to import: `uvicorn --factory service.app:from_environment`."""
    logs.configure()
    return create_app(load_settings())


def create_app(settings: Settings) -> FastAPI:
    parts, incoming = assemble(settings), Incoming(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        incoming.clear_leftovers()
        await asyncio.to_thread(_first_look, parts)
        parts.keyring.start()
        parts.follower.start(settings.poll_seconds)
        yield
        await incoming.all_gone()
        await asyncio.to_thread(parts.close)

    app = FastAPI(
        title="zstci",
        version=version("zstci"),
        description=_DESCRIPTION,
        lifespan=lifespan,
        openapi_tags=_TAGS,
        docs_url=None,
        redoc_url=None,
    )
    app.router.route_class = Guarded
    app.state.parts, app.state.incoming = parts, incoming
    _add_middleware(app, parts)
    add_handlers(app)
    for noun in (queries, updates, classes, versions, keys, audit, health, metrics):
        check_routes(noun.router.routes)
        app.include_router(noun.router)
    add_docs(app)
    check_routes(app.routes)
    document(app)
    return app


def _add_middleware(app: FastAPI, parts: Parts) -> None:
    """The last one is the outermost."""
    settings = parts.settings
    app.add_middleware(BodyPatience, seconds=settings.body_seconds, stopping=parts.stopping)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-Match", "Last-Event-ID", HEADER],
            expose_headers=["ETag", "Location", "Retry-After", "X-Model-Version", HEADER],
        )
    app.add_middleware(RequestId)
    app.add_middleware(SecurityHeaders)


def _first_look(parts: Parts) -> None:
    """Before the first request, if the database lets us. The threads of follower and keyring go on, and tell of what is
    wrong; without keys nobody is let in who needs one."""
    for look in (parts.follower.refresh, parts.keyring.refresh):
        try:
            look()
        except Exception as error:
            logger.warning("Started without", extra={"action": "started_without", "reason": str(error)})
