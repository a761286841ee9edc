"""Every error as application/problem+json (RFC 9457), from one tree."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from service.api.headers import protect
from service.api.problem_examples import DETAILS, FAULTS
from service.api.request_id import HEADER
from service.errors import BadImages, InvalidRequest, RejectedImages, ServiceError, Unauthenticated
from zstci.errors import InvalidConfig, InvalidData, SnapshotError, ZstciError

__all__ = ["MEDIA_TYPE", "Fault", "Problem", "add_handlers", "example", "problems"]

MEDIA_TYPE = "application/problem+json"
_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class Fault(BaseModel):
    """One of several things that are wrong with a request."""

    pointer: str = Field(description="Where it is wrong", examples=["/images/0"])
    code: str = Field(description="Stable name of what is wrong there", examples=["not_an_image"])
    detail: str = Field(description="What is wrong there", examples=["it is none of BMP, GIF, JPEG, PNG, WEBP"])


class Problem(BaseModel):
    """RFC 9457. Rely on `code`."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "urn:zstci:problem:not_an_image",
                "title": "This is not an image",
                "status": 422,
                "detail": "nothing was answered, because of image 0: it is none of BMP, GIF, JPEG, PNG, WEBP",
                "instance": "/v1/classify",
                "code": "not_an_image",
                "request_id": "0d6f1c1e6f7f4a53b1f4a4f8f6a7c001",
                "errors": [
                    {
                        "pointer": "/images/0",
                        "code": "not_an_image",
                        "detail": "it is none of BMP, GIF, JPEG, PNG, WEBP",
                    }
                ],
            }
        }
    )

    type: str = Field(description="The code as a URI", examples=["urn:zstci:problem:not_an_image"])
    title: str = Field(description="The kind of problem", examples=["This is not an image"])
    status: int = Field(description="As in the answer's first line", examples=[422])
    detail: str = Field(
        description="What is wrong this time, and what to do",
        examples=["nothing was answered, because of image 0: it is none of BMP, GIF, JPEG, PNG, WEBP"],
    )
    instance: str = Field(description="The path that was asked", examples=["/v1/classify"])
    code: str = Field(description="Stable name of the kind of problem", examples=["not_an_image"])
    request_id: str = Field(description="As in X-Request-ID", examples=["0d6f1c1e6f7f4a53b1f4a4f8f6a7c001"])
    errors: list[Fault] = Field(description="Each single fault, where there can be several")


def problems(*kinds: type[ZstciError]) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route that can fail in these ways: by their statuses, each with an example of every code."""
    found: dict[int | str, dict[str, Any]] = {}
    for kind in kinds:
        status, _ = _status_and_title(kind)
        problem = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
        response = found.setdefault(
            status, {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: problem}}
        )
        response["content"][MEDIA_TYPE]["examples"][kind.code] = {"$ref": f"#/components/examples/{kind.code}"}
    return found


def example(kind: type[ZstciError]) -> dict[str, Any]:
    """Of the OpenAPI description. Its `instance` is left to who knows where it can happen."""
    status, title = _status_and_title(kind)
    value = {
        "type": f"urn:zstci:problem:{kind.code}",
        "title": title,
        "status": status,
        "detail": DETAILS[kind],
        "instance": "",
        "code": kind.code,
        "request_id": "0d6f1c1e6f7f4a53b1f4a4f8f6a7c001",
        "errors": FAULTS.get(kind, []),
    }
    return {"summary": f"{kind.code}: {title}", "value": value}


def _status_and_title(kind: type[ZstciError]) -> tuple[int, str]:
    if issubclass(kind, ServiceError):
        return kind.status, kind.title
    status = 422 if issubclass(kind, InvalidConfig | InvalidData) else 500
    status = 503 if issubclass(kind, SnapshotError) else status  # files of a version are damaged: it can be mended
    return status, HTTPStatus(status).phrase


def add_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ZstciError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _known(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ZstciError)
    status, title = _status_and_title(type(error))
    if isinstance(error, BadImages):
        title = error.title  # of the one fault that all of them have
    faults: list[Fault] = []
    if isinstance(error, BadImages):
        faults = [Fault(pointer=f"/images/{i}", code=f.code, detail=str(f)) for i, f in error.faults.items()]
    if isinstance(error, RejectedImages):
        faults = [Fault(pointer=f"/upload/{i.name}", code=i.code, detail=i.detail) for i in error.rejected]
    response = _response(request, status, error.code, title, str(error), faults)
    if isinstance(error, ServiceError) and error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = 'Bearer realm="zstci"'
    return response


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [
        Fault(pointer="/" + "/".join(map(str, fault["loc"])), code=fault["type"], detail=fault["msg"])
        for fault in error.errors()
    ]
    detail = "; ".join(f"{fault.pointer}: {fault.detail}" for fault in faults)
    return _response(request, InvalidRequest.status, InvalidRequest.code, InvalidRequest.title, detail, faults)


async def _http(request: Request, error: Exception) -> JSONResponse:
    """What the framework refuses by itself: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    code = status.phrase.lower().replace(" ", "_")
    response = _response(request, status, code, status.phrase, str(error.detail))
    response.headers.update(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """Of all routes of this path: the framework names only those of the first."""
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    detail = "an unexpected error; the server's log has it under this request_id"
    return _response(request, 500, ServiceError.code, ServiceError.title, detail)


def _response(
    request: Request, status: int, code: str, title: str, detail: str, faults: Sequence[Fault] = ()
) -> JSONResponse:
    problem = Problem(
        type=f"urn:zstci:problem:{code}",
        title=title,
        status=int(status),
        detail=detail,
        instance=request.url.path,
        code=code,
        request_id=request.state.request_id,
        errors=list(faults),
    )
    # The answer to an unexpected error is sent outside of our middleware, so the headers are set here as well.
    headers = {HEADER: problem.request_id}
    response = JSONResponse(problem.model_dump(), status, headers=headers, media_type=MEDIA_TYPE)
    protect(response.raw_headers, problem.instance)
    return response
