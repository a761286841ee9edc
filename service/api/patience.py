"""A client that stops sending in the middle of a body holds a place that somebody else could have. When the process is
asked to end, it would be cut off without a word."""

from __future__ import annotations

import asyncio
import threading
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ShuttingDown, TooSlow

__all__ = ["BodyPatience"]

_LOOK_SECONDS = 0.25  # between two looks whether the process was asked to end
_END_SECONDS = 4.0  # for bodies that come in then: half of the grace, so that what they leave behind can be cleared


class BodyPatience:
    """`seconds` may pass without a byte of a body, and once `stopping` is set hardly any in all."""

    def __init__(self, app: ASGIApp, seconds: float, stopping: threading.Event) -> None:
        self.app, self.seconds, self.stopping = app, seconds, stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = _Body(receive, self.seconds, self.stopping).receive
        await self.app(scope, receive, send)


class _Body:
    def __init__(self, receive: Receive, seconds: float, stopping: threading.Event) -> None:
        self._receive, self._seconds, self._stopping = receive, seconds, stopping
        self._whole = False  # afterwards whoever listens waits for the end of the connection, which may take any time
        self._end: float | None = None  # of our patience, since we know that the process ends

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        until = time.monotonic() + self._seconds
        while True:
            self._look(until)
            try:
                async with asyncio.timeout(min(_LOOK_SECONDS, self._seconds)):
                    message = await self._receive()
            except TimeoutError:
                continue
            self._whole = not message.get("more_body", False)
            return message

    def _look(self, until: float) -> None:
        now = time.monotonic()
        if self._end is None and self._stopping.is_set():
            self._end = now + _END_SECONDS
        if self._end is not None and now >= self._end:
            self._whole = True
            raise ShuttingDown("this server is shutting down, and the body is not here yet; send it again in a moment")
        if now >= until:
            self._whole = True
            raise TooSlow(f"nothing came for {self._seconds:g} s within the body; send it again")
