"""Client: one method for each thing that the service does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, Unpack, overload

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
from service.client.transport import Service, Transport
from service.client.update import Update
from service.client.upload import Source
from service.domain import State

__all__ = ["Client"]


class Client:
    """`timeout` is in seconds, for each sign of life; an upload may take longer. `tries` is how often a request is sent
    at most, where the connection breaks or the service is busy; between two of them it waits as long as Retry-After
    says, up to a minute. Close it, or use it with `with`."""

    def __init__(
        self, url: str = "http://127.0.0.1:8000", key: str | None = None, timeout: float = 60, tries: int = 5
    ) -> None:
        self._transport = Transport(Service.at(url, key, timeout, tries))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.http.close()

    @overload
    def add(self, source: Source, *, dry_run: Literal[False] = False, **options: Unpack[AddOptions]) -> Update: ...
    @overload
    def add(self, source: Source, *, dry_run: Literal[True], **options: Unpack[AddOptions]) -> DryRun: ...
    def add(self, source: Source, *, dry_run: bool = False, **options: Unpack[AddOptions]) -> Update | DryRun:
        """New classes: a folder of `class-name/image.jpg`, such an archive, or `{class: [paths]}`, with the options of
        `AddOptions`."""
        form, key = form_of(source, options), options.get("idempotency_key")
        if dry_run:
            return self._transport.run(calls.dry_run(form, key))
        return Update(self._transport, self._transport.run(calls.add(form, key)))

    @overload  # a text is a sequence of texts, so mypy sees an overlap
    def classify(  # type: ignore[overload-overlap]
        self, images: Image, k: int = 5, version: int | None = None
    ) -> Classification: ...
    @overload
    def classify(self, images: Sequence[Image], k: int = 5, version: int | None = None) -> list[Classification]: ...
    def classify(
        self, images: Image | Sequence[Image], k: int = 5, version: int | None = None
    ) -> Classification | list[Classification]:
        """The `k` nearest classes of an image, or of each of several. However many, one version answers them all."""
        found = self._transport.run(calls.classify(as_list(images), k, version))
        return found[0] if is_one(images) else found

    @overload  # a text is a sequence of texts, so mypy sees an overlap
    def search(  # type: ignore[overload-overlap]
        self, images: Image, k: int = 5, version: int | None = None
    ) -> Search: ...
    @overload
    def search(self, images: Sequence[Image], k: int = 5, version: int | None = None) -> list[Search]: ...
    def search(self, images: Image | Sequence[Image], k: int = 5, version: int | None = None) -> Search | list[Search]:
        """As `classify`, but only what is how near."""
        found = self._transport.run(calls.search(as_list(images), k, version))
        return found[0] if is_one(images) else found

    def embed(self, images: Image | Sequence[Image], version: int | None = None) -> Embeddings:
        """One vector for each image, all in the space of one version."""
        return self._transport.run(calls.embed(as_list(images), version))

    def classes(self) -> list[ClassEntry]:
        return self._transport.run(calls.classes())

    def rename(self, class_id: str, name: str) -> ClassEntry:
        """Another name for the same class; its id stays."""
        return self._transport.run(calls.rename(class_id, name))

    def delete_class(self, class_id: str, if_match: int | None = None) -> VersionEntry:
        """The new version, which does not know the class."""
        return self._transport.run(calls.delete_class(class_id, if_match))

    def versions(self) -> list[VersionEntry]:
        """Newest first."""
        return self._transport.run(calls.versions())

    def version(self, number: int) -> VersionEntry:
        return self._transport.run(calls.version(number))

    def activate(self, number: int, if_match: int | None = None) -> VersionEntry:
        """Roll back or forward. `if_match` is the version that you believe is active; if it is not, nothing changes."""
        return self._transport.run(calls.activate(number, if_match))

    def updates(self, state: State | None = None, limit: int | None = None) -> list[Update]:
        """Newest first, at most `limit`."""
        return [Update(self._transport, entry) for entry in self._transport.run(calls.updates(state, limit))]

    def update(self, update_id: str) -> Update:
        return Update(self._transport, self._transport.run(calls.update(update_id)))

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """Who changed what, newest first. Needs a key of scope admin, where keys are needed."""
        return self._transport.run(calls.audit(limit))

    def ready(self) -> Ready | None:
        """The version that answers; None where the service is up but cannot answer yet."""
        return self._transport.run(calls.ready())
