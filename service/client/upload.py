"""What `add` sends: a form with one archive, never whole in memory and never on disk a second time.

A folder becomes a tar on the fly. Uncompressed, because images are compressed already; with sizes known beforehand, so
that the service can refuse at once what is too large for it. It can be read twice, so that it can be sent again.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread

from service.client.files import files_of_folder, files_of_mapping, readable
from service.errors import BadArchive, WrongLayout

__all__ = ["Archive", "Form", "Source", "TarArchive", "ZipOrTar", "archive_of"]

Source = str | os.PathLike[str] | Mapping[str, Sequence[str | os.PathLike[str]]]  # a folder, an archive, or classes

_CHUNK = 256 * 1024
_BLOCK = tarfile.BLOCKSIZE


class Archive(Protocol):
    """Can be read more than once."""

    name: str

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


def archive_of(source: Source) -> Archive:
    if isinstance(source, Mapping):
        return TarArchive("classes.tar", files_of_mapping(source))
    path = Path(source)
    with readable(path):
        if path.is_dir():
            return TarArchive(f"{path.resolve().name or 'folder'}.tar", files_of_folder(path))
        if path.is_file():
            return ZipOrTar(path)
    raise WrongLayout(f"{path} is neither a folder nor an archive; give a folder of class-name/image.jpg")


@dataclass(frozen=True)
class _Member:
    name: str  # in the archive
    path: Path
    size: int

    @property
    def header(self) -> bytes:
        """Only name and size: the same images are the same bytes, whoever sends them from wherever."""
        info = tarfile.TarInfo(self.name)
        info.size = self.size
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")

    @property
    def padding(self) -> int:
        return -self.size % _BLOCK

    def __iter__(self) -> Iterator[bytes]:
        yield self.header
        yield from _contents(self.path, self.size)
        yield bytes(self.padding)


class TarArchive:
    def __init__(self, name: str, files: Iterable[tuple[str, Path]]) -> None:
        self.name = name
        self._members = [_Member(name, path, path.stat().st_size) for name, path in files]
        self._length = sum(len(member.header) + member.size + member.padding for member in self._members) + 2 * _BLOCK

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        for member in self._members:
            yield from member
        yield bytes(2 * _BLOCK)


class ZipOrTar:
    """An archive that exists already, as it is."""

    def __init__(self, path: Path) -> None:
        self.name, self._path, self._length = path.name, path, path.stat().st_size

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        return _contents(self._path, self._length)


class Form:
    """A multipart body of known length that tells how much of it has gone."""

    def __init__(
        self, fields: Mapping[str, Any], archive: Archive, on_upload: Callable[[int, int], None] | None = None
    ) -> None:
        boundary = uuid.uuid4().hex
        parts = [f"--{boundary}\r\n{_disposition(name)}\r\n\r\n{_text(value)}\r\n" for name, value in fields.items()]
        opening = f'--{boundary}\r\n{_disposition("archive")}; filename="{_quoted(archive.name)}"\r\n'
        self._head = ("".join(parts) + opening + "Content-Type: application/octet-stream\r\n\r\n").encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self._archive, self._on_upload = archive, on_upload
        self.headers = {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(len(self))}

    def __len__(self) -> int:
        return len(self._head) + len(self._archive) + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        for chunk in self._pieces():
            yield chunk
            # The one who asks for the next piece has sent this one.
            sent = self._tell(sent + len(chunk))

    def in_threads(self) -> AsyncIterable[bytes]:
        """The same for an event loop, which does not wait for the disk."""
        return _InThreads(self._pieces, self._tell)

    def _tell(self, sent: int) -> int:
        if self._on_upload is not None:
            self._on_upload(sent, len(self))
        return sent

    def _pieces(self) -> Iterator[bytes]:
        """Headers of small images are put together with them: a write each would cost more than the bytes."""
        buffer = io.BytesIO()
        buffer.write(self._head)
        for piece in self._archive:
            buffer.write(piece)
            if buffer.tell() >= _CHUNK:
                yield buffer.getvalue()
                buffer = io.BytesIO()
        buffer.write(self._tail)
        yield buffer.getvalue()


class _InThreads:
    """Can be read more than once, as the form itself."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], tell: Callable[[int], int]) -> None:
        self._pieces, self._tell = pieces, tell

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sent, pieces = 0, self._pieces()
        while chunk := await anyio.to_thread.run_sync(next, pieces, b""):
            yield chunk
            sent = self._tell(sent + len(chunk))


def _contents(path: Path, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes: more or less would shift all that follows."""
    left = size
    try:
        with path.open("rb") as file:
            while left and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise BadArchive(f"{path} cannot be read ({error.strerror or error}); nothing was kept") from error
    if left:
        raise BadArchive(f"{path} became shorter while it was being sent; nothing was kept, try again")


def _disposition(name: str) -> str:
    return f'Content-Disposition: form-data; name="{_quoted(name)}"'


def _quoted(text: str) -> str:
    """As browsers do it; a name that is not UTF-8 on this disk is only shown, so a question mark will do."""
    safe = text.encode(errors="replace").decode()
    return safe.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _text(value: Any) -> str:
    """Text as it is, the rest as JSON: true, 0.2, null, [1, 2]."""
    return value if isinstance(value, str) else json.dumps(value)
