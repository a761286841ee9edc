"""What is asked and what is made of the answers, without input and output: a call is a generator that yields requests
and is sent their responses. `Client` and `AsyncClient` run the same calls, each in its own way."""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from service.client.errors import ApiError
from service.client.images import Image, batches
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
from service.client.upload import Form
from service.domain import State
from service.errors import BadImage

__all__ = [
    "Call",
    "Request",
    "activate",
    "add",
    "audit",
    "cancel",
    "classes",
    "classify",
    "delete_class",
    "dry_run",
    "embed",
    "ready",
    "rename",
    "search",
    "update",
    "updates",
    "version",
    "versions",
]

_PAGE = 1000  # the most that the service gives at once
_PATIENCE = 3600.0  # seconds: the service decodes every image before it answers an upload

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """`repeatable`: asking twice does no more than asking once, so that a broken connection is tried again.
    `busy_is_an_answer`: whoever asks wants to know just that."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    files: list[tuple[str, tuple[str, bytes]]] | None = None
    form: Form | None = None
    repeatable: bool = False
    busy_is_an_answer: bool = False
    patience: float = 0.0  # seconds to wait for the answer, where that is longer than the client's own


Call = Generator[Request, httpx.Response, T]


def add(form: Form, key: str | None) -> Call[UpdateEntry]:
    response = yield _upload(form, key)
    return UpdateEntry.model_validate_json(response.content)


def dry_run(form: Form, key: str | None) -> Call[DryRun]:
    response = yield _upload(form, key, dry_run="true")
    return DryRun.model_validate_json(response.content)


def classify(images: Iterable[Image], k: int, version: int | None) -> Call[list[Classification]]:
    bodies = yield from _ask("/v1/classify", images, version, top_k=k)
    return [Classification.model_validate(entry) for body in bodies for entry in body["data"]]


def search(images: Iterable[Image], k: int, version: int | None) -> Call[list[Search]]:
    bodies = yield from _ask("/v1/search", images, version, what="classes", top_k=k)
    return [Search.model_validate(entry) for body in bodies for entry in body["data"]]


def embed(images: Iterable[Image], version: int | None) -> Call[Embeddings]:
    bodies = yield from _ask("/v1/embeddings", images, version)
    if not bodies:
        raise BadImage("no image was given; an empty list has no vectors")
    return Embeddings.model_validate(bodies[0] | {"data": [vector for body in bodies for vector in body["data"]]})


def classes() -> Call[list[ClassEntry]]:
    return [ClassEntry.model_validate(entry) for entry in (yield from _pages("/v1/classes"))]


def rename(class_id: str, name: str) -> Call[ClassEntry]:
    response = yield Request("PATCH", f"/v1/classes/{_quoted(class_id)}", json={"name": name}, repeatable=True)
    return ClassEntry.model_validate_json(response.content)


def delete_class(class_id: str, if_match: int | None) -> Call[VersionEntry]:
    response = yield Request("DELETE", f"/v1/classes/{_quoted(class_id)}", headers=_if_match(if_match))
    return VersionEntry.model_validate_json(response.content)


def versions() -> Call[list[VersionEntry]]:
    return [VersionEntry.model_validate(entry) for entry in (yield from _pages("/v1/versions"))]


def version(number: int) -> Call[VersionEntry]:
    response = yield _get(f"/v1/versions/{number}")
    return VersionEntry.model_validate_json(response.content)


def activate(number: int, if_match: int | None) -> Call[VersionEntry]:
    headers = _if_match(if_match)
    response = yield Request("POST", f"/v1/versions/{number}/activate", headers=headers, repeatable=if_match is None)
    return VersionEntry.model_validate_json(response.content)


def updates(state: State | None, limit: int | None) -> Call[list[UpdateEntry]]:
    found = yield from _pages("/v1/updates", limit, state=state)
    return [UpdateEntry.model_validate(entry) for entry in found]


def update(update_id: str) -> Call[UpdateEntry]:
    response = yield _get(f"/v1/updates/{_quoted(update_id)}")
    return UpdateEntry.model_validate_json(response.content)


def cancel(update_id: str) -> Call[UpdateEntry]:
    response = yield Request("POST", f"/v1/updates/{_quoted(update_id)}/cancel")
    return UpdateEntry.model_validate_json(response.content)


def audit(limit: int | None) -> Call[list[AuditEntry]]:
    return [AuditEntry.model_validate(entry) for entry in (yield from _pages("/v1/audit", limit))]


def ready() -> Call[Ready | None]:
    try:
        response = yield Request("GET", "/readyz", repeatable=True, busy_is_an_answer=True)
    except ApiError as error:
        if error.status != httpx.codes.SERVICE_UNAVAILABLE:
            raise
        return None
    return Ready.model_validate_json(response.content)


def _upload(form: Form, key: str | None, **params: str) -> Request:
    headers = {**form.headers, "Idempotency-Key": key or uuid.uuid4().hex}
    return Request(
        "POST", "/v1/updates", params=params, headers=headers, form=form, repeatable=True, patience=_PATIENCE
    )


def _ask(path: str, images: Iterable[Image], version: int | None, **params: object) -> Call[list[dict[str, Any]]]:
    """The answers of all batches, from one version: the first one's, unless the caller names one."""
    bodies: list[dict[str, Any]] = []
    done = 0
    for batch in batches(images):
        files = [("files", ("image", content)) for content in batch]
        given = params if version is None else {**params, "version": version}
        try:
            response = yield Request("POST", path, params=given, files=files, repeatable=True)
        except ApiError as error:
            raise error.behind(done) from None
        bodies.append(response.json())
        version = bodies[-1].get("version") or bodies[-1]["data"][0]["version"]
        done += len(batch)
    return bodies


def _pages(path: str, limit: int | None = None, **params: Any) -> Call[list[dict[str, Any]]]:
    """Entries of a list, page by page, at most `limit`."""
    given = {name: value for name, value in params.items() if value is not None}
    given["limit"] = min(limit or _PAGE, _PAGE)
    entries: list[dict[str, Any]] = []
    while True:
        page = (yield _get(path, given)).json()
        entries += page["data"]
        if page["next_cursor"] is None or (limit is not None and len(entries) >= limit):
            return entries[:limit]
        given["cursor"] = page["next_cursor"]


def _get(path: str, params: Mapping[str, Any] | None = None) -> Request:
    return Request("GET", path, params=dict(params or {}), repeatable=True)


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _if_match(version: int | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}
