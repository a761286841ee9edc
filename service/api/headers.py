"""What every answer tells a browser: to guess no type, to show it in no frame, to tell nobody where it was, to keep no
copy, and to run nothing that came with it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["SecurityHeaders", "protect"]

_ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_NO_COPY = (b"cache-control", b"no-store")
_FILES = "/docs/"  # of the page, the same for everybody: these may be kept


def protect(headers: list[tuple[bytes, bytes]], path: str) -> None:
    """Add what is not there: the page of the docs has a policy of its own."""
    present = {name for name, _ in headers}
    headers.extend(header for header in _ALWAYS if header[0] not in present)
    if _NO_COPY[0] not in present and not path.startswith(_FILES):
        headers.append(_NO_COPY)


class SecurityHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                protect(headers, scope["path"])
                message["headers"] = headers
            await send(message)

        await self.app(scope, receive, send_protected)
