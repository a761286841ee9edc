"""A small real HTTP server that speaks the service's contract, for what a healthy service does not do on command:
be busy, cut a stream in the middle, refuse before it has read. Everything else is tested against the service itself."""

from __future__ import annotations

import io
import json
import socket
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

NAMES = {"digit-0": "zero", "digit-1": "one"}
UPDATE = "0199-update"


def update_entry(**changes: Any) -> dict[str, Any]:
    return {
        "id": UPDATE,
        "state": "queued",
        "stage": "queued",
        "progress": 0.0,
        "eta_seconds": None,
        "attempt": 0,
        "options": {
            "preset": None,
            "regularizer": "lwf",
            "translator": None,
            "classifier": None,
            "overrides": {"train.epochs": 2},
            "on_bad_image": "reject",
            "on_existing_class": "reject",
            "activate": "auto",
            "instant": False,
            "holdout": 0.2,
        },
        "classes": ["zero", "one"],
        "images": 12,
        "rejected": [],
        "created_at": "2026-11-18T03:00:00+00:00",
        "started_at": None,
        "ended_at": None,
        "parent": None,
        "version": None,
        "instant_version": None,
        "metrics": {},
        "error": None,
        "cancel_requested": False,
        "purged_at": None,
        "receipt": {},
        "something_newer": True,
        **changes,
    }


SUCCEEDED: dict[str, Any] = {
    "state": "succeeded",
    "stage": "ended",
    "progress": 1.0,
    "attempt": 1,
    "started_at": "2026-11-18T03:00:01+00:00",
    "ended_at": "2026-11-18T03:00:13.500000+00:00",
    "version": 2,
    "metrics": {"accuracy": 87.5, "held_out_images": 8},
}
FAILED: dict[str, Any] = {
    "state": "failed",
    "stage": "fine_tuning",
    "error": {"code": "diverged", "detail": "training left the finite numbers; lower the learning rate: lr=1e-5"},
}


def version_entry(number: int, active: bool = False, **changes: Any) -> dict[str, Any]:
    return {
        "number": number,
        "active": active,
        "parent": number - 1 or None,
        "kind": "update",
        "created_at": "2026-11-18T03:00:00+00:00",
        "seconds": 12.5,
        "task": number,
        "classes": 2,
        "added": ["zero"],
        "images": 12,
        "backbone": "resnet32",
        "regularizer": "lwf",
        "translator": "auto",
        "classifier": "ncm",
        "engine": "onnx",
        "translation": {},
        "metrics": {},
        "update_id": UPDATE,
        "sha256": "0" * 64,
        "bytes": 1000,
        **changes,
    }


def busy(wait: object = 0, status: int = 503) -> Response:
    return problem(status, "busy", "too much at once", {"Retry-After": str(wait)})


def problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None, errors: Any = ()) -> Response:
    body = {"type": "about:blank", "title": "T", "status": status, "detail": detail, "instance": "/", "code": code}
    body |= {"request_id": "r1", "errors": list(errors)}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


class Contract:
    """What it was asked, and what it answers next. `script` holds answers that go before the usual ones, by path."""

    def __init__(self) -> None:
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """As new: starting it anew for each test would take longer than most tests."""
        self.requests: list[Request] = []
        self.script: dict[str, list[Response]] = {}
        self.update = update_entry()
        self.fields: list[tuple[str, str]] = []
        self.files: list[str] = []
        self.archive = b""
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.cuts: list[int] = []  # a connection ends in the middle of this event
        self.active = 2

    def tar(self) -> dict[str, bytes]:
        with tarfile.open(fileobj=io.BytesIO(self.archive)) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.url.path == path]

    def app(self) -> Starlette:
        routes = [
            ("POST", "/v1/updates", self._add),
            ("GET", "/v1/updates", self._updates),
            ("GET", f"/v1/updates/{UPDATE}", self._update),
            ("POST", f"/v1/updates/{UPDATE}/cancel", self._cancel),
            ("GET", f"/v1/updates/{UPDATE}/events", self._events),
            ("POST", "/v1/classify", self._classify),
            ("POST", "/v1/search", self._search),
            ("POST", "/v1/embeddings", self._embed),
            ("GET", "/v1/classes", self._classes),
            ("PATCH", "/v1/classes/{id:path}", self._rename),
            ("DELETE", "/v1/classes/{id:path}", self._delete),
            ("GET", "/v1/versions", self._versions),
            ("GET", "/v1/versions/{n:int}", self._version),
            ("POST", "/v1/versions/{n:int}/activate", self._activate),
            ("GET", "/v1/audit", self._audit),
            ("GET", "/readyz", self._ready),
        ]
        return Starlette(routes=[Route(path, self._scripted(call), methods=[verb]) for verb, path, call in routes])

    def _scripted(self, usual: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            self.requests.append(request)
            if waiting := self.script.get(request.url.path):
                return waiting.pop(0)
            return await usual(request)

        return answer

    async def _add(self, request: Request) -> Response:
        async with request.form() as form:
            self.fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
            uploads = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
            self.files = [str(upload.filename) for upload in uploads]
            self.archive = await uploads[0].read()
        if request.query_params.get("dry_run") == "true":
            known = [{"name": "zero", "images": 6, "known": False}, {"name": "one", "images": 6, "known": True}]
            rejected = [{"name": "one/7.png", "code": "empty_image", "detail": "it has no bytes"}]
            body = {"dry_run": True, "classes": known, "images": 12, "rejected": rejected, "config": {"net": {}}}
            return JSONResponse(body)
        return JSONResponse(self.update, 202, {"Location": f"/v1/updates/{UPDATE}"})

    async def _updates(self, request: Request) -> Response:
        start, limit = int(request.query_params.get("cursor", 0)), int(request.query_params["limit"])
        entries = [update_entry(id=f"u{i}") for i in range(5)][start : start + limit]
        return JSONResponse({"data": entries, "next_cursor": str(start + limit) if start + limit < 5 else None})

    async def _update(self, request: Request) -> Response:
        return JSONResponse(self.update)

    async def _cancel(self, request: Request) -> Response:
        self.update |= {"state": "running", "cancel_requested": True}
        return JSONResponse(self.update, 202)

    async def _events(self, request: Request) -> Response:
        after = int(request.headers.get("Last-Event-ID", 0))
        cut = self.cuts.pop(0) if self.cuts else None

        async def stream() -> Any:
            yield ": a sign of life\n\n"
            for number, (kind, data) in enumerate(self.events, start=1):
                text = f"id: {number}\nevent: {kind}\ndata: {json.dumps({'attempt': 1, 'at': 'now', **data})}\n\n"
                if number == cut:
                    yield text[:-8]
                    return
                if number > after:
                    yield text

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def _answers(self, request: Request) -> tuple[int, int]:
        async with request.form() as form:
            return len(form.multi_items()), int(request.query_params.get("version", self.active))

    async def _classify(self, request: Request) -> Response:
        count, version = await self._answers(request)
        hits = [
            {"class_id": class_id, "name": name, "distance": 0.25 * (i + 1), "score": 0.75 - 0.5 * i}
            for i, (class_id, name) in enumerate(NAMES.items())
        ][: int(request.query_params["top_k"])]
        return JSONResponse({"data": [{"predictions": hits, "margin": 0.25, "version": version}] * count})

    async def _search(self, request: Request) -> Response:
        count, version = await self._answers(request)
        hits = [{"class_id": "digit-0", "name": "zero", "distance": 0.25}]
        return JSONResponse({"data": [{"hits": hits, "version": version}] * count})

    async def _embed(self, request: Request) -> Response:
        count, version = await self._answers(request)
        return JSONResponse({"data": [[0.5, -0.5]] * count, "dim": 2, "version": version})

    async def _classes(self, request: Request) -> Response:
        """One on a page."""
        start = int(request.query_params.get("cursor", 0))
        entries = [{"id": class_id, "name": name, "images": 6, "hops": 1} for class_id, name in NAMES.items()]
        return JSONResponse({"data": entries[start : start + 1], "next_cursor": "1" if start == 0 else None})

    async def _rename(self, request: Request) -> Response:
        name = (await request.json())["name"]
        return JSONResponse({"id": request.path_params["id"], "name": name, "images": 6, "hops": 0})

    async def _delete(self, request: Request) -> Response:
        return JSONResponse(version_entry(3, True, kind="delete", classes=1))

    async def _versions(self, request: Request) -> Response:
        data = [version_entry(number, number == self.active) for number in (2, 1)]
        return JSONResponse({"data": data, "active": self.active, "next_cursor": None})

    async def _version(self, request: Request) -> Response:
        number = request.path_params["n"]
        if number > 2:
            return problem(404, "unknown_version", f"no version {number}; there are 1 to 2")
        return JSONResponse(version_entry(number, number == self.active))

    async def _activate(self, request: Request) -> Response:
        if request.headers.get("If-Match", f'"{self.active}"') != f'"{self.active}"':
            return problem(412, "version_changed", f"version {self.active} is active by now")
        self.active = request.path_params["n"]
        return await self._version(request)

    async def _audit(self, request: Request) -> Response:
        """One on a page."""
        start = int(request.query_params.get("cursor", 0))
        entry = {"id": 3 - start, "at": "2026-11-18T03:00:00.000000Z", "key_id": "0123456789ab", "actor": "camera 7"}
        entry |= {"action": "class_renamed", "object": "digit-0", "request_id": "r1", "outcome": "done"}
        return JSONResponse({"data": [entry], "next_cursor": str(start + 1) if start < 2 else None})

    async def _ready(self, request: Request) -> Response:
        return JSONResponse({"status": "ready", "version": self.active, "classes": 2})


@contextmanager
def running() -> Iterator[Contract]:
    """On a free port of this machine, in a thread."""
    contract = Contract()
    server = uvicorn.Server(uvicorn.Config(contract.app(), log_level="critical", ws="none", lifespan="off"))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        contract.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield contract
        finally:
            server.should_exit = True
            thread.join()
