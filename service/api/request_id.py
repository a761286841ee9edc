"""Every response carries X-Request-ID: the caller's own, or a new one."""

from __future__ import annotations

import random
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADER", "RequestId"]

HEADER = "X-Request-ID"
# What a caller sends ends up in logs and headers, so it must be short and harmless.
_HARMLESS = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class RequestId:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if _HARMLESS.fullmatch(given) else _new()
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        await self.app(scope, receive, send_with_id)


def _new() -> str:
    """Only to be told apart. Not from the system's random numbers: to ask for them lets go of the interpreter, and to
    have it back may take until a thread that computes a query has had its turn."""
    return f"{random.getrandbits(128):032x}"
