"""Damage by a seeded generator: the same number always gives the same bytes."""

from __future__ import annotations

import bz2
import gc
import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from service.serving.memory import give_back
from tests.packing import DIGITS, tarred, zipped
from tests.pictures import encoded

__all__ = ["ARCHIVES", "IMAGES", "archive_case", "image_case", "open_files", "resident_bytes"]

_EXTREMES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
_TAR = tarred(DIGITS)
_PHOTO = Image.fromarray(np.random.default_rng(5).integers(0, 256, (40, 56, 3), np.uint8))


def _png_mended(content: bytes) -> bytes:
    """With checksums that fit again, so that damage reaches what lies behind them."""
    mended, position = bytearray(content[:8]), 8
    while position + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, position)
        chunk = content[position + 4 : position + 8 + length]
        if len(chunk) != length + 4:
            break
        mended += struct.pack(">I", length) + chunk + struct.pack(">I", zlib.crc32(chunk))
        position += length + 12
    return bytes(mended) + content[position:]


def _tar_mended(content: bytes) -> bytes:
    mended = bytearray(content)
    for start in range(0, len(mended) - tarfile.BLOCKSIZE + 1, tarfile.BLOCKSIZE):
        block = mended[start : start + tarfile.BLOCKSIZE]
        if block[257:262] == b"ustar":
            block[148:156] = b" " * 8
            mended[start + 148 : start + 156] = b"%06o\0 " % sum(block)
    return bytes(mended)


# Each with what is done to it after the damage.
ARCHIVES: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "zip": (zipped(DIGITS), bytes),
    "stored zip": (zipped(DIGITS, zipfile.ZIP_STORED), bytes),
    "tar": (_TAR, bytes),
    "tar with its checksums": (_TAR, _tar_mended),
    "old tar with its checksums": (tarred(DIGITS, format=tarfile.GNU_FORMAT), _tar_mended),
    "tar.gz": (gzip.compress(_TAR), bytes),
    "tar.gz around damage": (_TAR, lambda content: gzip.compress(_tar_mended(content), 1)),
    "tar.bz2": (bz2.compress(_TAR), bytes),
    "tar.xz": (lzma.compress(_TAR), bytes),
}
IMAGES: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "jpeg": (encoded(_PHOTO, "JPEG", exif=Image.Exif().tobytes()), bytes),
    "progressive jpeg": (encoded(_PHOTO, "JPEG", progressive=True), bytes),
    "png": (encoded(_PHOTO, "PNG"), bytes),
    "png with its checksums": (encoded(_PHOTO.quantize(32), "PNG"), _png_mended),
    "gif": (encoded(_PHOTO.quantize(32), "GIF", save_all=True, append_images=[_PHOTO.rotate(180)]), bytes),
    "webp": (encoded(_PHOTO, "WEBP"), bytes),
    "moving webp": (encoded(_PHOTO, "WEBP", save_all=True, append_images=[_PHOTO.rotate(180)]), bytes),
    "bmp": (encoded(_PHOTO, "BMP"), bytes),
}


def archive_case(kind: str, number: int) -> bytes:
    original, mend = ARCHIVES[kind]
    return mend(_damaged(original, Random(f"{kind} {number}")))


def image_case(kind: str, number: int) -> bytes:
    original, mend = IMAGES[kind]
    return mend(_damaged(original, Random(f"{kind} {number}")))


def _damaged(content: bytes, random: Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 3, 8])):
        random.choice(_WAYS)(damaged, random)
    return bytes(damaged)


def _flip(content: bytearray, random: Random) -> None:
    if content:
        content[_place(content, random)] ^= 1 << random.randrange(8)


def _overwrite(content: bytearray, random: Random) -> None:
    start, length = _place(content, random), random.choice([1, 2, 4, 16, 200])
    content[start : start + length] = random.randbytes(length)


def _number(content: bytearray, random: Random) -> None:
    """Sizes, offsets and counts lie anywhere, in either order of bytes."""
    shape = random.choice(["<B", "<H", ">H", "<I", ">I"])
    value = random.choice(_EXTREMES) % 2 ** (8 * struct.calcsize(shape))
    start = _place(content, random)
    content[start : start + struct.calcsize(shape)] = struct.pack(shape, value)


def _remove(content: bytearray, random: Random) -> None:
    start = _place(content, random)
    del content[start : start + random.choice([1, 8, 512, 5000])]


def _repeat(content: bytearray, random: Random) -> None:
    start = _place(content, random)
    part = content[start : start + random.choice([1, 30, 512, 2000])]
    content[start:start] = part * random.choice([1, 2, 50])


def _move(content: bytearray, random: Random) -> None:
    start, target = _place(content, random), _place(content, random)
    content[target:target] = content[start : start + random.choice([8, 100, 512])]


def _cut(content: bytearray, random: Random) -> None:
    del content[_place(content, random) :]


_WAYS = [_flip, _flip, _overwrite, _number, _number, _remove, _repeat, _move, _cut]


def _place(content: bytearray, random: Random) -> int:
    """Often near an end, where headers and directories are."""
    edge = min(len(content), 200)
    spans = [(0, edge), (len(content) - edge, len(content)), (0, len(content))]
    first, last = random.choice(spans)
    return random.randrange(first, last) if last > first else 0


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes(pid: int | str = "self") -> int:
    gc.collect()
    give_back()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
