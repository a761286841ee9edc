"""Questions about images. No database on the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from service.api.body_budget import counted
from service.api.dependencies import MODEL_VERSION
from service.api.guard import Guarded, Handler
from service.api.images import BODY, read_images
from service.api.metrics import BATCH_SIZE, REQUEST_SECONDS
from service.api.problem_examples import QUERY
from service.api.problems import problems
from service.api.schemas import Classifications, Embeddings, Searches
from service.bootstrap import Parts
from service.domain import Prediction
from service.errors import TooLate
from service.serving.decode import decode_all
from service.serving.engine import Vectors
from service.serving.live import LiveModel
from service.usecases.disk import full_disk_is_named
from service.usecases.query import answer

__all__ = ["router"]


class _Query(Guarded):
    def handler_behind_the_guard(self) -> Handler:
        """Whoever asks without a query string, as most do, takes the defaults: for FastAPI to find that out costs as
        much as all the rest around the net."""
        handle, endpoint = super().handler_behind_the_guard(), self.endpoint

        async def handle_quickly(request: Request) -> Response:
            response: Response = await (handle(request) if request.scope["query_string"] else endpoint(request))
            return response

        return handle_quickly


router = APIRouter(
    prefix="/v1",
    tags=["queries"],
    route_class=_Query,
    responses={200: MODEL_VERSION, **problems(*QUERY)},
)

TopK = Annotated[
    int, Query(ge=1, le=1000, description="How many classes to name; fewer where fewer are known", examples=[5])
]
AskedVersion = Annotated[
    int | None,
    Query(
        ge=1,
        le=10**18,
        description="Answer from this version, if it is still loaded; the last two are. Left out: from the active one",
        examples=[3],
    ),
]
_BODY: dict[str, Any] = BODY
_Finish = Callable[[Parts, LiveModel, Vectors], dict[str, Any]]


@router.post("/classify", summary="Which class is it?", response_model=Classifications, openapi_extra=_BODY)
async def classify(request: Request, version: AskedVersion = None, top_k: TopK = 5) -> Response:
    """The nearest classes of each image, with scores. One bad image refuses the whole query, and `errors` names
    each bad one."""

    def finish(parts: Parts, live: LiveModel, vectors: Vectors) -> dict[str, Any]:
        found = answer(live, parts.slot.names, vectors, top_k)
        return {
            "data": [
                {
                    "predictions": [_hit(one) | {"score": one.score} for one in image.predictions],
                    "margin": image.margin,
                    "version": live.version,
                }
                for image in found
            ]
        }

    return await _answered("classify", request, version, finish)


@router.post("/search", summary="Which classes are near it, by distance?", response_model=Searches, openapi_extra=_BODY)
async def search(
    request: Request,
    version: AskedVersion = None,
    what: Annotated[
        Literal["classes"], Query(description="What to rank by distance", examples=["classes"])
    ] = "classes",
    top_k: TopK = 5,
) -> Response:
    """As classify, for who wants distances alone and long lists: no scores, no margin. For now classes are all that is
    stored, so `what` has one value."""

    def finish(parts: Parts, live: LiveModel, vectors: Vectors) -> dict[str, Any]:
        found = answer(live, parts.slot.names, vectors, top_k)
        hits = [[_hit(one) for one in image.predictions] for image in found]
        return {"data": [{"hits": nearest, "version": live.version} for nearest in hits]}

    return await _answered("search", request, version, finish)


@router.post("/embeddings", summary="The image as a vector", response_model=Embeddings, openapi_extra=_BODY)
async def embeddings(request: Request, version: AskedVersion = None) -> Response:
    """Each image as a vector in the common space of the version. Before the classifier's own change of space, if it has
    one: distances between these vectors are those of `ncm`."""

    def finish(parts: Parts, live: LiveModel, vectors: Vectors) -> dict[str, Any]:
        return {"data": vectors.tolist(), "dim": vectors.shape[1], "version": live.version}

    return await _answered("embeddings", request, version, finish)


async def _answered(operation: str, request: Request, version: int | None, finish: _Finish) -> Response:
    """Admitted before its body is read, until it is computed: what waits here costs memory."""
    parts: Parts = request.app.state.parts
    with parts.gate, counted(request, parts.bodies) as body, full_disk_is_named():
        images = await read_images(body, parts.settings)
        # Read once: whatever is swapped in meanwhile, this query ends on it.
        live = parts.slot.current if version is None else parts.slot.get(version)
        content = await _computed(operation, parts, live, images, finish)
    return Response(content, media_type="application/json", headers={"X-Model-Version": str(live.version)})


async def _computed(operation: str, parts: Parts, live: LiveModel, images: list[bytes], finish: _Finish) -> bytes:
    """All of it in a thread of the pool, the JSON too: the event loop has sockets to serve."""
    begun = time.perf_counter()

    def compute() -> bytes:
        times = [time.perf_counter()]
        _check_deadline(times[0] - begun, parts.settings.query_seconds)
        pixels = decode_all(images, live.input, parts.settings.max_pixels)
        times.append(time.perf_counter())
        vectors = live.embed(pixels)
        times.append(time.perf_counter())
        content = _json(finish(parts, live, vectors))
        times.append(time.perf_counter())
        for stage, before, after in zip(("decode", "embed", "search"), times, times[1:], strict=False):
            REQUEST_SECONDS.labels(operation, stage).observe(after - before)
        return content

    parts.pool.widen(live.engine.together)
    content = await asyncio.get_running_loop().run_in_executor(parts.pool, compute)
    BATCH_SIZE.observe(len(images))
    REQUEST_SECONDS.labels(operation, "all").observe(time.perf_counter() - begun)
    return content


def _hit(one: Prediction) -> dict[str, Any]:
    """A `Hit` of the schemas. No model is made of it: that takes as long as the search."""
    return {"class_id": one.class_id, "name": one.name, "distance": one.distance}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _check_deadline(waited: float, limit: float) -> None:
    """Whoever asked has most likely given up, and those behind have waited nearly as long."""
    if waited > limit:
        raise TooLate(f"it waited {waited:.1f} s for its turn, and {limit:g} s are the limit; ask again in a moment")
