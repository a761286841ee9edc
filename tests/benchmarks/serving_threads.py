"""Where the CPU time of a request goes: to the event loop, or to the threads that compute. Beside it the bare engine,
and the engine behind a uvicorn that does nothing else: the least that HTTP costs."""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.benchmarks.load import Load, load
from tests.benchmarks.peers.servers import KINDS, ROOT, Handover, RawEngine, messages
from tests.benchmarks.peers.starting import hand_over
from tests.processes import Service, wait_until

__all__ = ["measure_threads"]

_CLIENTS = 8


def measure_threads(
    service: Service, photo: Path, options: argparse.Namespace, on_lap: Callable[[], object]
) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds a request, by kind of body and by what answers."""
    [bundle] = [path.parent for path in (service.home / "files" / "versions").rglob("version.json")]
    handover = hand_over(bundle, photo, service.home.parent / "handover")
    api = service.serve("api", ZSTCI_SERVE_THREADS="0")
    wait_until(api.version)
    engine, (bare, port) = RawEngine(handover), _bare_uvicorn(handover)
    servers = {"bare uvicorn": (port, bare.pid), "ours": (api.port, api.process.pid)}
    laps: dict[str, dict[str, list[dict[str, float]]]] = {kind: {} for kind in KINDS}
    try:
        for number in range(options.rounds + 1):
            seconds = options.seconds if number else 0.5  # to warm up
            for kind, message in messages("/v1/classify", photo).items():
                found = {"raw engine": {"event loop": 0.0, "computing": engine.measure(2, seconds)[1]}}
                for name, (at, pid) in servers.items():
                    if kind == "raw" or name == "ours":  # uvicorn alone reads no forms
                        found[name] = _lap(Load(at, _CLIENTS, pid, seconds), message)
                for name, lap in found.items() if number else ():
                    laps[kind].setdefault(name, []).append(lap)
                on_lap()
    finally:
        engine.end()
        bare.terminate()
        bare.wait()
    return {kind: {name: _medians(found) for name, found in by_name.items()} for kind, by_name in laps.items()}


def _lap(what: Load, message: bytes) -> dict[str, float]:
    """Linux gives a process's first thread the number of the process; here that is the one of the event loop."""
    before = _seconds_by_thread(what.pid)
    window = load(what, message)
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in _seconds_by_thread(what.pid).items()}
    requests = len(window.statuses) + what.clients  # the first of each client is not in the window
    return {"event loop": used.pop(what.pid) / requests, "computing": sum(used.values()) / requests}


def _medians(laps: list[dict[str, float]]) -> dict[str, float]:
    return {name: 1000 * median(lap[name] for lap in laps) for name in laps[0]}


def _bare_uvicorn(handover: Handover) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.benchmarks.peers.bare_uvicorn", str(handover.bundle), str(port)]
    process = subprocess.Popen(command, cwd=ROOT)
    wait_until(lambda: _listens(port))
    return process, port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _seconds_by_thread(pid: int) -> dict[int, float]:
    return {
        int(task.name): int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in Path(f"/proc/{pid}/task").iterdir()
    }
