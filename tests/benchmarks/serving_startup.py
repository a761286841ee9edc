"""From the command to the first /readyz that says yes, with a version at hand."""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from tests.processes import Service

__all__ = ["measure_startup"]


def measure_startup(
    service: Service, photo: Path, options: argparse.Namespace, on_lap: Callable[[], object]
) -> dict[str, Any]:
    found = []
    for _ in range(options.rounds):
        found.append(_start(service))
        on_lap()
    return {
        "wall": median(wall for wall, _ in found),
        "cpu": median(cpu for _, cpu in found),
        "slowest": max(wall for wall, _ in found),
    }


def _start(service: Service) -> tuple[float, float]:
    """Seconds by the clock and of the CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (service.home / "startup.txt").open("w") as log:
        begun = time.monotonic()
        process = service.start("api", "--port", port, log=log)
        while not _ready(port):
            assert process.poll() is None, Path(log.name).read_text()
            time.sleep(0.01)
        wall = time.monotonic() - begun
    process.terminate()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # waited for here, not by subprocess
    return wall, used.ru_utime + used.ru_stime


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False
