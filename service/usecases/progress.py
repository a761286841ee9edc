"""From the library's stages to one bar for the whole update, told to the database, and a stop that is heard there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import cast

from service.domain import Report, Stage
from service.errors import ServiceError
from service.storage.updates import UpdateStore
from zstci import Progress
from zstci.errors import Stopped
from zstci.hearing import waiting

__all__ = ["Reporter"]

logger = logging.getLogger(__name__)

# Where each stage ends on the bar; roughly how the time goes.
_ENDS: dict[Stage, float] = {
    "validating": 0.03,
    "embedding": 0.25,
    "fine_tuning": 0.72,
    "translating": 0.86,
    "reprojecting": 0.88,
    "evaluating": 0.95,
    "publishing": 1.0,
}
_ENDS_FROZEN: dict[Stage, float] = {
    "validating": 0.05,
    "embedding": 0.80,
    "reprojecting": 0.82,
    "evaluating": 0.93,
    "publishing": 1.0,
}
_EVERY_SECONDS = 0.3  # reports of one stage
_ASK_SECONDS = 0.25  # looks at whether to stop


class Reporter:
    """One attempt's voice. A database that is away for a while costs reports, never the work."""

    def __init__(
        self,
        updates: UpdateStore,
        update_id: str,
        attempt: int,
        shutting_down: Callable[[], bool],
        span: tuple[float, float] = (0.0, 1.0),
        on_sign: Callable[[], None] = lambda: None,
    ) -> None:
        """`span` is the part of the bar that this work is, where it is one of several. `on_sign` is called whenever the
        work shows that it gets on."""
        self._updates, self._id, self._attempt = updates, update_id, attempt
        self._ends = _ENDS
        self._shutting_down, self._span, self._on_sign = shutting_down, span, on_sign
        self._started = time.monotonic()
        self._stage: Stage = "queued"
        self._reached = 0.0
        self._told = self._asked = 0.0
        self._over = False

    def expect(self, training: bool) -> None:
        self._ends = _ENDS if training else _ENDS_FROZEN

    def __call__(self, progress: Progress) -> None:
        """What `zstci.learn` calls."""
        self.stage(cast(Stage, progress.stage), progress.fraction, progress)

    def stage(self, stage: Stage, fraction: float, detail: Progress | None = None) -> None:
        self._on_sign()
        now = time.monotonic()
        whole = fraction >= 1.0 and (detail is None or detail.epoch == detail.epochs)
        if stage == self._stage and not whole and now - self._told < _EVERY_SECONDS:
            return
        self._stage, self._told = stage, now
        self._reached = max(self._reached, self._place(stage, fraction))
        elapsed = now - self._started
        eta = elapsed * (1 - self._reached) / self._reached if self._reached > 0.05 else None
        report = Report(stage, round(self._reached, 4), round(eta, 1) if eta is not None else None)
        if detail is not None and detail.epochs:
            report = Report(stage, report.progress, report.eta_seconds, detail.epoch, detail.epochs, detail.loss)
        try:
            self._updates.report(self._id, self._attempt, report)
        except ServiceError as error:
            logger.warning("Progress not told", extra={"action": "progress_not_told", "reason": str(error)})

    def should_stop(self) -> bool:
        """Asked after every layer, so the database is asked for it only now and then."""
        if not waiting():  # work that hangs aside must end the signs of life
            self._on_sign()
        if self._shutting_down():
            return True
        now = time.monotonic()
        if not self._over and now - self._asked >= _ASK_SECONDS:
            self._asked = now
            try:
                update = self._updates.get(self._id)
            except ServiceError:
                return False
            # Another attempt: somebody took us for dead, and works on it now.
            self._over = update.cancel_requested or update.attempt != self._attempt
        return self._over

    def stop_if_asked(self) -> None:
        """Before something long, or at the last chance: so it is asked at once."""
        self._asked = 0.0
        self.look()

    def look(self) -> None:
        """Between two small pieces of work."""
        if self.should_stop():
            raise Stopped("stopped on request")

    def _place(self, stage: Stage, fraction: float) -> float:
        order = list(self._ends)
        if stage not in self._ends:
            return self._reached
        before = self._ends[order[order.index(stage) - 1]] if order.index(stage) else 0.0
        start, end = self._span
        return start + (end - start) * (before + fraction * (self._ends[stage] - before))
