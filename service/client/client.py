"""Client: one method for each thing that the service does."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, Self, TypedDict, Unpack, overload
from urllib.parse import quote

import httpx

from service.client.errors import ApiError
from service.client.images import Image, batches, is_one
from service.client.models import (
    AuditEntry,
    ClassEntry,
    Classification,
    DryRun,
    Embeddings,
    Ready,
    Search,
    UpdateEntry,
    VersionEntry,
)
from service.client.transport import Transport
from service.client.update import Update
from service.client.upload import Form, Source, archive_of
from service.domain import State
from service.errors import BadImage

__all__ = ["AddOptions", "Client"]

_PAGE = 1000  # the most that the service gives at once
_PATIENCE = 3600.0  # seconds: the service decodes every image before it answers an upload


class AddOptions(TypedDict, total=False):
    """What `Client.add` takes by name."""

    regularizer: str | None
    translator: str | None
    classifier: str | None
    preset: str | None
    on_bad_image: Literal["reject", "skip"] | None
    on_existing_class: Literal["reject", "merge"] | None
    activate: Literal["auto", "manual"] | None
    instant: bool | None
    holdout: float | None
    overrides: Mapping[str, Any] | None
    idempotency_key: str | None
    on_upload: Callable[[int, int], None] | None


class Client:
    """`timeout` is in seconds, for each sign of life; an upload may take longer. Close it, or use it with `with`."""

    def __init__(self, url: str = "http://127.0.0.1:8000", key: str | None = None, timeout: float = 60) -> None:
        self._transport = Transport(url, key, timeout)

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
    def add(
        self,
        source: Source,
        *,
        regularizer: str | None = None,
        translator: str | None = None,
        classifier: str | None = None,
        preset: str | None = None,
        on_bad_image: Literal["reject", "skip"] | None = None,
        on_existing_class: Literal["reject", "merge"] | None = None,
        activate: Literal["auto", "manual"] | None = None,
        instant: bool | None = None,
        holdout: float | None = None,
        overrides: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
        on_upload: Callable[[int, int], None] | None = None,
    ) -> Update | DryRun:
        """New classes: a folder of `class-name/image.jpg`, such an archive, or `{class: [paths]}`. What is not given is
        as the service has it by default. `overrides` are single settings, such as `{"train.epochs": 5}`.

        The key makes a repeated request the same update: give your own where your program may be started again.
        `on_upload` is told the bytes sent and the bytes in all."""
        named = {
            "regularizer": regularizer,
            "translator": translator,
            "classifier": classifier,
            "preset": preset,
            "on_bad_image": on_bad_image,
            "on_existing_class": on_existing_class,
            "activate": activate,
            "instant": instant,
            "holdout": holdout,
        }
        fields = {**(overrides or {}), **{name: value for name, value in named.items() if value is not None}}
        form = Form(fields, archive_of(source), on_upload)
        content = self._send(form, idempotency_key or uuid.uuid4().hex, dry_run)
        if dry_run:
            return DryRun.model_validate_json(content)
        return Update(self._transport, UpdateEntry.model_validate_json(content))

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
        bodies = self._ask("/v1/classify", images, version, top_k=k)
        found = [Classification.model_validate(entry) for body in bodies for entry in body["data"]]
        return found[0] if is_one(images) else found

    @overload  # a text is a sequence of texts, so mypy sees an overlap
    def search(  # type: ignore[overload-overlap]
        self, images: Image, k: int = 5, version: int | None = None
    ) -> Search: ...
    @overload
    def search(self, images: Sequence[Image], k: int = 5, version: int | None = None) -> list[Search]: ...
    def search(self, images: Image | Sequence[Image], k: int = 5, version: int | None = None) -> Search | list[Search]:
        """As `classify`, but only what is how near."""
        bodies = self._ask("/v1/search", images, version, what="classes", top_k=k)
        found = [Search.model_validate(entry) for body in bodies for entry in body["data"]]
        return found[0] if is_one(images) else found

    def embed(self, images: Image | Sequence[Image], version: int | None = None) -> Embeddings:
        """One vector for each image, all in the space of one version."""
        bodies = list(self._ask("/v1/embeddings", images, version))
        if not bodies:
            raise BadImage("no image was given; an empty list has no vectors")
        return Embeddings.model_validate(bodies[0] | {"data": [vector for body in bodies for vector in body["data"]]})

    def classes(self) -> list[ClassEntry]:
        return [ClassEntry.model_validate(entry) for entry in self._transport.pages("/v1/classes", limit=_PAGE)]

    def rename(self, class_id: str, name: str) -> ClassEntry:
        """Another name for the same class; its id stays."""
        path = f"/v1/classes/{quote(class_id, safe='')}"
        response = self._transport.request("PATCH", path, json={"name": name}, repeatable=True)
        return ClassEntry.model_validate_json(response.content)

    def delete_class(self, class_id: str, if_match: int | None = None) -> VersionEntry:
        """The new version, which does not know the class."""
        path = f"/v1/classes/{quote(class_id, safe='')}"
        response = self._transport.request("DELETE", path, headers=_if_match(if_match))
        return VersionEntry.model_validate_json(response.content)

    def versions(self) -> list[VersionEntry]:
        """Newest first."""
        return [VersionEntry.model_validate(entry) for entry in self._transport.pages("/v1/versions", limit=_PAGE)]

    def version(self, number: int) -> VersionEntry:
        return VersionEntry.model_validate_json(self._transport.request("GET", f"/v1/versions/{number}").content)

    def activate(self, number: int, if_match: int | None = None) -> VersionEntry:
        """Roll back or forward. `if_match` is the version that you believe is active; if it is not, nothing changes."""
        path = f"/v1/versions/{number}/activate"
        response = self._transport.request("POST", path, headers=_if_match(if_match), repeatable=if_match is None)
        return VersionEntry.model_validate_json(response.content)

    def updates(self, state: State | None = None, limit: int | None = None) -> list[Update]:
        """Newest first, at most `limit`."""
        entries = self._transport.pages("/v1/updates", state=state, limit=min(limit or _PAGE, _PAGE))
        return [Update(self._transport, UpdateEntry.model_validate(entry)) for entry in islice(entries, limit)]

    def update(self, update_id: str) -> Update:
        response = self._transport.request("GET", f"/v1/updates/{quote(update_id, safe='')}")
        return Update(self._transport, UpdateEntry.model_validate_json(response.content))

    def audit(self, limit: int | None = None) -> list[AuditEntry]:
        """Who changed what, newest first. Needs a key of scope admin, where keys are needed."""
        entries = self._transport.pages("/v1/audit", limit=min(limit or _PAGE, _PAGE))
        return [AuditEntry.model_validate(entry) for entry in islice(entries, limit)]

    def ready(self) -> Ready | None:
        """The version that answers; None where the service is up but cannot answer yet."""
        try:
            return Ready.model_validate_json(self._transport.request("GET", "/readyz").content)
        except ApiError as error:
            if error.status != httpx.codes.SERVICE_UNAVAILABLE:
                raise
            return None

    def _send(self, form: Form, key: str, dry_run: bool) -> bytes:
        return self._transport.request(
            "POST",
            "/v1/updates",
            params={"dry_run": "true"} if dry_run else {},
            headers={**form.headers, "Idempotency-Key": key},
            content=form,
            timeout=httpx.Timeout(self._transport.timeout, read=max(_PATIENCE, self._transport.timeout)),
            repeatable=True,
        ).content

    def _ask(
        self, path: str, images: Image | Sequence[Image], version: int | None, **params: object
    ) -> Iterator[dict[str, Any]]:
        """The answers of all batches, from one version: the first one's, unless the caller names one."""
        done = 0
        for batch in batches([images] if is_one(images) else images):  # type: ignore[list-item, arg-type]
            files = [("files", ("image", content)) for content in batch]
            given = params if version is None else {**params, "version": version}
            try:
                body = self._transport.request("POST", path, params=given, files=files, repeatable=True).json()
            except ApiError as error:
                raise error.behind(done) from None
            yield body
            version = body.get("version") or body["data"][0]["version"]
            done += len(batch)


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
