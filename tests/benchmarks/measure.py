"""Race contestants in turns, so that whatever else the machine does slows all of them alike.

A second is worth little on a busy machine; the ratio of two laps of the same round is worth a lot more.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

__all__ = ["Contest", "Contestant", "Duel", "Lap", "Result", "Stopwatch", "judge", "machine", "race", "repeat"]


@dataclass(frozen=True)
class Lap:
    """What one contestant did in one round. CPU seconds are those of all threads of the process."""

    items: int
    wall: float
    cpu: float


class Stopwatch:
    """Runs from the moment it is made; a contestant that first has to prepare something starts it again."""

    def __init__(
        self, wall: Callable[[], float] = time.perf_counter, cpu: Callable[[], float] = time.process_time
    ) -> None:
        self._clocks = wall, cpu
        self.start()

    def start(self) -> None:
        self._started = self._read()

    def stop(self, items: int) -> Lap:
        wall, cpu = self._read()
        return Lap(items, wall - self._started[0], cpu - self._started[1])

    def _read(self) -> tuple[float, float]:
        wall, cpu = self._clocks
        return wall(), cpu()


Contestant = Callable[[Stopwatch], Lap]


@dataclass(frozen=True)
class Duel:
    """`ours` against `baseline`, by name; without a baseline only our own rate is of interest."""

    title: str
    ours: str
    baseline: str | None
    unit: str
    target: float | None = None


@dataclass(frozen=True)
class Contest:
    """What is timed in one interleaved race, and what is read off it."""

    title: str
    contestants: Mapping[str, Contestant]
    duels: tuple[Duel, ...]
    most_rounds: int = 1000  # a slow contest has its medians from fewer rounds


@dataclass(frozen=True)
class Result:
    """Medians over the rounds: items per second, and how many times the baseline's that is, round by round."""

    contest: str
    duel: Duel
    rounds: int
    rate: float
    baseline_rate: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None
    lowest: float | None = None  # of the rounds' wall ratios
    highest: float | None = None

    @property
    def met(self) -> str:
        """`yes`, `NO`, or `by CPU time`: the clock says no, and it also runs while other programs have the cores."""
        if self.ratio is None or self.cpu_ratio is None or self.duel.target is None:
            return ""
        if self.ratio >= self.duel.target:
            return "yes"
        return "by CPU time" if self.cpu_ratio >= self.duel.target else "NO"


def repeat(work: Callable[[], object], items: int, seconds: float) -> Contestant:
    """A contestant that does short work, worth `items`, again and again until the time is up."""

    def lap(watch: Stopwatch) -> Lap:
        times = 1
        work()
        while (so_far := watch.stop(times * items)).wall < seconds:
            work()
            times += 1
        return so_far

    return lap


def race(contestants: Mapping[str, Contestant], rounds: int, on_lap: Callable[[], object]) -> dict[str, list[Lap]]:
    """One lap of each to warm up, which does not count, then `rounds` laps in an order that turns round each time."""
    laps: dict[str, list[Lap]] = {name: [] for name in contestants}
    order = list(contestants)
    for number in range(rounds + 1):
        for name in order:
            lap = contestants[name](Stopwatch())
            if number:
                laps[name].append(lap)
            on_lap()
        order.reverse()
    return laps


def judge(contest: Contest, laps: Mapping[str, list[Lap]]) -> list[Result]:
    return [_judge(contest.title, duel, laps) for duel in contest.duels]


def _judge(title: str, duel: Duel, laps: Mapping[str, list[Lap]]) -> Result:
    ours = laps[duel.ours]
    rate = median(lap.items / lap.wall for lap in ours)
    if duel.baseline is None:
        return Result(title, duel, len(ours), rate)
    theirs = laps[duel.baseline]
    pairs = list(zip(ours, theirs, strict=True))
    walls = [(a.items / a.wall) / (b.items / b.wall) for a, b in pairs]
    cpus = [(a.items / a.cpu) / (b.items / b.cpu) for a, b in pairs]
    baseline_rate = median(lap.items / lap.wall for lap in theirs)
    return Result(title, duel, len(ours), rate, baseline_rate, median(walls), median(cpus), min(walls), max(walls))


def machine() -> dict[str, object]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "cuda": torch.cuda.is_available(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
