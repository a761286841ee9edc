"""What FastAPI cannot derive from the routes: the problem schema, and what every call has in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.problem_examples import COMMON, DETAILS
from service.api.problems import MEDIA_TYPE, Problem, example, problems
from service.api.request_id import HEADER
from service.api.samples import sample
from service.api.scopes import needed
from service.errors import DatabaseUnreachable, InvalidRequest, ServiceError

__all__ = ["document"]


_SCHEME = {
    "type": "http",
    "scheme": "bearer",
    "description": "A key, made with `zstci keys create` or POST /v1/keys. On the machine itself none is needed until "
    "there is one.",
}


_SAMPLES = {
    "update_id": "5f0c9d1e6f7f4a53b1f4a4f8f6a7c001",
    "class_id": "c0123456789abcde",
    "number": "3",
    "key_id": "0123456789ab",
}


def document(app: FastAPI) -> None:
    app.openapi = lambda: _truthful(app)  # type: ignore[method-assign]


def _truthful(app: FastAPI) -> dict[str, Any]:
    """As long as no key is needed, the description says so."""
    schema, parts = _cached(app), app.state.parts
    try:
        required = not parts.settings.insecure and parts.keyring.required
    except DatabaseUnreachable:
        required = True
    if required:
        return schema
    optional = deepcopy(schema)
    for _, _, operation in _operations(optional):
        if "security" in operation:
            operation["security"].append({})
    return optional


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
    schema["components"]["securitySchemes"] = {"key": _SCHEME}
    for method, path, operation in _operations(schema):
        _leave_out_null(operation.get("parameters", ()))
        responses, scope = operation["responses"], needed(method.upper(), path)
        _add(responses, problems(*([ServiceError] if scope is None else COMMON)))
        operation["responses"] = dict(sorted(responses.items()))
        if scope is not None:
            operation["security"] = [{"key": [scope]}]  # OpenAPI 3.1: what the key must allow
        _complete(operation["responses"].values())
        _show(operation, components)
    schema["components"]["examples"] = _examples(schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        components.pop(unused, None)
    return schema


def _leave_out_null(parameters: Iterable[dict[str, Any]]) -> None:
    """What may be left out of an address or a header cannot be null there: it would be the text "null"."""
    for parameter in parameters:
        kinds = [kind for kind in parameter["schema"].pop("anyOf", ()) if kind != {"type": "null"}]
        for kind in kinds:
            parameter["schema"] |= kind


def _add(responses: dict[str, Any], more: dict[int | str, dict[str, Any]]) -> None:
    for status, response in more.items():
        known = responses.setdefault(str(status), response)
        known["content"][MEDIA_TYPE]["examples"] |= response["content"][MEDIA_TYPE]["examples"]


def _examples(schema: dict[str, Any]) -> dict[str, Any]:
    """Of the problems that are there, each as the first call answers it that can."""
    kinds, found = {kind.code: kind for kind in DETAILS}, {}
    for _, path, operation in _operations(schema):
        for response in operation["responses"].values():
            for code in response["content"].get(MEDIA_TYPE, {}).get("examples", {}):
                if code not in found:
                    found[code] = example(kinds[code])
                    found[code]["value"]["instance"] = path.format_map(_SAMPLES)
    return found


def _complete(responses: Iterable[dict[str, Any]]) -> None:
    for response in responses:
        content = response.get("content", {}).get("application/json", {})
        if content.get("schema", {}).get("$ref", "").endswith("/HTTPValidationError"):
            # FastAPI's own form of a validation error is never sent here.
            response["content"] = problems(InvalidRequest)[422]["content"]
        codes = response.get("content", {}).get(MEDIA_TYPE, {}).get("examples")
        if codes:
            response["description"] = f"{response['description']}: {', '.join(f'`{code}`' for code in codes)}"
        response.setdefault("headers", {})[HEADER] = {
            "description": "The request's own X-Request-ID, or a new one",
            "schema": {"type": "string"},
            "example": "0d6f1c1e6f7f4a53b1f4a4f8f6a7c001",
        }


def _show(operation: dict[str, Any], components: dict[str, Any]) -> None:
    """Whole examples of JSON, where there is none yet."""
    body = operation.get("requestBody", {"content": {}})
    if "application/json" in body["content"]:
        about = body["content"]["application/json"]["schema"]
        body["description"] = components[about["$ref"].rpartition("/")[2]]["description"]
    for part in (body, *operation["responses"].values()):
        content = part["content"].get("application/json", {})
        if content and not {"example", "examples"} & set(content):
            content["example"] = sample(content["schema"], components)


def _operations(schema: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation
