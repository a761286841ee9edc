"""What waits in memory is bounded in bytes, too: a place in the queue says nothing of how large a body is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import Request
from starlette.types import Message

from service.serving.pool import Budget

__all__ = ["counted"]


@contextmanager
def counted(request: Request, budget: Budget) -> Iterator[Request]:
    """The same request, whose bytes are taken from the budget as they come, until the end of the block."""
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        count = len(message.get("body", b""))
        budget.take(count)
        taken += count
        return message

    try:
        yield Request(request.scope, receive)
    finally:
        budget.give_back(taken)
