"""Reads tar files from strangers, front to back, plain or compressed.

Why not `tarfile`: it takes extended headers of any size into memory, follows chains of them by recursion, and knows
sparse files, whose size has nothing to do with their bytes. Its parser of a single header is fine, and used here.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from service.errors import BadArchive
from service.usecases.archive_entry import Entry, Meter, shown
from service.usecases.decompress import Readable

__all__ = ["read_tar"]

_BLOCK = tarfile.BLOCKSIZE
_CHUNK = 2**16
_LONGEST_EXTENSION = 2**20
_LINKS = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_CUT = "it is truncated, or neither a zip nor a tar file; pack or send it again"


class _Stream:
    def __init__(self, stream: Readable, meter: Meter) -> None:
        self._stream, self._meter = stream, meter

    def some(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._meter.add_bytes(len(content))
        return content

    def exactly(self, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            more = self.some(min(size - len(content), _CHUNK))
            if not more:
                raise BadArchive(_CUT)
            content += more
        return bytes(content)

    def skip(self, size: int) -> None:
        while size:
            skipped = len(self.some(min(size, _CHUNK)))
            if not skipped:
                raise BadArchive(_CUT)
            size -= skipped

    def drain(self) -> None:
        """A compressed file has its checksum at the very end."""
        while self.some(_CHUNK):
            pass


class _Body:
    """The bytes of one file, which are skipped if nobody wants them."""

    def __init__(self, stream: _Stream, size: int) -> None:
        self._stream, self._left, self._padding = stream, size, -size % _BLOCK

    def read(self) -> bytes:
        content = self._stream.exactly(self._left)
        self._left = 0
        return content

    def leave(self) -> None:
        self._stream.skip(self._left + self._padding)


def read_tar(readable: Readable, meter: Meter) -> Iterator[Entry]:
    stream = _Stream(readable, meter)
    name: str | None = None  # what an extended header said about the file that follows it
    size: int | None = None
    while (header := _header(stream.exactly(_BLOCK))) is not None:
        meter.add_entry()
        if header.type == tarfile.GNUTYPE_LONGNAME:
            name = _text(_extension(stream, header.size).split(b"\0")[0])
        elif header.type == tarfile.GNUTYPE_LONGLINK:
            _extension(stream, header.size)  # the link that follows is refused anyway
        elif header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
            records = _pax(_extension(stream, header.size))
            name = _text(records[b"path"]) if b"path" in records else name
            size = _number(records[b"size"]) if b"size" in records else size
        elif header.type == tarfile.XGLTYPE:
            if _pax(_extension(stream, header.size)).keys() & {b"path", b"size"}:
                raise BadArchive("it gives all its files one name or size; pack it again with tar -czf")
        else:
            yield from _file(stream, header, _own_name(header) if name is None else name, size)
            name = size = None
    stream.drain()


def _header(block: bytes) -> tarfile.TarInfo | None:
    """None at the end, which is a block of zeros."""
    if not any(block):
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise BadArchive(
            "it is neither a zip nor a tar file (plain, gz, bz2, xz), or damaged; pack it again"
        ) from error
    if header.size < 0:
        raise BadArchive("it holds a file of a negative size; pack it again")
    return header


def _file(stream: _Stream, header: tarfile.TarInfo, name: str, size: int | None) -> Iterator[Entry]:
    if header.type in _LINKS:
        raise BadArchive(
            f"{shown(name)} is a link or a device; pack plain files (tar --dereference --hard-dereference)"
        )
    if header.type == tarfile.DIRTYPE:
        yield Entry(name.rstrip("/") + "/", 0, bytes)
        return
    if header.type not in _FILES:
        raise BadArchive(f"{shown(name)} is of kind {header.type!r}, not a plain file; pack it again with tar -czf")
    body = _Body(stream, header.size if size is None else size)
    yield Entry(name, header.size if size is None else size, body.read)
    body.leave()


def _extension(stream: _Stream, size: int) -> bytes:
    if size > _LONGEST_EXTENSION:
        raise BadArchive(f"it has a header of {size} bytes; pack it again with tar -czf")
    content = stream.exactly(size)
    stream.skip(-size % _BLOCK)
    return content


def _pax(raw: bytes) -> dict[bytes, bytes]:
    """Records of the form `12 path=ab\\n`, where 12 is the length of all of it."""
    records: dict[bytes, bytes] = {}
    position = 0
    while position < len(raw) and raw[position]:
        space = raw.find(b" ", position, position + 10)
        end = position + _number(raw[position:space]) if space > 0 else 0
        key, equals, value = raw[space + 1 : end - 1].partition(b"=")
        if end > len(raw) or not equals or raw[end - 1 : end] != b"\n":
            raise BadArchive("it has a damaged header; pack or send it again")
        if key.startswith(b"GNU.sparse"):
            raise BadArchive("it holds a sparse file; pack it again without --sparse")
        records[key] = value
        position = end
    return records


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 20:
        raise BadArchive("it has a damaged header; pack or send it again")
    return int(digits)


def _own_name(header: tarfile.TarInfo) -> str:
    return _text(header.name.encode("utf-8", "surrogateescape"))


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadArchive(f"the name {raw[:100]!r} is not UTF-8; rename it or pack it on a newer system") from error
