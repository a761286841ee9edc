"""Memory and open files of the service's processes, looked at from outside once a second."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.processes import children

__all__ = ["Sample", "Sampler", "Trend", "growing", "trends"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEAST_SECONDS = 480.0  # shorter ones say nothing of a trend: libraries are loaded late, by the first deletion, say
_MEBIBYTES_AN_HOUR, _FILES_AN_HOUR, _MOST_FILES = 200.0, 60.0, 200
_WARM_UP = 0.4  # share of the time in which libraries load and pools fill


@dataclass(frozen=True)
class Sample:
    at: float  # seconds since the begin
    process: str
    pid: int
    mebibytes: float
    files: int


@dataclass(frozen=True)
class Trend:
    """Begin and end are means over a tenth of what follows the warm-up; the slope is fitted to all of it."""

    process: str
    unit: str
    begin: float
    end: float
    highest: float
    per_hour: float


class Sampler(threading.Thread):
    def __init__(self, supervisor: int, stop: threading.Event, every: float = 1.0) -> None:
        super().__init__(name="sampler", daemon=True)
        self._supervisor, self._stop_sampling, self._every = supervisor, stop, every
        self.samples: list[Sample] = []

    def run(self) -> None:
        begun = time.monotonic()
        while not self._stop_sampling.wait(self._every):
            at = time.monotonic() - begun
            for process, pid in children(self._supervisor).items():
                try:
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    files = len(os.listdir(f"/proc/{pid}/fd"))
                except OSError:
                    continue  # it ended meanwhile
                self.samples.append(Sample(at, process, pid, pages * _PAGE / 2**20, files))

    def pids(self) -> dict[str, set[int]]:
        """More than one a process: it died and was started anew."""
        found: dict[str, set[int]] = {}
        for sample in self.samples:
            found.setdefault(sample.process, set()).add(sample.pid)
        return found


def trends(samples: list[Sample]) -> list[Trend]:
    found = []
    for process in sorted({sample.process for sample in samples}):
        own = [sample for sample in samples if sample.process == process]
        warm = own[int(len(own) * _WARM_UP) :]
        times = np.array([sample.at for sample in warm])
        for unit in ("MiB", "files"):
            values = np.array([s.mebibytes if unit == "MiB" else s.files for s in warm])
            edge = max(1, len(values) // 10)
            slope = float(np.polyfit(times, values, 1)[0]) * 3600 if len(values) > 2 else 0.0
            begin, end = float(values[:edge].mean()), float(values[-edge:].mean())
            found.append(Trend(process, unit, begin, end, float(values.max()), slope))
    return found


def growing(found: list[Trend], seconds: float) -> list[str]:
    """What is not flat. A real leak of a version a swap, a few hundred swaps an hour, is far above these bounds; the
    rest of an allocator's coming and going is below."""
    faults = [
        f"{trend.process} has up to {trend.highest:.0f} open files"
        for trend in found
        if trend.unit == "files" and trend.highest > _MOST_FILES
    ]
    if seconds < _LEAST_SECONDS:
        return faults
    for trend in found:
        limit = _MEBIBYTES_AN_HOUR if trend.unit == "MiB" else _FILES_AN_HOUR
        grown = (trend.end - trend.begin) / (seconds * (1 - _WARM_UP)) * 3600
        # Both: a fit follows a single late step, and two ends may lie on two waves.
        if min(trend.per_hour, grown) > limit:
            faults.append(f"{trend.process} grows by {trend.per_hour:+.0f} {trend.unit} an hour, more than {limit:g}")
    return faults
