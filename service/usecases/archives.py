"""Zip and tar files, entry by entry: nothing is ever extracted by the names that strangers gave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from service.errors import BadArchive
from service.usecases.archive_entry import Entry, Meter, shown
from service.usecases.deadline import Timed
from service.usecases.decompress import decompressed
from service.usecases.tars import read_tar
from service.usecases.zips import MAGIC, read_zip

__all__ = ["ReceivedFile", "entries"]


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file that was sent, and where it lies. `filename` is what the sender called it; `path` is ours."""

    field: str
    filename: str
    path: Path
    bytes: int


def entries(archive: ReceivedFile, meter: Meter) -> Iterator[Entry]:
    """By the first bytes, not by the name: a file is read as what it is, and as one thing only."""
    with archive.path.open("rb") as opened:
        file = cast(BinaryIO, Timed(opened, meter.deadline))
        is_zip = file.read(4) in MAGIC
        file.seek(0)
        try:
            if is_zip:
                yield from read_zip(file, meter)
            else:
                yield from read_tar(decompressed(file), meter)
        except BadArchive as error:
            raise BadArchive(f"{shown(archive.filename)} cannot be read: {error}") from error
