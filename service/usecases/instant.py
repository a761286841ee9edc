"""What becomes of an instant part whose update comes to nothing else: its classes must not stay silently."""

from __future__ import annotations

import logging
from contextlib import suppress

from service.errors import VersionChanged
from service.storage.versions import VersionStore

__all__ = ["builds_on", "take_back"]

logger = logging.getLogger(__name__)


def take_back(versions: VersionStore, update_id: str) -> str | None:
    """Roll back to the version before, if the instant one still answers. Why its classes stay, where they do; asked
    again after a crash it says the same."""
    instant = versions.of_update(update_id, "instant")
    if instant is None:
        return None
    if instant.parent is not None:
        with suppress(VersionChanged):
            versions.activate(instant.parent, instant.number)
            about = {"action": "instant_taken_back", "update": update_id, "version": instant.number}
            logger.info("Instant version taken back", extra=about)
            return None
    active = versions.active().version
    if not builds_on(versions, active, instant.number):
        return None
    reason = f"version {active} was built on it" if active != instant.number else "there is none before it"
    return (
        f"its instant version {instant.number} stays, because {reason}; delete its classes if you do not want them, or "
        "send their images again with on_existing_class=merge"
    )


def builds_on(versions: VersionStore, number: int | None, ancestor: int) -> bool:
    while number is not None and number != ancestor:
        number = versions.get(number).parent
    return number == ancestor
