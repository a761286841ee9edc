"""Reads zip files from strangers.

Why not `zipfile`: it holds the whole directory in memory (a million empty entries are a gigabyte), unpacks bzip2 and
LZMA without bound, and takes what the directory and the entry themselves say about it for the same thing.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

from service.errors import BadArchive
from service.usecases.archive_entry import Entry, Meter, shown

__all__ = ["MAGIC", "read_zip"]

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # of a first entry, and of the end of an empty one

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = 20  # bytes, between the two ends
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 2**16
_CHUNK = 2**16
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000  # the old way, the strong way, and a hidden directory
_STORED, _DEFLATED = 0, 8
_EXTRA_64, _EXTRA_UNICODE_NAME = 0x0001, 0x7075
_IN_EXTRA = 0xFFFFFFFF


class _Directory(NamedTuple):
    start: int
    size: int


class _Header(NamedTuple):
    """An entry, as the directory at the end of the file tells it."""

    raw_name: bytes
    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    kind: int  # of a Unix file: stat.S_IFMT, 0 if unknown


def read_zip(file: BinaryIO, meter: Meter) -> Iterator[Entry]:
    directory = _find_directory(file)
    packed = 0
    for header in _headers(file, directory):
        meter.add_entry()
        if header.kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise BadArchive(f"{shown(header.name)} is a link or a device; pack plain files only")
        packed += header.packed
        if packed > directory.start:
            raise BadArchive("its entries share their bytes, as in a zip bomb; pack it again")
        yield Entry(header.name, header.size, partial(_content, file, header, directory, meter))


def _find_directory(file: BinaryIO) -> _Directory:
    length = file.seek(0, os.SEEK_END)
    tail_start = max(0, length - _LONGEST_COMMENT - _END.size - _LOCATOR64)
    file.seek(tail_start)
    tail = file.read()
    found = tail.rfind(MAGIC[1])
    if found < 0 or found + _END.size > len(tail):
        raise BadArchive("it is a zip file without an end: truncated, so send it again")
    _, disk, first_disk, _, _, size, offset, _ = _END.unpack_from(tail, found)
    end = tail_start + found
    if tail[:found][-_LOCATOR64:].startswith(b"PK\x06\x07"):  # the numbers do not fit here, and stand before it
        end -= _LOCATOR64 + _END64.size
        _, _, _, _, disk, first_disk, _, _, size, offset = _unpack(file, _END64, end, b"PK\x06\x06")
    if disk or first_disk:
        raise BadArchive("it is one part of a split zip file; pack it as one file")
    if size + offset != end:
        raise BadArchive("something stands before its entries or is missing from them; pack it again as a plain zip")
    return _Directory(offset, size)


def _headers(file: BinaryIO, directory: _Directory) -> Iterator[_Header]:
    position, end = directory.start, directory.start + directory.size
    while position < end:
        fields = _unpack(file, _CENTRAL, position, b"PK\x01\x02")
        _, _, _, flags, method, _, _, crc, packed, size, *lengths, _, _, attributes, offset = fields
        raw_name, extra = file.read(lengths[0]), file.read(lengths[1])  # a comment follows
        position += _CENTRAL.size + sum(lengths)
        if len(raw_name) != lengths[0] or position > end:
            raise BadArchive("its directory is damaged; pack or send it again")
        extras = _extras(extra)
        name = _name(raw_name, extras)
        if flags & _ENCRYPTED:
            raise BadArchive(f"{shown(name)} is encrypted; pack it without a password")
        if method not in (_STORED, _DEFLATED):
            raise BadArchive(f"{shown(name)} is packed by method {method}; pack it as a plain zip (deflate)")
        size, packed, offset = _wide(extras, size, packed, offset)
        yield _Header(raw_name, name, method, crc, packed, size, offset, stat.S_IFMT(attributes >> 16))


def _content(file: BinaryIO, header: _Header, directory: _Directory, meter: Meter) -> bytes:
    # Python cannot even seek to some of the numbers that fit here.
    fields = _unpack(file, _LOCAL, min(header.offset, directory.start), MAGIC[0])
    _, _, flags, method, _, _, _, _, _, name_length, extra_length = fields
    start = header.offset + _LOCAL.size + name_length + extra_length
    if file.read(name_length) != header.raw_name or method != header.method or flags & _ENCRYPTED:
        raise BadArchive(f"{shown(header.name)} is another file in the directory than in its place; pack it again")
    if start + header.packed > directory.start:
        raise _damaged(header)
    file.seek(start)
    content = _stored(file, header) if header.method == _STORED else _inflated(file, header)
    meter.add_bytes(len(content))
    if len(content) != header.size or zlib.crc32(content) != header.crc:
        raise _damaged(header)
    return content


def _stored(file: BinaryIO, header: _Header) -> bytes:
    if header.packed != header.size:
        raise _damaged(header)
    return file.read(header.size)


def _inflated(file: BinaryIO, header: _Header) -> bytes:
    """At most one byte more than the header says: enough to find out that it lied."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = bytearray()
    left = header.packed
    try:
        while left and not inflater.eof and len(content) <= header.size:
            packed = file.read(min(left, _CHUNK))
            left -= len(packed)
            content += inflater.decompress(packed, header.size + 1 - len(content))
    except zlib.error as error:
        raise _damaged(header) from error
    if not inflater.eof:
        raise _damaged(header)
    return bytes(content)


def _unpack(file: BinaryIO, shape: struct.Struct, position: int, magic: bytes) -> tuple[int, ...]:
    if position >= 0:
        file.seek(position)
        raw = file.read(shape.size)
        if len(raw) == shape.size and raw.startswith(magic):
            return shape.unpack(raw)
    raise BadArchive("it is a damaged zip file; pack or send it again")


def _extras(raw: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    position = 0
    while position + 4 <= len(raw):
        kind, length = struct.unpack_from("<2H", raw, position)
        found.setdefault(kind, raw[position + 4 : position + 4 + length])
        position += 4 + length
    return found


def _name(raw: bytes, extras: dict[int, bytes]) -> str:
    """UTF-8, flagged as that or not (macOS does not); a guess at an old code page would make up names of classes."""
    unicode_name = extras.get(_EXTRA_UNICODE_NAME, b"")
    if unicode_name[1:5] == struct.pack("<L", zlib.crc32(raw)):
        raw = unicode_name[5:]
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadArchive(f"the name {raw[:100]!r} is not UTF-8; pack it with a newer program") from error


def _wide(extras: dict[int, bytes], *values: int) -> Iterator[int]:
    """Numbers that do not fit into 32 bits stand in an extra field, in the same order."""
    wide = extras.get(_EXTRA_64, b"")
    for value in values:
        if value != _IN_EXTRA:
            yield value
        elif len(wide) >= 8:
            yield struct.unpack_from("<Q", wide)[0]
            wide = wide[8:]
        else:
            raise BadArchive("it is a damaged zip file; pack or send it again")


def _damaged(header: _Header) -> BadArchive:
    return BadArchive(f"{shown(header.name)} is damaged or not as long as the archive says; pack or send it again")
