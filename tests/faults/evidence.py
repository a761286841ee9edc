"""What must be true after a fault: of an update's end, of a version, of its events, of its images."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from PIL import Image
from psycopg import sql

from tests.packing import tarred
from tests.processes import Api, Service
from zstci import Snapshot

__all__ = ["assert_unconfused", "named", "noise", "packed", "traces"]

_SIGNATURES = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP|BM....\x00\x00\x00\x00", re.DOTALL)


def noise(seed: int, count: int = 6, size: int = 24) -> list[bytes]:
    """PNG files that resemble nothing else, so that any part of them is found again."""
    random = np.random.default_rng(seed)
    images = []
    for _ in range(count):
        buffer = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(buffer, "PNG")
        images.append(buffer.getvalue())
    return images


def packed(name: str, images: list[bytes]) -> bytes:
    """A tar with one class."""
    return tarred({f"{name}/{number}.png": image for number, image in enumerate(images)})


def named(snapshot: Snapshot, api: Api) -> Snapshot:
    """With names instead of ids: those are drawn from the update's, and no two updates have the same."""
    names = {each["id"]: each["name"] for each in api.get("/v1/classes")["data"]}
    prototypes = replace(snapshot.prototypes, ids=tuple(names[i] for i in snapshot.prototypes.ids))
    return replace(snapshot, memory=replace(snapshot.memory, prototypes=prototypes))


def assert_unconfused(events: list[tuple[int, str, Any]], attempts: int) -> None:
    """Attempts follow each other, each with a progress of its own, and the end is told once."""
    ids = [number for number, _, _ in events]
    assert ids == sorted(set(ids))
    kinds = [kind for _, kind, _ in events]
    assert kinds.count("done") == 1
    assert kinds[-1] == "done"
    told = [data["attempt"] for _, _, data in events]
    assert told == sorted(told), "a dead attempt speaks on"
    assert sorted(set(told) - {0}) == list(range(1, attempts + 1))
    for attempt in set(told):
        progress = [data["progress"] for _, kind, data in events if kind == "progress" and data["attempt"] == attempt]
        assert progress == sorted(progress)


def traces(service: Service, images: list[bytes]) -> list[str]:
    """Where any of these images, a part of one, or any picture at all is found: files, databases and logs."""
    digests = {hashlib.sha256(image).digest() for image in images}
    parts = [image[start : start + 24] for image in images for start in _places(image)]
    parts += [pixels[start : start + 24] for pixels in map(_pixels, images) for start in _places(pixels)]
    found = []
    for name, content in _everything(service):
        if hashlib.sha256(content).digest() in digests:
            found.append(f"{name} is one of the images")
        found += [f"{name} holds a part of an image" for part in parts if part in content][:1]
        found += [f"{name} holds a picture of {size}" for size in _pictures(content)]
    return found


def _places(content: bytes) -> tuple[int, ...]:
    """Behind the head that all files of a kind share, and before their common end."""
    return len(content) // 4, len(content) // 2, len(content) - 64


def _pixels(image: bytes) -> bytes:
    return Image.open(io.BytesIO(image)).tobytes()


def _pictures(content: bytes) -> Iterator[tuple[int, int]]:
    """A thumbnail is another file than the image: so whatever can be opened as a picture, wherever it begins."""
    for start in _SIGNATURES.finditer(content):
        try:
            picture = Image.open(io.BytesIO(content[start.start() :]))
            picture.load()
        except Exception:
            continue
        yield picture.size


def _everything(service: Service) -> Iterator[tuple[str, bytes]]:
    """Every file of the home, logs included, and of the processes' TMPDIR, and every byte of the database."""
    folders = {service.home, service.temporary}
    if service.database_url.startswith("sqlite:///"):
        folders.add(Path(service.database_url.removeprefix("sqlite:///")).parent)
    else:
        yield from _tables(service.database_url)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            try:
                if path.is_file():
                    yield str(path.relative_to(folder)), path.read_bytes()
            except FileNotFoundError:
                continue  # a file of SQLite's that came and went


def _tables(url: str) -> Iterator[tuple[str, bytes]]:
    wanted = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    with psycopg.connect(url) as connection:
        for schema, table in connection.execute(wanted).fetchall():
            copy = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(schema, table))
            with connection.cursor() as cursor, cursor.copy(copy) as rows:
                yield f"table {schema}.{table}", b"".join(bytes(row) for row in rows)
