"""The images of a query: a raw body, or the files of a form."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.config import Settings
from service.errors import InvalidForm, TooLarge, TooManyImages, TooSlow, UnsupportedMediaType

__all__ = ["BODY", "limited", "read_images"]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
# An empty type is a client that sends none; the form type is what `curl --data-binary` claims by default.
_RAW = ("", "application/octet-stream", "application/x-www-form-urlencoded")

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One image as the raw body, or one or several as the files of a form, under any field name.",
        "content": {
            "image/*": _BINARY,
            "application/octet-stream": _BINARY,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"files": {"type": "array", "items": _BINARY["schema"], "minItems": 1}},
                    "required": ["files"],
                }
            },
        },
    }
}


async def read_images(request: Request, settings: Settings) -> list[bytes]:
    """In a bounded time: byte after byte, each in time, would hold a place in the queue for ever."""
    limit = settings.query_body_seconds
    try:
        async with asyncio.timeout(limit):
            return await _read(request, settings)
    except TimeoutError as error:
        raise TooSlow(f"the body took longer than {limit:g} s; send smaller images, or ask from nearer by") from error


async def _read(request: Request, settings: Settings) -> list[bytes]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "multipart/form-data":
            return await _form(limited(request, settings.max_request_bytes), settings)
        if kind in _RAW or kind.startswith("image/"):
            limit = min(settings.max_image_bytes, settings.max_request_bytes)
            return [await limited(request, limit).body()]
    except ClientDisconnect as error:
        raise InvalidForm("the connection ended within the body") from error
    raise UnsupportedMediaType(f"{kind} is not read here; send image/* as the body, or files as multipart/form-data")


def limited(request: Request, limit: int) -> Request:
    """The same request, which breaks off as soon as there is too much of it."""
    announced = request.headers.get("content-length", "")
    refusal = TooLarge(f"the body has more than {limit} bytes; send less at once")
    if announced.isdecimal() and int(announced) > limit:
        raise refusal
    read = 0

    async def receive() -> Message:
        nonlocal read
        message = await request.receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise refusal
        return message

    return Request(request.scope, receive)


async def _form(request: Request, settings: Settings) -> list[bytes]:
    try:
        async with request.form(max_files=settings.max_images) as form:
            files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
            _check(files, settings)
            return [await file.read() for file in files]
    except HTTPException as error:
        if error.detail.startswith("Too many files"):
            raise TooManyImages(
                f"the form has more than {settings.max_images} files; send them in several queries"
            ) from error
        raise InvalidForm(f"{error.detail}; send the images as files of a multipart/form-data body") from error


def _check(files: list[UploadFile], settings: Settings) -> None:
    if not files:
        raise InvalidForm("the form holds no file; with curl: -F files=@photo.jpg")
    if len(files) > settings.max_images:
        raise TooManyImages(f"{len(files)} images are more than {settings.max_images}; send them in several queries")
    for position, file in enumerate(files):
        if (file.size or 0) > settings.max_image_bytes:
            raise TooLarge(f"image {position} has more than {settings.max_image_bytes} bytes; scale it down")
