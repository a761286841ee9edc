"""What every test of the API looks at: was it refused properly, is it documented, has anything changed?"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any

from fastapi import FastAPI

from service.bootstrap import Parts

__all__ = ["check_documented", "everything", "refused"]

_DATABASES = ("zstci.db", "jobs.db")
_OWN_FORM = "/readyz"  # its 503 says what is not ready, in the form of its 200


def refused(response: Any, status: int, code: str) -> dict[str, Any]:
    """The problem, after a look at everything that all of them must have."""
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert response.headers["Content-Type"] == "application/problem+json"
    assert problem["type"] == f"urn:zstci:problem:{code}"
    assert problem["request_id"] == response.headers["X-Request-ID"]
    assert problem["title"]
    assert len(problem["detail"]) > 5
    return problem


def everything(parts: Parts) -> dict[str, Any]:
    """All that is stored: rows by what the stores say of them, files by their digest."""
    home = parts.settings.home
    paths = [path for path in sorted(home.rglob("*")) if not path.name.startswith(_DATABASES)]
    return {
        "versions": parts.versions.list(100),
        "active": parts.versions.active(),
        "names": parts.versions.names(),
        "updates": parts.updates.list(100),
        "loaded": parts.slot.loaded,
        "busy": (parts.gate.inside, parts.uploads.inside),
        "files": {
            str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            for path in paths
        },
    }


def check_documented(app: FastAPI, response: Any) -> None:
    """Whatever a test provokes, /docs must have announced for that call, and an error must be a problem."""
    template = next((path for path in _paths(app) if re.fullmatch(path, response.request.url.path)), None)
    operation = _paths(app)[template].get(response.request.method.lower()) if template else None
    if operation is None or response.is_redirect:
        return
    status = str(response.status_code)
    called = f"{response.request.method} {response.request.url.path}"
    responses = operation["responses"]
    assert status in responses, f"{called} answers {status}, but documents only {list(responses)}"
    documented = responses[status].get("content", {})
    kind = response.headers["Content-Type"].partition(";")[0]
    assert kind in documented, f"{called} answers {status} as {kind}, but documents {list(documented)}"
    if response.is_error and response.request.url.path != _OWN_FORM:
        assert kind == "application/problem+json", called
        response.read()  # a hook comes before anybody has
        codes, code = documented[kind]["examples"], response.json()["code"]
        assert code in codes, f"{called} answers {status} {code}, but documents only {list(codes)}"


@functools.cache
def _paths(app: FastAPI) -> dict[str, Any]:
    return {re.sub(r"\{\w+\}", "[^/]+", path): methods for path, methods in app.openapi()["paths"].items()}
