"""The events of an update as they happen, over a connection that may break."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from httpx_sse import ServerSentEvent, aconnect_sse, connect_sse

from service.client.errors import ApiError
from service.client.patience import LONGEST_PAUSE, pause, retry_after
from service.client.transport import AsyncTransport, Service, Transport
from service.domain import EventKind

__all__ = ["UpdateEvent", "afollow", "follow"]

_PASSING = (429, 502, 503, 504)  # what a service or its proxy says while it restarts


@dataclass(frozen=True)
class UpdateEvent:
    id: int
    kind: EventKind
    attempt: int  # events of an attempt that died stay; compare with the last one
    data: dict[str, Any]


class _Place:
    """How far somebody has read who loses the connection now and then."""

    def __init__(self, service: Service, update_id: str, after: int) -> None:
        self._service, self.last = service, after
        self.path = f"/v1/updates/{update_id}/events"
        self._failures, self._refusals = 0, 0
        self._broken_since: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self.last)} if self.last else {}

    def heard(self, sent: ServerSentEvent) -> UpdateEvent | None:
        """None for what is no event of an update, such as a sign of life, and for what was heard before."""
        match sent.event:
            case "state" | "progress" | "metric" | "done" as kind if sent.data and sent.id:
                if (number := int(sent.id)) > self.last:
                    self.last, self._broken_since, self._failures, self._refusals = number, None, 0, 0
                    data = sent.json()
                    return UpdateEvent(number, kind, int(data.get("attempt") or 0), data)
        return None

    def broke(self, fault: httpx.TransportError) -> float:
        """Seconds until the connection may be tried again; raises when nothing has come for `timeout` seconds."""
        now = time.monotonic()
        self._broken_since = self._broken_since or now
        if now - self._broken_since > self._service.timeout:
            raise self._service.unreachable(fault) from fault
        self._failures += 1
        return pause(self._failures)

    def refused(self, response: httpx.Response) -> float:
        """The same after an answer that is no stream, once it has been read. Who says Retry-After is alive."""
        if response.status_code not in _PASSING:
            raise ApiError.of(response)
        wait = retry_after(response)
        if wait is None:
            return self.broke(httpx.RemoteProtocolError(f"the service answers {response.status_code}"))
        self._refusals += 1
        if wait > LONGEST_PAUSE or self._refusals >= self._service.tries:
            raise ApiError.of(response)
        self._broken_since = None
        return wait


def follow(transport: Transport, update_id: str, after: int, has_ended: Callable[[], bool]) -> Iterator[UpdateEvent]:
    """Every event behind `after`, in order and once, up to `done`. A cut connection is resumed where it was, and
    given up when nothing has come for `timeout` seconds of trying; Retry-After is kept to, as by every request."""
    place = _Place(transport.service, update_id, after)
    while True:
        seen = place.last
        try:
            with connect_sse(transport.http, "GET", place.path, headers=place.headers) as source:
                if source.response.is_success:
                    for sent in source.iter_sse():
                        if (event := place.heard(sent)) is not None:
                            yield event
                            if event.kind == "done":
                                return
                else:
                    source.response.read()
            if not source.response.is_success:
                wait = place.refused(source.response)
            # A stream that ends without a word: either it was cut, or `after` is behind the last event.
            elif place.last == seen and has_ended():
                return
            else:
                wait = place.broke(_cut())
        except httpx.TransportError as error:
            wait = place.broke(error)
        time.sleep(wait)


async def afollow(
    transport: AsyncTransport, update_id: str, after: int, has_ended: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[UpdateEvent, None]:
    """As `follow`."""
    place = _Place(transport.service, update_id, after)
    while True:
        seen = place.last
        try:
            async with aconnect_sse(transport.http, "GET", place.path, headers=place.headers) as source:
                if source.response.is_success:
                    async for sent in source.aiter_sse():
                        if (event := place.heard(sent)) is not None:
                            yield event
                            if event.kind == "done":
                                return
                else:
                    await source.response.aread()
            if not source.response.is_success:
                wait = place.refused(source.response)
            elif place.last == seen and await has_ended():
                return
            else:
                wait = place.broke(_cut())
        except httpx.TransportError as error:
            wait = place.broke(error)
        await anyio.sleep(wait)


def _cut() -> httpx.TransportError:
    return httpx.RemoteProtocolError("the events broke off")
