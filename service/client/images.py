"""The images of a query, in batches that a service takes at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

from service.errors import BadImage

__all__ = ["Image", "as_list", "batches", "is_one"]

Image = str | os.PathLike[str] | bytes  # a path, or the bytes of a file

_COUNT = 16
_BYTES = 64 * 2**20


def is_one(images: Image | Sequence[Image]) -> TypeGuard[Image]:
    return isinstance(images, str | bytes | os.PathLike)


def as_list(images: Image | Sequence[Image]) -> Sequence[Image]:
    return [images] if is_one(images) else images  # type: ignore[return-value]


def batches(images: Iterable[Image]) -> Iterator[list[bytes]]:
    """Files are read when their batch comes, so that any number of them fits into memory."""
    batch: list[bytes] = []
    for image in images:
        content = _read(image)
        if batch and (len(batch) == _COUNT or sum(map(len, batch)) + len(content) > _BYTES):
            yield batch
            batch = []
        batch.append(content)
    if batch:
        yield batch


def _read(image: Image) -> bytes:
    if isinstance(image, bytes):
        return image
    try:
        return Path(image).read_bytes()
    except OSError as error:
        raise BadImage(f"{image} cannot be read: {error.strerror or error}") from error
