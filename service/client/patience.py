"""How long a client waits before it asks again."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

__all__ = ["LONGEST_PAUSE", "pause", "retry_after"]

# Seconds: what a service with a full queue of updates asks for. Where it is more, whoever called may ask again.
LONGEST_PAUSE = 60.0


def pause(attempt: int) -> float:
    """Seconds before the next try: 0.1, 0.2, 0.4 ... 5."""
    return min(0.1 * 2 ** (attempt - 1), 5.0)


def retry_after(response: httpx.Response) -> float | None:
    """The seconds that an answer asks for; None where it does not, or not in a way that can be understood."""
    text = response.headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):  # TypeError: a date without a zone
        return None
    return max(0.0, seconds)
