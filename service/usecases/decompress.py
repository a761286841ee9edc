"""gzip, bzip2 and xz as streams that take no more memory than asked for, whatever the file says that it needs."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

from service.errors import BadArchive

__all__ = ["Readable", "decompressed"]

_CHUNK = 2**16
_XZ_MEMORY = 128 * 2**20  # `xz -9` needs 65 MiB; the format allows 4 GiB


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def decompressed(file: BinaryIO) -> Readable:
    """The file as it is, or unpacked if its first bytes are those of a compressed one."""
    start = file.tell()
    head = file.read(6)
    file.seek(start)
    for magic, opener in _OPENERS.items():
        if head.startswith(magic):
            return _Checked(opener(file))
    return file


class _Checked:
    """Each of the three libraries has its own errors for the same fault."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk, not the archive
            raise BadArchive(f"it is truncated or damaged ({error}); pack or send it again") from error


class _Xz:
    """`lzma.LZMAFile` knows no limit of memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)

    def read(self, size: int, /) -> bytes:
        while not self._decoder.eof:
            packed = self._file.read(_CHUNK) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not packed:
                raise EOFError("the end of the stream is missing")
            content = self._decoder.decompress(packed, size)
            if content:
                return content
        return b""


_OPENERS: dict[bytes, Callable[[BinaryIO], Readable]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file, mode="rb"),
    b"BZh": lambda file: bz2.BZ2File(file),
    b"\xfd7zXZ\x00": _Xz,
    b"\x5d\x00\x00": _Xz,  # what xz wrote before it was called so
}
