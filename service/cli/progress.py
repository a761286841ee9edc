"""A progress bar for learning, and a Ctrl-C that stops it between two batches."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:
    from zstci import Progress

__all__ = ["StageBars", "StopFlag", "stop_on_interrupt"]


class StageBars:
    """One bar a stage, with the time to go; on a terminal only."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._stage = ""

    def __call__(self, progress: Progress) -> None:
        done = 100 * progress.fraction
        if self._bar is None or progress.stage != self._stage or done < self._bar.n:
            self.close()
            self._stage = progress.stage
            self._bar = tqdm(
                total=100,
                desc=progress.stage.replace("_", " "),
                disable=None,
                bar_format="{desc:<12} {percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}",
            )
        if progress.loss is not None:
            self._bar.set_postfix_str(f"epoch {progress.epoch}/{progress.epochs}, loss {progress.loss:.4f}", False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


class StopFlag:
    """Set by the first Ctrl-C; a second one ends the process at once."""

    def __init__(self) -> None:
        self._asked = False

    def __call__(self) -> bool:
        return self._asked

    def ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True


@contextmanager
def stop_on_interrupt() -> Iterator[StopFlag]:
    flag = StopFlag()
    before = {number: signal.signal(number, flag.ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
