"""AsyncClient: `Client` for programs that have an event loop. What is asked is the same: see calls.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, Unpack, overload

import anyio.to_thread

from service.client import calls
from service.client.images import Image, as_list, is_one
from service.client.models import (
    AuditEntry,
    ClassEntry,
    Classification,
    DryRun,
    Embeddings,
    Ready,
    Search,
    VersionEntry,
)
from service.client.options import AddOptions, form_of
from service.client.transport import AsyncTransport, Service
from service.client.update import AsyncUpdate
from service.client.upload import Source
from service.domain import State

__all__ = ["AsyncClient"]


class AsyncClient:
    """As `Client`: the same methods with `await`, and `async with`. Files are read in threads."""

    def __init__(
        self, url: str = "http://127.0.0.1:8000", key: str | None = None, timeout: float = 60, tries: int = 5
    ) -> None:
        self._transport = AsyncTransport(Service.at(url, key, timeout, tries))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.http.aclose()

    @overload
    async def add(
        self, source: Source, *, dry_run: Literal[False] = False, **options: Unpack[AddOptions]
    ) -> AsyncUpdate: ...
    @overload
    async def add(self, source: Source, *, dry_run: Literal[True], **options: Unpack[AddOptions]) -> DryRun: ...
    async def add(
        self, source: Source, *, dry_run: bool = False, **options: Unpack[AddOptions]
    ) -> AsyncUpdate | DryRun:
        # A folder of many images is walked here.
        form = await anyio.to_thread.run_sync(form_of, source, options)
        key = options.get("idempotency_key")
        if dry_run:
            return await self._transport.run(calls.dry_run(form, key))
        return AsyncUpdate(self._transport, await self._transport.run(calls.add(form, key)))

    @overload  # a text is a sequence of texts, so mypy sees an overlap
    async def classify(  # type: ignore[overload-overlap]
        self, images: Image, k: int = 5, version: int | None = None
    ) -> Classification: ...
    @overload
    async def classify(
        self, images: Sequence[Image], k: int = 5, version: int | None = None
    ) -> list[Classification]: ...
    async def classify(
        self, images: Image | Sequence[Image], k: int = 5, version: int | None = None
    ) -> Classification | list[Classification]:
        found = await self._transport.run(calls.classify(as_list(images), k, version))
        return found[0] if is_one(images) else found

    @overload  # a text is a sequence of texts, so mypy sees an overlap
    async def search(  # type: ignore[overload-overlap]
        self, images: Image, k: int = 5, version: int | None = None
    ) -> Search: ...
    @overload
    async def search(self, images: Sequence[Image], k: int = 5, version: int | None = None) -> list[Search]: ...
    async def search(
        self, images: Image | Sequence[Image], k: int = 5, version: int | None = None
    ) -> Search | list[Search]:
        found = await self._transport.run(calls.search(as_list(images), k, version))
        return found[0] if is_one(images) else found

    async def embed(self, images: Image | Sequence[Image], version: int | None = None) -> Embeddings:
        return await self._transport.run(calls.embed(as_list(images), version))

    async def classes(self) -> list[ClassEntry]:
        return await self._transport.run(calls.classes())

    async def rename(self, class_id: str, name: str) -> ClassEntry:
        return await self._transport.run(calls.rename(class_id, name))

    async def delete_class(self, class_id: str, if_match: int | None = None) -> VersionEntry:
        return await self._transport.run(calls.delete_class(class_id, if_match))

    async def versions(self) -> list[VersionEntry]:
        return await self._transport.run(calls.versions())

    async def version(self, number: int) -> VersionEntry:
        return await self._transport.run(calls.version(number))

    async def activate(self, number: int, if_match: int | None = None) -> VersionEntry:
        return await self._transport.run(calls.activate(number, if_match))

    async def updates(self, state: State | None = None, limit: int | None = None) -> list[AsyncUpdate]:
        return [AsyncUpdate(self._transport, entry) for entry in await self._transport.run(calls.updates(state, limit))]

    async def update(self, update_id: str) -> AsyncUpdate:
        return AsyncUpdate(self._transport, await self._transport.run(calls.update(update_id)))

    async def audit(self, limit: int | None = None) -> list[AuditEntry]:
        return await self._transport.run(calls.audit(limit))

    async def ready(self) -> Ready | None:
        return await self._transport.run(calls.ready())
