"""How much a key may ask: a bucket of tokens for each, filled at a steady rate. In memory and in one thread, the event
loop's; every API process has its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from service.errors import RateLimited

__all__ = ["Rates"]


_MOST = 10_000  # of whom something is remembered


class Rates:
    """`per_second` 0: no limit."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
        what: str = "requests that a key may send:",
    ) -> None:
        self._what = what
        self._per_second, self._burst, self._clock = per_second, float(burst), clock
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when that was so

    def take(self, who: str) -> None:
        if not self._per_second:
            return
        moment = self._clock()
        tokens, at = self._buckets.get(who, (self._burst, moment))
        tokens = min(self._burst, tokens + (moment - at) * self._per_second)
        if tokens < 1:
            wait = math.ceil((1 - tokens) / self._per_second)
            limited = RateLimited(
                f"{self._what} {self._per_second:g} a second, {self._burst:g} at once; ask again in {wait} s"
            )
            limited.retry_after = wait
            raise limited
        if who not in self._buckets and len(self._buckets) >= _MOST:
            self._buckets.clear()  # addresses cost a stranger nothing: to forget beats to grow
        self._buckets[who] = (tokens - 1, moment)
