"""Who changed what. The entry is there before the change: whoever dies in between leaves a trace, and where none can be
written nothing is changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from service.domain import Actor
from service.errors import ServiceError
from service.storage.audit import AuditStore
from zstci.errors import ZstciError

__all__ = ["Audit", "Change"]

logger = logging.getLogger(__name__)

_DONE = "done"


@dataclass
class Change:
    """`what` may be named when it is known: an update has no id before it is stored."""

    what: str


class Audit:
    def __init__(self, store: AuditStore) -> None:
        self._store = store

    @contextmanager
    def change(self, actor: Actor, action: str, what: str = "") -> Iterator[Change]:
        entry, change = self._store.begin(actor, action, what), Change(what)
        try:
            yield change
        except BaseException as error:
            self._end(entry, change, error.code if isinstance(error, ZstciError) else ServiceError.code)
            raise
        self._end(entry, change, _DONE)
        logger.info("Changed", extra={"action": action, "object": change.what, "by": actor.key_id or actor.name})

    def _end(self, entry: int, change: Change, outcome: str) -> None:
        """What was done stays done, even if this cannot be written any more."""
        try:
            self._store.end(entry, change.what, outcome)
        except ServiceError as error:
            about = {"action": "audit_not_ended", "entry": entry, "outcome": outcome, "reason": str(error)}
            logger.error("Audit entry not ended", extra=about)  # noqa: TRY400
