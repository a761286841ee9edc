"""What FastAPI cannot derive from the routes: the problem schema, and what every call has in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.problems import MEDIA_TYPE, Problem, problems
from service.api.request_id import HEADER

__all__ = ["document"]


def document(app: FastAPI) -> None:
    app.openapi = lambda: _cached(app)  # type: ignore[method-assign]


def _cached(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = _completed(
            get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                tags=app.openapi_tags,
                routes=app.routes,
            )
        )
    return app.openapi_schema


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    components |= problem.pop("$defs") | {"Problem": problem}
    for operation in _operations(schema):
        _leave_out_null(operation.get("parameters", ()))
        operation["responses"].setdefault("500", problems(500)[500])
        _complete(operation["responses"].values())
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    return schema


def _leave_out_null(parameters: Iterable[dict[str, Any]]) -> None:
    """What may be left out of an address or a header cannot be null there: it would be the text "null"."""
    for parameter in parameters:
        kinds = [kind for kind in parameter["schema"].pop("anyOf", ()) if kind != {"type": "null"}]
        for kind in kinds:
            parameter["schema"] |= kind


def _complete(responses: Iterable[dict[str, Any]]) -> None:
    for response in responses:
        content = response.get("content", {}).get("application/json", {})
        if content.get("schema", {}).get("$ref", "").endswith("/HTTPValidationError"):
            # FastAPI's own form of a validation error is never sent here.
            response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        response.setdefault("headers", {})[HEADER] = {
            "description": "The request's own X-Request-ID, or a new one",
            "schema": {"type": "string"},
        }


def _operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in schema["paths"].values():
        yield from path.values()
