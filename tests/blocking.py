"""The asynchronous client in a test that is not: the same tests hold for both clients."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from service.client import AsyncClient, AsyncUpdate, Client

__all__ = ["CLIENTS", "connected"]

CLIENTS = {"client": Client, "async-client": AsyncClient}


@contextmanager
def connected(kind: type[Client] | type[AsyncClient], *arguments: Any, **options: Any) -> Iterator[Any]:
    """A client of either kind that is called without `await`; closed at the end."""
    if issubclass(kind, Client):
        with kind(*arguments, **options) as client:
            yield client
        return
    with start_blocking_portal("asyncio") as portal:
        awaited = kind(*arguments, **options)
        try:
            yield _Blocking(portal, awaited)
        finally:
            portal.call(awaited.close)


class _Blocking:
    def __init__(self, portal: BlockingPortal, awaited: Any) -> None:
        self._portal, self._awaited = portal, awaited

    def __repr__(self) -> str:
        return repr(self._awaited).replace("Async", "")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._awaited, name)
        return (lambda *given, **named: self._called(found, given, named)) if callable(found) else found

    def _called(self, method: Any, given: Any, named: Any) -> Any:
        async def whole() -> Any:
            result = method(*given, **named)
            if isinstance(result, AsyncIterator):
                return [item async for item in result]
            return await result if inspect.isawaitable(result) else result

        found = self._portal.call(whole)
        if isinstance(found, list):
            return [self._wrapped(item) for item in found]
        return self._wrapped(found)

    def _wrapped(self, item: Any) -> Any:
        return _Blocking(self._portal, item) if isinstance(item, AsyncUpdate) else item
