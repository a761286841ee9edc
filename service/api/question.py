"""What a query asks, of which version: its place in the queue, its images and the live model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from service.api.images import read_images
from service.bootstrap import Parts
from service.serving.live import LiveModel

__all__ = ["Asked", "Question"]


@dataclass(frozen=True)
class Question:
    parts: Parts
    images: list[bytes]
    live: LiveModel  # read once: whatever is swapped in meanwhile, this query ends on it


# One dependency, not one for each of the three: to solve them cost a query more than to read its body.
async def _question(
    request: Request,
    version: Annotated[
        int | None,
        Query(
            ge=1, le=10**18, description="Answer from this version, such as 3, if it is loaded still; the last two are"
        ),
    ] = None,
) -> AsyncIterator[Question]:
    """Admitted before its body is read, until its answer is sent: what waits here costs memory."""
    parts: Parts = request.app.state.parts
    with parts.gate:
        images = await read_images(request, parts.settings)
        yield Question(parts, images, parts.slot.current if version is None else parts.slot.get(version))


Asked = Annotated[Question, Depends(_question)]
