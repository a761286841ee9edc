"""HTTP connections of strangers. uvicorn's fast parser takes headers of any length and for as long as they come, before
any of our code is asked; so it is watched here: bytes, seconds and the number of connections."""

from __future__ import annotations

import re
from asyncio import Transport
from asyncio.events import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.config import Settings

__all__ = ["guarded"]

_LONGEST = 2**16  # bytes between two parts of bodies: of headers, of trailers, of empty lines
# The name of a header that the parser takes for the end of HTTP.
_UPGRADE = re.compile(rb"(?<=\r\n)upgrade(?=[ \t]*:)", re.IGNORECASE)
_ANSWERS = {
    408: b"408 Request Timeout",
    431: b"431 Request Header Fields Too Large",
    503: b"503 Service Unavailable\r\nRetry-After: 1",
}


def guarded(settings: Settings) -> type[HttpToolsProtocol]:
    """What `uvicorn.Config(http=...)` takes."""

    class Guarded(_Guarded):
        header_seconds, most = settings.header_seconds, settings.max_connections

    return Guarded


class _Guarded(HttpToolsProtocol):
    """One timer a connection, not one a request: that would cost every query."""

    header_seconds: float
    most: int
    _timer: TimerHandle | None = None
    _bytes = 0  # since the last part of a body, or the end of headers
    _within_body = _deaf = False
    _since: float | None  # when a request began that has no whole headers yet; None while one is answered

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > self.most:
            self._refuse(503)
        else:
            self._timer = self.loop.call_later(self.header_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._bytes > _LONGEST:
            self._refuse(431)
            return
        if self._since is None and self.cycle.response_complete:
            self._since = self.loop.time()
        self._bytes += len(data)
        super().data_received(data if self._since is None or self._within_body else _without_upgrade(data))

    def _unsupported_upgrade_warning(self) -> None:
        """CONNECT, or an upgrade whose name came in two pieces: the parser has lost the body, and what follows must not
        be read as a request of its own."""
        self._deaf, self.cycle.keep_alive = True, False

    def on_headers_complete(self) -> None:
        self._bytes, self._since, self._within_body = 0, None, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes, self._since, self._within_body = 0, None, False
        super().on_message_complete()

    def _look(self) -> None:
        waited = 0.0 if self._since is None else self.loop.time() - self._since
        if waited >= self.header_seconds:
            self._refuse(408)
        else:
            self._timer = self.loop.call_later(self.header_seconds - waited, self._look)

    def _refuse(self, status: int) -> None:
        """In the middle of an answer nothing can be said any more, nor within a body that was refused."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if not self._within_body and (cycle is None or cycle.response_complete):
            head = b"HTTP/1.1 " + _ANSWERS[status] + b"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            self.transport.write(head)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Nothing here speaks another protocol, so whoever offers one is answered in this one (RFC 9110, 7.8): curl --http2
    and Java's client do with every request."""
    end = data.find(b"\r\n\r\n")
    end = len(data) if end < 0 else end
    if _UPGRADE.search(data, 0, end) is None:
        return data
    return _UPGRADE.sub(b"ignored", data[:end]) + data[end:]
