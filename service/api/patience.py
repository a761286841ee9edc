"""A client that stops sending in the middle of a body holds a place that somebody else could have."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import TooSlow

__all__ = ["BodyPatience"]


class BodyPatience:
    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        whole = False  # afterwards whoever listens waits for the end of the connection, which may take any time

        async def receive_in_time() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout(self.seconds):
                    message = await receive()
            except TimeoutError as error:
                whole = True
                raise TooSlow(f"nothing came for {self.seconds:g} s within the body; send it again") from error
            whole = not message.get("more_body", False)
            return message

        await self.app(scope, receive_in_time, send)
