"""Containers that run to their end, and containers that serve."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from tests.container.engines import Engine, Run

__all__ = ["PYTHON", "ended", "free_port", "healthy", "said", "serving", "started", "wait_until"]

PYTHON = "/opt/zstci/bin/python"
_PATIENCE = 300.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ended(engine: Engine, run: Run) -> subprocess.CompletedProcess[str]:
    return subprocess.run(engine.command(run), capture_output=True, text=True, timeout=_PATIENCE)


def said(engine: Engine, run: Run) -> str:
    """Its standard output. It must end well."""
    done = ended(engine, run)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode} of {run.name}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


@contextmanager
def started(engine: Engine, run: Run) -> Iterator[subprocess.Popen[bytes]]:
    """Until SIGTERM, which must end it with a good exit code."""
    process = subprocess.Popen(engine.command(run), stdout=sys.stderr)
    try:
        yield process
        process.terminate()
        if process.wait(60) != 0:
            raise SystemExit(f"exit code {process.returncode} of {run.name} after SIGTERM")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


@contextmanager
def serving(engine: Engine, run: Run) -> Iterator[httpx.Client]:
    """Listening, and healthy by the image's own check."""
    with (
        started(engine, run) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{run.environment['ZSTCI_PORT']}", timeout=_PATIENCE) as http,
    ):
        wait_until(lambda: process.poll() is not None or _listens(http), f"{run.name} to listen")
        wait_until(lambda: healthy(engine, run.name, engine.health_check), f"{run.name} to be healthy")
        yield http


def healthy(engine: Engine, name: str, check: list[str]) -> bool:
    return subprocess.run(engine.inside(name, check), capture_output=True, timeout=_PATIENCE).returncode == 0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {_PATIENCE:.0f} s in vain for {what}")
        time.sleep(0.2)


def _listens(http: httpx.Client) -> bool:
    try:
        return http.get("/healthz").is_success
    except httpx.TransportError:
        return False
