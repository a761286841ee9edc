"""Who asks, and may they? One dependency before all others, without a database and within microseconds."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from service.api.browsers import check_host, check_origin
from service.api.metrics import REFUSED
from service.api.scopes import needed
from service.bootstrap import Parts
from service.domain import SCOPES, Actor, Caller
from service.errors import NotAllowed, ServiceError, Unauthenticated
from service.loopback import is_loopback

__all__ = ["CurrentActor", "guard"]

_LOOPBACK = Caller(None, "loopback", "admin")
_ANYBODY = Caller(None, "anybody", "admin")  # the service was told to be insecure
_METRICS = "/metrics"


async def guard(request: Request) -> None:
    parts: Parts = request.app.state.parts
    path = request.scope["route"].path
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
    request.state.caller = caller


def _identified(request: Request, parts: Parts) -> Caller:
    given = request.headers.get("authorization")
    if given is not None:
        kind, _, token = given.partition(" ")
        caller = parts.keyring.find(token.strip()) if kind.lower() == "bearer" else None
        if caller is not None:
            return caller
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


async def _actor(request: Request) -> Actor:
    caller: Caller = request.state.caller
    return Actor(caller.key_id, caller.name, request.state.request_id)


CurrentActor = Annotated[Actor, Depends(_actor)]
