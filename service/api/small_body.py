"""Routes whose JSON is a line or two. FastAPI reads a body whole before anything else can say no to it."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from service.api.guard import Guarded, Handler
from service.api.images import limited
from service.errors import InvalidForm

__all__ = ["SmallBody"]

_LIMIT = 2**16


class SmallBody(Guarded):
    def handler_behind_the_guard(self) -> Handler:
        handle = super().handler_behind_the_guard()

        async def read_and_handle(request: Request) -> Response:
            small = limited(request, _LIMIT)
            try:
                await small.body()
            except ClientDisconnect as error:
                raise InvalidForm("the connection ended within the body") from error
            return await handle(small)

        return read_and_handle
