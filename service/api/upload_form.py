"""A form as large as the disk: every file of it goes straight to disk, through one block of memory."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from service.config import Settings
from service.errors import InvalidForm, TooLarge, TooManyImages, UnsupportedMediaType
from service.usecases.disk import full_disk_is_named
from service.usecases.read_upload import ReceivedFile

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks  # it exists for type checkers only

__all__ = ["Form", "receive"]

_BLOCK = 2**18  # per trip to a thread: the disk may be slow, and queries must not wait for it
_FIELD = 2**16
_TEXT = 2**26  # of all names and fields together; they are what stays in memory
_OPTIONS = 100  # fields beside one label for each image
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Form:
    """In the order in which they were sent, so that the third label belongs to the third file."""

    fields: dict[str, list[str]]
    files: list[ReceivedFile]


async def receive(request: Request, folder: Path, settings: Settings, *, block_bytes: int = _BLOCK) -> Form:
    """Files are in `folder` under names of our own. Whatever is refused, the caller removes `folder`."""
    boundary = _boundary(request)
    limit = settings.max_upload_bytes
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    with full_disk_is_named():
        folder.mkdir(parents=True, exist_ok=True)
    parts = _Parts(folder, settings)
    try:
        await _read(request, MultipartParser(boundary, parts.callbacks()), limit, block_bytes)
    except FormParserError as error:
        raise InvalidForm(f"{error}; send a multipart/form-data body, as curl -F archive=@birds.zip does") from error
    except ClientDisconnect as error:
        raise InvalidForm("the connection ended within the form; send it again") from error
    finally:
        with suppress(OSError):  # on a full disk closing fails once more, and would hide why
            parts.close()
    if not parts.ended:
        raise InvalidForm("the form ends too early: its last boundary is missing; send it again")
    return Form(parts.fields, parts.files)


async def _read(request: Request, parser: MultipartParser, limit: int, block_bytes: int) -> None:
    read = 0
    block = bytearray()
    async for chunk in request.stream():
        read += len(chunk)
        if read > limit:
            raise _too_large(limit)
        block += chunk
        if len(block) >= block_bytes:
            await run_in_threadpool(_write, parser, bytes(block))
            block.clear()
    await run_in_threadpool(_write, parser, bytes(block))


def _write(parser: MultipartParser, block: bytes) -> None:
    with full_disk_is_named():
        parser.write(block)


class _Parts:
    """What the parser finds. One part is open at a time, so one file is, too."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.fields: dict[str, list[str]] = {}
        self.files: list[ReceivedFile] = []
        self.ended = False
        self._folder = folder
        self._max_files = settings.max_upload_images
        self._field_count = self._text_bytes = self._part_bytes = 0
        self._disposition = b""
        self._key, self._value, self._text = bytearray(), bytearray(), bytearray()
        self._name = ""
        self._filename: str | None = None
        self._file: BinaryIO | None = None

    def callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._key.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._all_end,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self._disposition, self._part_bytes = b"", 0

    def _header_end(self) -> None:
        if self._key.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._key.clear()
        self._value.clear()

    def _headers_end(self) -> None:
        kind, options = parse_options_header(self._disposition)
        if kind != b"form-data" or b"name" not in options:
            raise InvalidForm('a part of the form has no name; each needs Content-Disposition: form-data; name="..."')
        self._count_text(len(self._disposition))
        self._name = _decoded(options[b"name"], "a field's name")
        self._filename = _decoded(options[b"filename"], "a file's name") if b"filename" in options else None
        if self._filename is None:
            self._field_count += 1
            if self._field_count > self._max_files + _OPTIONS:
                raise TooLarge(f"the form has more than {self._max_files + _OPTIONS} fields; send several updates")
        else:
            if len(self.files) >= self._max_files:
                raise TooManyImages(f"the form has more than {self._max_files} files; send several updates")
            self._file = self._path().open("xb")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._part_bytes += end - start
        if self._file is not None:
            self._file.write(memoryview(data)[start:end])
            return
        if self._part_bytes > _FIELD:
            raise TooLarge(f"the field {self._name!r} has more than {_FIELD} bytes; send labels as one field per file")
        self._count_text(end - start)
        self._text += data[start:end]

    def _end(self) -> None:
        if self._filename is None:
            value = _decoded(bytes(self._text), f"the field {self._name!r}", control=True)
            self.fields.setdefault(self._name, []).append(value)
            self._text.clear()
            return
        self.close()
        if self._filename or self._part_bytes:
            self.files.append(ReceivedFile(self._name, self._filename, self._path(), self._part_bytes))
        else:
            self._path().unlink()  # a browser's way to say that no file was chosen

    def _all_end(self) -> None:
        self.ended = True

    def _path(self) -> Path:
        return self._folder / f"{len(self.files) + 1:06}"

    def _count_text(self, count: int) -> None:
        self._text_bytes += count
        if self._text_bytes > _TEXT:
            raise TooLarge(f"the form's names and fields have more than {_TEXT} bytes; send several updates")


def _boundary(request: Request) -> bytes:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        shown = kind.decode("latin-1") or "a body without a content type"
        raise UnsupportedMediaType(f"{shown} is not read here; send multipart/form-data (curl -F archive=@birds.zip)")
    if not options.get(b"boundary"):
        raise InvalidForm("the content type names no boundary; let your HTTP library write the header")
    return options[b"boundary"]


def _decoded(raw: bytes, what: str, *, control: bool = False) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidForm(f"{what} is not UTF-8; send it as UTF-8") from error
    if not control and _CONTROL.search(text):
        raise InvalidForm(f"{what} holds control characters; rename it")
    return text


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body has more than {limit} bytes; send the classes in several updates")
