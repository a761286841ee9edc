"""Questions about images."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query
from torch import Tensor

from service.api.dependencies import MODEL_VERSION, CurrentModel, CurrentSettings, Pool
from service.api.images import BODY, Images
from service.api.problems import problems
from service.api.schemas import Classification, Classifications, Embeddings, Hit, Predicted, Search, Searches
from service.domain import Answer
from service.serving.decode import decode_all
from service.serving.live import LiveModel
from service.usecases.query import answer

__all__ = ["router"]

Result = TypeVar("Result")

router = APIRouter(prefix="/v1", tags=["queries"], responses={200: MODEL_VERSION, **problems(400, 413, 415, 422, 503)})

TopK = Annotated[int, Query(ge=1, le=1000, description="How many classes to name; fewer where fewer are known")]
_BODY: dict[str, Any] = BODY


@router.post("/classify", summary="Which class is it?", openapi_extra=_BODY)
async def classify(
    images: Images, live: CurrentModel, settings: CurrentSettings, pool: Pool, top_k: TopK = 5
) -> Classifications:
    """The nearest classes of each image. One bad image refuses the whole query, and `errors` names each bad one."""

    def compute() -> list[Answer]:
        return answer(live, _embed(live, images, settings.max_pixels), top_k)

    return Classifications(
        data=[
            Classification(
                predictions=[Predicted.model_validate(prediction) for prediction in found.predictions],
                margin=found.margin,
                version=live.version,
            )
            for found in await _in_pool(pool, compute)
        ]
    )


@router.post("/search", summary="What is stored near it?", openapi_extra=_BODY)
async def search(
    images: Images,
    live: CurrentModel,
    settings: CurrentSettings,
    pool: Pool,
    what: Annotated[Literal["classes"], Query(description="What to rank by distance")] = "classes",
    top_k: TopK = 5,
) -> Searches:
    """Stored things by their distance to each image; for now the classes."""

    def compute() -> list[Answer]:
        return answer(live, _embed(live, images, settings.max_pixels), top_k)

    return Searches(
        data=[
            Search(hits=[Hit.model_validate(prediction) for prediction in found.predictions], version=live.version)
            for found in await _in_pool(pool, compute)
        ]
    )


@router.post("/embeddings", summary="Where is it?", openapi_extra=_BODY)
async def embeddings(images: Images, live: CurrentModel, settings: CurrentSettings, pool: Pool) -> Embeddings:
    """Each image as a vector in the common space of the version. Before the classifier's own change of space, if it has
    one: distances between these vectors are those of `ncm`."""
    vectors = await _in_pool(pool, lambda: _embed(live, images, settings.max_pixels))
    return Embeddings(data=vectors.tolist(), dim=vectors.shape[1], version=live.version)


def _embed(live: LiveModel, images: list[bytes], max_pixels: int) -> Tensor:
    return live.embed(decode_all(images, live.snapshot.config.net.input, max_pixels))


async def _in_pool(pool: ThreadPoolExecutor, compute: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(pool, compute)
