"""Where the CPU time of a request goes: to the event loop, or to the threads that compute; the bare engine beside."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.benchmarks.load import Load, load
from tests.benchmarks.peers.servers import KINDS, RawEngine, messages
from tests.benchmarks.peers.starting import hand_over
from tests.processes import Service, wait_until

__all__ = ["measure_threads"]

_CLIENTS = 8


def measure_threads(
    service: Service, photo: Path, options: argparse.Namespace, on_lap: Callable[[], object]
) -> dict[str, dict[str, float]]:
    """Milliseconds a request, by kind of body."""
    [bundle] = [path.parent for path in (service.home / "files" / "versions").rglob("version.json")]
    engine = RawEngine(hand_over(bundle, photo, service.home.parent / "handover"))
    api = service.serve("api", ZSTCI_SERVE_THREADS="0")
    wait_until(api.version)
    laps: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    try:
        for _ in range(options.rounds):
            for kind, message in messages("/v1/classify", photo).items():
                _, alone = engine.measure(2, options.seconds)
                before = _seconds_by_thread(api.process.pid)
                window = load(Load(api.port, _CLIENTS, api.process.pid, options.seconds), message)
                after = _seconds_by_thread(api.process.pid)
                laps[kind].append(_shares(before, after, api.process.pid, len(window.latencies)) | {"engine": alone})
                on_lap()
    finally:
        engine.end()
    return {
        kind: {name: 1000 * median(lap[name] for lap in found) for name in found[0]} for kind, found in laps.items()
    }


def _shares(before: dict[int, float], after: dict[int, float], pid: int, requests: int) -> dict[str, float]:
    """Linux gives a process's first thread the number of the process; here that is the one of the event loop."""
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in after.items()}
    return {
        "event loop": used[pid] / requests,
        "computing": sum(seconds for thread, seconds in used.items() if thread != pid) / requests,
    }


def _seconds_by_thread(pid: int) -> dict[int, float]:
    return {
        int(task.name): int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in Path(f"/proc/{pid}/task").iterdir()
    }
