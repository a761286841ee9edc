"""Questions about images. No database on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Query
from torch import Tensor

from service.api.dependencies import MODEL_VERSION, AskedModel, CurrentParts
from service.api.images import BODY, Images
from service.api.metrics import BATCH_SIZE, REQUEST_SECONDS
from service.api.problems import problems
from service.api.schemas import Classification, Classifications, Embeddings, Hit, Predicted, Search, Searches
from service.bootstrap import Parts
from service.serving.decode import decode_all
from service.serving.live import LiveModel
from service.usecases.query import answer

__all__ = ["router"]

Result = TypeVar("Result")


async def _admitted(parts: CurrentParts) -> AsyncIterator[None]:
    """Before its body is read, until its answer is sent: what waits here costs memory."""
    with parts.gate:
        yield


router = APIRouter(
    prefix="/v1",
    tags=["queries"],
    dependencies=[Depends(_admitted)],
    responses={200: MODEL_VERSION, **problems(400, 408, 409, 413, 415, 422, 503)},
)

TopK = Annotated[int, Query(ge=1, le=1000, description="How many classes to name; fewer where fewer are known")]
_BODY: dict[str, Any] = BODY


@router.post("/classify", summary="Which class is it?", openapi_extra=_BODY)
async def classify(images: Images, live: AskedModel, parts: CurrentParts, top_k: TopK = 5) -> Classifications:
    """The nearest classes of each image. One bad image refuses the whole query, and `errors` names each bad one."""
    found = await _computed(
        parts, "classify", live, images, lambda vectors: answer(live, parts.slot.names, vectors, top_k)
    )
    return Classifications(
        data=[
            Classification(
                predictions=[Predicted.model_validate(prediction) for prediction in one.predictions],
                margin=one.margin,
                version=live.version,
            )
            for one in found
        ]
    )


@router.post("/search", summary="What is stored near it?", openapi_extra=_BODY)
async def search(
    images: Images,
    live: AskedModel,
    parts: CurrentParts,
    what: Annotated[Literal["classes"], Query(description="What to rank by distance")] = "classes",
    top_k: TopK = 5,
) -> Searches:
    """Stored things by their distance to each image; for now the classes."""
    found = await _computed(
        parts, "search", live, images, lambda vectors: answer(live, parts.slot.names, vectors, top_k)
    )
    return Searches(
        data=[
            Search(hits=[Hit.model_validate(prediction) for prediction in one.predictions], version=live.version)
            for one in found
        ]
    )


@router.post("/embeddings", summary="Where is it?", openapi_extra=_BODY)
async def embeddings(images: Images, live: AskedModel, parts: CurrentParts) -> Embeddings:
    """Each image as a vector in the common space of the version. Before the classifier's own change of space, if it has
    one: distances between these vectors are those of `ncm`."""
    vectors = await _computed(parts, "embeddings", live, images, lambda vectors: vectors)
    return Embeddings(data=vectors.tolist(), dim=vectors.shape[1], version=live.version)


async def _computed(
    parts: Parts, operation: str, live: LiveModel, images: list[bytes], finish: Callable[[Tensor], Result]
) -> Result:
    """Decode, embed and `finish` in a thread of the pool."""

    def compute() -> Result:
        times = [time.perf_counter()]
        pixels = decode_all(images, live.input, parts.settings.max_pixels)
        times.append(time.perf_counter())
        vectors = live.embed(pixels)
        times.append(time.perf_counter())
        result = finish(vectors)
        times.append(time.perf_counter())
        for stage, begun, ended in zip(("decode", "embed", "search"), times, times[1:], strict=False):
            REQUEST_SECONDS.labels(operation, stage).observe(ended - begun)
        return result

    begun = time.perf_counter()
    result = await asyncio.get_running_loop().run_in_executor(parts.pool, compute)
    BATCH_SIZE.observe(len(images))
    REQUEST_SECONDS.labels(operation, "all").observe(time.perf_counter() - begun)
    return result
