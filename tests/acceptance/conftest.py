"""Real processes: the `zstci` command that pip installed, on a home of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

COMMAND = Path(sys.executable).with_name("zstci")
PATIENCE = 240.0  # seconds, for a machine that has other things to do; nothing here measures time


class Processes:
    """Commands on one home. One torch thread each, so that they do not fight for cores with other tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._environment = {**os.environ, "ZSTCI_HOME": str(home), "OMP_NUM_THREADS": "1"}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: object, log: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        """What it printed and what it complained about."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, err
        return out, err

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def zstci(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path / "home")
    yield processes
    processes.end()


class Server:
    def __init__(self, processes: Processes) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.log = processes.home.with_name("serve.log")
        # A file, because a pipe that nobody reads fills up and then blocks the server.
        with self.log.open("w") as log:
            self.process = processes.start("serve", "--port", port, log=log)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def version(self) -> int | None:
        response = self.http.get("/readyz")
        return int(response.headers["X-Model-Version"]) if response.status_code == 200 else None

    def stop(self) -> str:
        """Ask it to end, and return its log."""
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        return self.log.read_text()


@pytest.fixture
def server(zstci: Processes) -> Iterator[Server]:
    """`zstci serve` on a free port, up but with nothing learnt yet."""
    server = Server(zstci)
    wait_until(server.answers)
    yield server
    server.http.close()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain"
        time.sleep(0.1)


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[[Callable[[], object]], None]:
    return wait_until
