"""The events of an update as they happen, over a connection that may break."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
from httpx_sse import ServerSentEvent, connect_sse

from service.client.errors import ApiError
from service.client.transport import Transport, pause
from service.domain import EventKind

__all__ = ["UpdateEvent", "follow"]

_PASSING = (429, 502, 503, 504)  # what a service or its proxy says while it restarts


@dataclass(frozen=True)
class UpdateEvent:
    id: int
    kind: EventKind
    attempt: int  # events of an attempt that died stay; compare with the last one
    data: dict[str, Any]


def follow(transport: Transport, update_id: str, after: int, has_ended: Callable[[], bool]) -> Iterator[UpdateEvent]:
    """Every event behind `after`, in order and once, up to `done`. A cut connection is resumed where it was, and
    given up when nothing has come for `timeout` seconds of trying."""
    last, failures = after, 0
    broken_since: float | None = None
    while True:
        seen = last
        try:
            for event in _connection(transport, update_id, last):
                last, broken_since, failures = event.id, None, 0
                yield event
                if event.kind == "done":
                    return
            # A stream that ends without a word: either it was cut, or `after` is behind the last event.
            if last == seen and has_ended():
                return
            fault: httpx.TransportError = httpx.RemoteProtocolError("the events broke off")
        except httpx.TransportError as error:
            fault = error
        broken_since = broken_since or time.monotonic()
        if time.monotonic() - broken_since > transport.timeout:
            raise transport.unreachable(fault) from fault
        failures += 1
        time.sleep(pause(failures))


def _connection(transport: Transport, update_id: str, last: int) -> Iterator[UpdateEvent]:
    headers = {"Last-Event-ID": str(last)} if last else {}
    with connect_sse(transport.http, "GET", f"/v1/updates/{update_id}/events", headers=headers) as source:
        if source.response.status_code in _PASSING:
            raise httpx.RemoteProtocolError(f"the service answers {source.response.status_code}")
        if not source.response.is_success:
            source.response.read()
            raise ApiError.of(source.response)
        for sent in source.iter_sse():
            if (event := _event(sent)) is not None and event.id > last:
                yield event


def _event(sent: ServerSentEvent) -> UpdateEvent | None:
    """None for what is no event of an update, such as a sign of life."""
    match sent.event:
        case "state" | "progress" | "metric" | "done" as kind if sent.data and sent.id:
            data = sent.json()
            return UpdateEvent(int(sent.id), kind, int(data.get("attempt") or 0), data)
    return None
