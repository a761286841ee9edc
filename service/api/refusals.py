"""How many requests were not let in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

__all__ = ["REFUSALS", "REFUSED"]

REFUSALS = CollectorRegistry()
REFUSED = Counter(
    "zstci_refused", "Requests that were not let in, by the code that they were told", ["code"], registry=REFUSALS
)
