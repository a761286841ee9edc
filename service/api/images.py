"""The images of a query: a raw body, or the files of a form."""

from __future__ import annotations

import asyncio
import re
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
_KEPT_IN_MEMORY = 2**20  # bytes; of a larger form Starlette puts files on disk until all of it is there
# A form as browsers, curl and HTTP libraries write it. Whatever looks otherwise is Starlette's to read.
_PLAIN_FORM = re.compile(r"multipart/form-data; ?boundary=([A-Za-z0-9'()+_,./:=?-]{1,70})")
_PLAIN_TEXT = rb'"[ !#-\[\]-~]{0,255}"'  # printable, and nothing escaped
_PLAIN_FILE = re.compile(
    rb"\r\ncontent-disposition: form-data; name=%b; filename=%b(\r\ncontent-type: [ -~]{0,255})?"
    % (_PLAIN_TEXT, _PLAIN_TEXT),
    re.IGNORECASE,
)

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One image as the raw body, or one or several as the files of a form, under any field name.",
        "content": {
            "image/*": {**_BINARY, "example": "(bytes of photo.jpg)"},
            "application/octet-stream": {**_BINARY, "example": "(bytes of photo.jpg)"},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": _BINARY["schema"],
                            "minItems": 1,
                            "description": "Images: JPEG, PNG, WEBP, GIF or BMP",
                            "examples": [["(bytes of 1.jpg)", "(bytes of 2.jpg)"]],
                        }
                    },
                    "required": ["files"],
                },
                "example": {"files": ["(bytes of 1.jpg)", "(bytes of 2.jpg)"]},
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
    announced, plain = request.headers.get("content-length", ""), _PLAIN_FORM.fullmatch(request.headers["content-type"])
    if plain is not None and announced.isdecimal() and int(announced) <= _KEPT_IN_MEMORY:
        files = _plain_files(await request.body(), plain[1].encode())
        if files is not None:
            _check([len(file) for file in files], settings)
            return files
    try:
        async with request.form(max_files=settings.max_images) as form:
            uploads = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
            _check([upload.size or 0 for upload in uploads], settings)
            return [await upload.read() for upload in uploads]
    except HTTPException as error:
        if error.detail.startswith("Too many files"):
            raise TooManyImages(
                f"the form has more than {settings.max_images} files; send them in several queries"
            ) from error
        raise InvalidForm(f"{error.detail}; send the images as files of a multipart/form-data body") from error


def _plain_files(body: bytes, boundary: bytes) -> list[bytes] | None:
    """What the parts hold, or None where anything is unusual. Starlette's parser looks at every part and header by
    itself, which costs more than the rest of the request together."""
    opening, separator = b"--" + boundary, b"\r\n--" + boundary
    if not body.startswith(opening):
        return None
    files, begin = [], len(opening)
    while body[begin : begin + 5] not in (b"--", b"--\r\n"):
        content = body.find(b"\r\n\r\n", begin) + 4
        end = body.find(separator, content)
        if content < 4 or end < 0 or not _PLAIN_FILE.fullmatch(body, begin, content - 4):
            return None
        files.append(body[content:end])
        begin = end + len(separator)
    return files


def _check(sizes: list[int], settings: Settings) -> None:
    if not sizes:
        raise InvalidForm("the form holds no file; with curl: -F files=@photo.jpg")
    if len(sizes) > settings.max_images:
        raise TooManyImages(f"{len(sizes)} images are more than {settings.max_images}; send them in several queries")
    for position, size in enumerate(sizes):
        if size > settings.max_image_bytes:
            raise TooLarge(f"image {position} has more than {settings.max_image_bytes} bytes; scale it down")
