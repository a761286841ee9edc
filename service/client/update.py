"""A handle on one update."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from service.client.errors import UpdateCancelled, UpdateFailed
from service.client.events import UpdateEvent, follow
from service.client.models import Progress, UpdateEntry
from service.client.transport import Transport

__all__ = ["Update"]


class Update:
    """`entry` is what was last heard of it; `refresh()` asks again."""

    def __init__(self, transport: Transport, entry: UpdateEntry) -> None:
        self._transport, self.entry = transport, entry

    def __repr__(self) -> str:
        return f"<Update {self.id} {self.entry.state} {100 * self.entry.progress:.0f} %>"

    @property
    def id(self) -> str:
        return self.entry.id

    def refresh(self) -> UpdateEntry:
        return self._hear(self._transport.request("GET", f"/v1/updates/{self.id}").content)

    def cancel(self) -> UpdateEntry:
        """Ask it to stop. One that waits ends at once, one that runs within seconds: `wait()` tells when."""
        return self._hear(self._transport.request("POST", f"/v1/updates/{self.id}/cancel").content)

    def events(self, after: int = 0) -> Iterator[UpdateEvent]:
        """Its events from the first, or from behind the event `after`, until it has ended. They are stored, so those of
        an update that has ended long ago can still be read."""
        return follow(self._transport, self.id, after, lambda: self.refresh().ended)

    def wait(self, on_progress: Callable[[Progress], None] | None = None) -> UpdateEntry:
        """Its entry when it has succeeded; UpdateFailed or UpdateCancelled otherwise."""
        for event in self.events():
            if event.kind == "progress" and on_progress is not None:
                on_progress(Progress.model_validate(event.data | {"attempt": event.attempt}))
        match self.refresh().state:
            case "failed":
                raise UpdateFailed(self.entry)
            case "cancelled":
                raise UpdateCancelled(self.entry)
        return self.entry

    def _hear(self, content: bytes) -> UpdateEntry:
        self.entry = UpdateEntry.model_validate_json(content)
        return self.entry
