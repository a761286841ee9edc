"""Every call with every scope, derived from the routes of the app: a new call needs a line in `expected`, or fails."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from service.api.guard import Guarded, check_routes
from service.api.scopes import needed
from service.app import create_app
from service.config import Settings
from service.domain import SCOPES, Actor
from tests.local import local_client
from tests.unit.service.api.surface import everything, refused

OPEN = {"/healthz", "/readyz", "/docs", "/docs/start.js", "/docs/openapi.json"}
ADMIN = {"/v1/keys", "/v1/keys/{key_id}", "/v1/keys/{key_id}/rotate", "/v1/audit", "/v1/versions/{number}/activate"}
QUESTIONS = {"/v1/classify", "/v1/search", "/v1/embeddings"}
READ = {
    "/metrics",
    "/v1/classes",
    "/v1/classes/{class_id}",
    "/v1/updates",
    "/v1/updates/{update_id}",
    "/v1/updates/{update_id}/events",
    "/v1/versions",
    "/v1/versions/{number}",
}
CHANGES = {
    ("POST", "/v1/updates"),
    ("POST", "/v1/updates/{update_id}/cancel"),
    ("PATCH", "/v1/classes/{class_id}"),
    ("DELETE", "/v1/classes/{class_id}"),
}


def expected(method: str, path: str) -> str | None:
    if path in OPEN:
        return None
    if path in ADMIN:
        return "admin"
    if path in QUESTIONS or (method == "GET" and path in READ):
        return "query"
    if (method, path) in CHANGES:
        return "update"
    raise AssertionError(f"which scope does {method} {path} need?")


def flat(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Also those of included routers, and those that are not in the docs."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from flat(inner.routes) if isinstance(inner, APIRouter) else [route]


def all_routes() -> list[BaseRoute]:
    with tempfile.TemporaryDirectory() as home:
        return list(flat(create_app(Settings(home=Path(home))).routes))


ROUTES = all_routes()
CALLS = sorted({(verb, route.path) for route in ROUTES if isinstance(route, APIRoute) for verb in route.methods or ()})


@pytest.fixture(scope="module")
def service(tables, tmp_path_factory):
    """One for all these tests: what is refused changes nothing, and what is let in asks for what is not there."""
    home = tmp_path_factory.mktemp("scopes") / "home"
    shutil.copytree(tables, home)
    with local_client(create_app(Settings(home=home, serve_threads=1)), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def keys(service):
    parts, made = service.app.state.parts, {}
    for scope in SCOPES:
        _, token = parts.key_manager.create(Actor(None, "test"), scope, scope)
        made[scope] = {"Authorization": f"Bearer {token}"}
    parts.keyring.refresh()
    return made


@pytest.mark.parametrize("scope", [None, *SCOPES])
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_call_is_answered_from_its_scope_on_and_refused_below(service, keys, method, path, scope):
    parts, wanted = service.app.state.parts, expected(method, path)
    before = everything(parts), parts.audit_log.list(100)
    response = service.request(method, re.sub(r"\{\w+\}", "7", path), headers=keys.get(scope, {}))

    if wanted is None or (scope is not None and SCOPES.index(scope) >= SCOPES.index(wanted)):
        assert response.status_code not in (401, 403, 500), response.text
        return
    if scope is None:
        refused(response, 401, "unauthenticated")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")
    else:
        assert f"needs {wanted}" in refused(response, 403, "not_allowed")["detail"]
    assert (everything(parts), parts.audit_log.list(100)) == before


def test_there_is_nothing_to_ask_beside_these_calls_and_the_description():
    others = {getattr(route, "path", type(route)) for route in ROUTES if not isinstance(route, APIRoute)}

    assert others == {"/openapi.json", "/docs/assets"}


def test_a_call_that_nobody_gave_a_scope_needs_the_highest_and_keeps_the_app_from_starting():
    router = APIRouter(route_class=Guarded)
    router.add_api_route("/v1/new", lambda: None, methods=["POST"])

    assert needed("POST", "/v1/new") == "admin"
    with pytest.raises(LookupError, match=r"/v1/new.*service/api/scopes\.py"):
        check_routes(router.routes)


def test_a_call_without_the_guard_keeps_the_app_from_starting():
    router = APIRouter()
    router.add_api_route("/healthz", lambda: None)

    with pytest.raises(TypeError, match="route_class=Guarded"):
        check_routes(router.routes)


def test_the_description_says_what_each_call_needs(service, keys):
    schema = service.get("/openapi.json").json()

    assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            wanted = expected(method.upper(), path)
            assert operation.get("security") == (None if wanted is None else [{"key": [wanted]}]), path
            assert ({"401", "403", "429"} <= set(operation["responses"])) is (wanted is not None), path
