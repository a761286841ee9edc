"""How long an update without training takes, by what is stored and by what is new: the worker's code, no queue."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from service.config import Settings
from service.storage.prepare import migrate
from tests.benchmarks.growth_publish import publish
from tests.unit.service.usecases.conftest import Bench

__all__ = ["measure_updates"]

_IMAGES_OF_A_CLASS = 20
_STORED = 100  # where it is the images that grow
_MOST_ROUNDS = 5  # two new digits in each


def measure_updates(
    stored: list[int], images: list[int], rounds: int, on_lap: Callable[[], object]
) -> dict[str, dict[int, dict[str, float]]]:
    """Medians of rounds that take turns: seconds by number of stored classes, and by number of new images."""
    with tempfile.TemporaryDirectory() as folder:
        benches = {("stored", size): (_bench(Path(folder, f"s{size}"), size), _IMAGES_OF_A_CLASS) for size in stored}
        benches |= {("images", 2 * count): (_bench(Path(folder, f"i{count}"), _STORED), count) for count in images}
        laps: dict[tuple[str, int], list[tuple[float, float]]] = {key: [] for key in benches}
        try:
            for number in range(min(rounds, _MOST_ROUNDS)):
                for key, (bench, count) in benches.items():
                    laps[key].append(_update(bench, [2 * number, 2 * number + 1], count))
                    on_lap()
        finally:
            for bench, _ in benches.values():
                bench.close()
    found: dict[str, dict[int, dict[str, float]]] = {"stored": {}, "images": {}}
    for (axis, size), times in laps.items():
        wall, cpu = (median(values) for values in zip(*times, strict=True))
        found[axis][size] = {"wall": wall, "cpu": cpu, "rounds": len(times)}
    return found


def _bench(home: Path, classes: int) -> Bench:
    settings = Settings(home=home)
    migrate(settings)
    publish(settings, classes)
    sent = home / "sent"
    sent.mkdir()
    return Bench(settings, sent)


def _update(bench: Bench, digits: list[int], count: int) -> tuple[float, float]:
    """Wall and CPU seconds from the moment that the worker takes it."""
    update: Any = bench.submit(digits, count, regularizer="frozen")
    wall, cpu = time.perf_counter(), time.process_time()
    ended = bench.run(update)
    assert ended.state == "succeeded", ended.error
    return time.perf_counter() - wall, time.process_time() - cpu
