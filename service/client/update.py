"""Handles on one update."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from inspect import isawaitable

from service.client import calls
from service.client.errors import UpdateCancelled, UpdateFailed
from service.client.events import UpdateEvent, afollow, follow
from service.client.models import Progress, UpdateEntry
from service.client.transport import AsyncTransport, Transport

__all__ = ["AsyncUpdate", "Update"]


class _Handle:
    def __init__(self, entry: UpdateEntry) -> None:
        self.entry = entry

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.entry.state} {100 * self.entry.progress:.0f} %>"

    @property
    def id(self) -> str:
        return self.entry.id

    def _hear(self, entry: UpdateEntry) -> UpdateEntry:
        self.entry = entry
        return entry

    def _succeeded(self) -> UpdateEntry:
        match self.entry.state:
            case "failed":
                raise UpdateFailed(self.entry)
            case "cancelled":
                raise UpdateCancelled(self.entry)
        return self.entry


class Update(_Handle):
    """`entry` is what was last heard of it; `refresh()` asks again."""

    def __init__(self, transport: Transport, entry: UpdateEntry) -> None:
        super().__init__(entry)
        self._transport = transport

    def refresh(self) -> UpdateEntry:
        return self._hear(self._transport.run(calls.update(self.id)))

    def cancel(self) -> UpdateEntry:
        """Ask it to stop. One that waits ends at once, one that runs within seconds: `wait()` tells when."""
        return self._hear(self._transport.run(calls.cancel(self.id)))

    def events(self, after: int = 0) -> Iterator[UpdateEvent]:
        """Its events from the first, or from behind the event `after`, until it has ended. They are stored, so those of
        an update that has ended long ago can still be read."""
        return follow(self._transport, self.id, after, lambda: self.refresh().ended)

    def wait(self, on_progress: Callable[[Progress], None] | None = None) -> UpdateEntry:
        """Its entry when it has succeeded; UpdateFailed or UpdateCancelled otherwise."""
        for event in self.events():
            if on_progress is not None and (progress := _progress(event)) is not None:
                on_progress(progress)
        self.refresh()
        return self._succeeded()


class AsyncUpdate(_Handle):
    """As `Update`, for `AsyncClient`."""

    def __init__(self, transport: AsyncTransport, entry: UpdateEntry) -> None:
        super().__init__(entry)
        self._transport = transport

    async def refresh(self) -> UpdateEntry:
        return self._hear(await self._transport.run(calls.update(self.id)))

    async def cancel(self) -> UpdateEntry:
        return self._hear(await self._transport.run(calls.cancel(self.id)))

    def events(self, after: int = 0) -> AsyncGenerator[UpdateEvent, None]:
        """As `Update.events`; with `contextlib.aclosing` around it where it is left before its end."""
        return afollow(self._transport, self.id, after, self._has_ended)

    async def wait(self, on_progress: Callable[[Progress], Awaitable[None] | None] | None = None) -> UpdateEntry:
        """As `Update.wait`; what `on_progress` returns is awaited, where it can be."""
        async for event in self.events():
            if on_progress is not None and (progress := _progress(event)) is not None:
                told = on_progress(progress)
                if isawaitable(told):
                    await told
        await self.refresh()
        return self._succeeded()

    async def _has_ended(self) -> bool:
        return (await self.refresh()).ended


def _progress(event: UpdateEvent) -> Progress | None:
    if event.kind != "progress":
        return None
    return Progress.model_validate(event.data | {"attempt": event.attempt})
