"""Who asks, and may they? Before anything of a body is read, without a database and within microseconds: to solve one
more dependency would cost a query several times as much."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from service.api.browsers import check_host, check_origin
from service.api.refusals import REFUSED
from service.api.scopes import NEEDED, needed
from service.bootstrap import Parts
from service.domain import SCOPES, Actor, Caller
from service.errors import NotAllowed, ServiceError, Unauthenticated
from service.loopback import is_loopback

__all__ = ["CurrentActor", "Guarded", "Handler", "check_routes", "still_allowed"]

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_LOOPBACK = Caller(None, "loopback", "admin")
_ANYBODY = Caller(None, "anybody", "admin")  # the service was told to be insecure
_METRICS = "/metrics"


class Guarded(APIRoute):
    """The class of every route."""

    def get_route_handler(self) -> Handler:
        handle, path = self.handler_behind_the_guard(), self.path

        async def check_and_handle(request: Request) -> Response:
            _check(request, path)
            return await handle(request)

        return check_and_handle

    def handler_behind_the_guard(self) -> Handler:
        return super().get_route_handler()


def _check(request: Request, path: str) -> None:
    parts: Parts = request.app.state.parts
    scope = needed(request.method, path)
    if scope is None or (path == _METRICS and parts.settings.open_metrics):
        return
    try:
        caller = _identified(request, parts)
        parts.rates.take(caller.key_id or caller.name)
        if SCOPES.index(caller.scope) < SCOPES.index(scope):
            raise NotAllowed(f"the key {caller.name!r} has the scope {caller.scope}, and this call needs {scope}")
    except ServiceError as error:
        REFUSED.labels(error.code).inc()
        raise
    request.scope["state"]["caller"] = caller


def still_allowed(request: Request) -> bool:
    """For what goes on for hours after it was let in: its key may be revoked, expired or rotated since."""
    try:
        _identified(request, request.app.state.parts)
    except ServiceError:
        return False
    return True


def _identified(request: Request, parts: Parts) -> Caller:
    # As they came: to look through the headers costs less than to make a mapping of them.
    given = next((value for name, value in request.scope["headers"] if name == b"authorization"), None)
    if given is not None:
        kind, _, token = given.decode("latin-1").partition(" ")
        caller = parts.keyring.find(token.strip()) if kind.lower() == "bearer" else None
        if caller is not None:
            return caller
        if request.client is not None and not parts.settings.insecure:
            parts.guesses.take(request.client.host)
    return _without_a_key(request, parts, given is not None)


def _without_a_key(request: Request, parts: Parts, wrong: bool) -> Caller:
    if not parts.settings.insecure:
        if parts.keyring.required:
            raise Unauthenticated(
                "this key is unknown, expired or revoked; ask whoever gave it to you for another"
                if wrong
                else "a key is needed: send Authorization: Bearer KEY, or set ZSTCI_KEY for the zstci command"
            )
        if request.client is not None and not is_loopback(request.client.host):
            raise Unauthenticated(
                "there is no key yet, so only this machine itself is answered; make one there with: zstci keys create"
            )
        check_host(request.headers)
    check_origin(request.method, request.headers, parts.settings.origins)
    return _ANYBODY if parts.settings.insecure else _LOOPBACK


def check_routes(routes: Iterable[BaseRoute]) -> None:
    """Every call is guarded, and somebody has thought of the scope that it needs."""
    for route in routes:
        if isinstance(route, APIRoute):
            if not isinstance(route, Guarded):
                raise TypeError(f"{route.path} is not guarded; make its router with route_class=Guarded")
            missing = [method for method in route.methods or () if (method, route.path) not in NEEDED]
            if missing:
                raise LookupError(f"{missing} {route.path}: say in service/api/scopes.py which scope it needs")


async def _actor(request: Request) -> Actor:
    caller: Caller = request.state.caller
    return Actor(caller.key_id, caller.name, request.state.request_id)


CurrentActor = Annotated[Actor, Depends(_actor)]
