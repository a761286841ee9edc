"""A version of many classes replaced under the eyes of clients that ask without a pause: real processes throughout."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.pictures import picture
from tests.processes import Api, Service

__all__ = ["measure_swap"]

_CLIENTS = 2
_CALM_SECONDS = 6.0  # before, between and after
_PATIENCE = 600.0


@dataclass
class Watcher:
    """Asks and looks at the memory of the server until the block ends. Everything carries its time."""

    api: Api
    answers: list[tuple[float, float, bool]] = field(default_factory=list)  # begun, seconds, whether it was one
    memory: list[tuple[float, float]] = field(default_factory=list)  # time, MiB

    def __enter__(self) -> Watcher:
        self._over = threading.Event()
        work = [threading.Thread(target=self._ask) for _ in range(_CLIENTS)]
        self._threads = [*work, threading.Thread(target=self._weigh)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        content = picture(0)
        with httpx.Client(base_url=str(self.api.http.base_url), timeout=60) as http:
            while not self._over.is_set():
                wall, begun = time.time(), time.perf_counter()
                try:
                    answered = http.post("/v1/classify", content=content).status_code == 200
                except httpx.HTTPError:
                    answered = False
                self.answers.append((wall, time.perf_counter() - begun, answered))
                time.sleep(0.01)  # a client does something with its answer, and the cores are not only its own

    def _weigh(self) -> None:
        while not self._over.wait(0.05):
            self.memory.append((time.time(), resident(self.api.process.pid)))

    def phase(self, begin: float, end: float) -> dict[str, float]:
        """Of the answers that were asked for in it, or arrived in it."""
        inside = [(seconds, ok) for begun, seconds, ok in self.answers if begun < end and begun + seconds > begin]
        ordered = sorted(1000 * seconds for seconds, _ in inside)
        weights = [mebibytes for when, mebibytes in self.memory if begin <= when <= end]
        return {
            "seconds": round(end - begin, 2),
            "queries": len(inside),
            "failed": sum(not ok for _, ok in inside),
            "p50_ms": round(statistics.median(ordered), 2),
            "p99_ms": round(ordered[int(0.99 * (len(ordered) - 1))], 2),
            "max_ms": round(ordered[-1], 2),
            "rss_mib": round(statistics.median(weights)),
            "rss_peak_mib": round(max(weights)),
        }


def resident(pid: int) -> float:
    """MiB of memory that the process holds, files that are mapped into it left out."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def measure_swap(classes: int, swaps: int = 2) -> dict[str, Any]:
    """Every swap re-projects, indexes and publishes all classes while clients ask."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), "")
        try:
            service.run("migrate")
            first = _publish(folder, classes)
            begun = time.monotonic()
            api = service.serve("api")
            found: dict[str, Any] = {"classes": classes, "first": first, "start": round(time.monotonic() - begun, 2)}
            with Watcher(api) as watcher:
                found["swaps"] = [_swap(api, watcher, folder, classes) for _ in range(swaps)]
            found["queries"] = len(watcher.answers)
            found["failed"] = sum(not ok for _, _, ok in watcher.answers)
            return found
        finally:
            service.end()


def _swap(api: Api, watcher: Watcher, folder: str, classes: int) -> dict[str, Any]:
    calm = time.time()
    time.sleep(_CALM_SECONDS)
    making = time.time()
    made = _publish(folder, classes)
    _wait_for(api, made["version"])
    live = time.time()
    time.sleep(_CALM_SECONDS)
    published, over = made["published_at"], time.time()
    return {
        "made": made,
        "live_after": round(live - published, 2),
        "load_seconds": _load_seconds(api),
        "before": watcher.phase(calm, making),
        "making": watcher.phase(making, published),
        "swapping": watcher.phase(published, live),
        "after": watcher.phase(live + 1, over),
    }


def _publish(folder: str, classes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.growth_publish", folder, str(classes)]
    # Its own process, as the worker is: what it does must not slow the clients here.
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def _wait_for(api: Api, version: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while api.version() != version:
        assert time.monotonic() < deadline, api.log.read_text()
        time.sleep(0.05)


def _load_seconds(api: Api) -> float:
    lines = api.http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("zstci_swap_duration_seconds"))


if __name__ == "__main__":
    print(json.dumps(measure_swap(int(sys.argv[1])), indent=1))
