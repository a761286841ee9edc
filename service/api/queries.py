"""Questions about images. No database on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from service.api.dependencies import MODEL_VERSION
from service.api.guard import Guarded
from service.api.images import BODY
from service.api.metrics import BATCH_SIZE, REQUEST_SECONDS
from service.api.problem_examples import QUERY
from service.api.problems import problems
from service.api.question import Asked, Question
from service.api.schemas import Classification, Classifications, Embeddings, Hit, Predicted, Search, Searches
from service.errors import TooLate
from service.serving.decode import decode_all
from service.serving.engine import Vectors
from service.usecases.query import answer

__all__ = ["router"]


router = APIRouter(
    prefix="/v1",
    tags=["queries"],
    route_class=Guarded,
    responses={200: MODEL_VERSION, **problems(*QUERY)},
)

TopK = Annotated[int, Query(ge=1, le=1000, description="How many classes to name; fewer where fewer are known")]
_BODY: dict[str, Any] = BODY


@router.post("/classify", summary="Which class is it?", response_model=Classifications, openapi_extra=_BODY)
async def classify(asked: Asked, top_k: TopK = 5) -> Response:
    """The nearest classes of each image. One bad image refuses the whole query, and `errors` names each bad one."""

    def finish(vectors: Vectors) -> Classifications:
        found = answer(asked.live, asked.parts.slot.names, vectors, top_k)
        return Classifications(
            data=[
                Classification(
                    predictions=[Predicted.model_validate(prediction) for prediction in one.predictions],
                    margin=one.margin,
                    version=asked.live.version,
                )
                for one in found
            ]
        )

    return await _computed("classify", asked, finish)


@router.post("/search", summary="What is stored near it?", response_model=Searches, openapi_extra=_BODY)
async def search(
    asked: Asked,
    what: Annotated[Literal["classes"], Query(description="What to rank by distance")] = "classes",
    top_k: TopK = 5,
) -> Response:
    """Stored things by their distance to each image; for now the classes."""

    def finish(vectors: Vectors) -> Searches:
        found = answer(asked.live, asked.parts.slot.names, vectors, top_k)
        return Searches(
            data=[
                Search(
                    hits=[Hit.model_validate(prediction) for prediction in one.predictions], version=asked.live.version
                )
                for one in found
            ]
        )

    return await _computed("search", asked, finish)


@router.post("/embeddings", summary="Where is it?", response_model=Embeddings, openapi_extra=_BODY)
async def embeddings(asked: Asked) -> Response:
    """Each image as a vector in the common space of the version. Before the classifier's own change of space, if it has
    one: distances between these vectors are those of `ncm`."""

    def finish(vectors: Vectors) -> Embeddings:
        return Embeddings(data=vectors.tolist(), dim=vectors.shape[1], version=asked.live.version)

    return await _computed("embeddings", asked, finish)


async def _computed(operation: str, asked: Question, finish: Callable[[Vectors], BaseModel]) -> Response:
    """All of it in a thread of the pool, the JSON too: the event loop has sockets to serve."""
    parts, live, images = asked.parts, asked.live, asked.images
    begun = time.perf_counter()

    def compute() -> str:
        times = [time.perf_counter()]
        _check_deadline(times[0] - begun, parts.settings.query_seconds)
        pixels = decode_all(images, live.input, parts.settings.max_pixels)
        times.append(time.perf_counter())
        vectors = live.embed(pixels)
        times.append(time.perf_counter())
        result = finish(vectors).model_dump_json()
        times.append(time.perf_counter())
        for stage, before, after in zip(("decode", "embed", "search"), times, times[1:], strict=False):
            REQUEST_SECONDS.labels(operation, stage).observe(after - before)
        return result

    content = await asyncio.get_running_loop().run_in_executor(parts.pool, compute)
    BATCH_SIZE.observe(len(images))
    REQUEST_SECONDS.labels(operation, "all").observe(time.perf_counter() - begun)
    return Response(content, media_type="application/json", headers={"X-Model-Version": str(live.version)})


def _check_deadline(waited: float, limit: float) -> None:
    """Whoever asked has most likely given up, and those behind have waited nearly as long."""
    if waited > limit:
        raise TooLate(f"it waited {waited:.1f} s for its turn, and {limit:g} s are the limit; ask again in a moment")
