"""Servers as real processes, seen from outside: started, asked, put to sleep while others are measured, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.load import BOUNDARY, Load, Window, cpu_seconds, load, process_tree, request
from tests.processes import Service, wait_until

__all__ = ["KINDS", "Handover", "RawEngine", "Server", "messages", "start_ours"]

ROOT = Path(__file__).parents[3]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
KINDS = ("raw", "multipart")


@dataclass(frozen=True)
class Handover:
    """What every server is given: the folder of the published version, the same for programs without zstci, a photo."""

    bundle: Path
    folder: Path
    image: Path
    logs: Path


@dataclass
class Server:
    name: str
    configuration: str
    process: subprocess.Popen[str]
    port: int
    log: Path
    messages: Mapping[str, bytes]
    _asleep: list[int] = field(default_factory=list)

    def measure(self, kind: str, clients: int, seconds: float) -> Window:
        self.wake()
        window = load(Load(self.port, clients, self.process.pid, seconds), self.messages[kind])
        self.sleep()
        return window

    def answer(self, kind: str) -> Any:
        """One answer, read by a grown-up HTTP client."""
        self.wake()
        message = self.messages[kind]
        form = f"multipart/form-data; boundary={BOUNDARY}"
        response = httpx.post(
            f"http://127.0.0.1:{self.port}{message.split(b' ', 2)[1].decode()}",
            content=message.partition(b"\r\n\r\n")[2],
            headers={"Content-Type": form if kind == "multipart" else _kind(message)},
            timeout=60,
        )
        assert response.status_code == 200, f"{self.name}, {kind}: {response.text}\n{self.log.read_text()}"
        self.sleep()
        return response.json()

    def answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return bool(self.answer("multipart"))
        except (httpx.TransportError, AssertionError):
            return False

    def sleep(self) -> None:
        """So that no server pays for the polling of another."""
        self._asleep = process_tree(self.process.pid)
        for pid in self._asleep:
            os.kill(pid, signal.SIGSTOP)

    def wake(self) -> None:
        for pid in self._asleep:
            os.kill(pid, signal.SIGCONT)
        self._asleep = []

    def end(self) -> None:
        self.wake()
        family = process_tree(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        for pid in family[1:]:  # of a server that leaves its workers behind
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


class RawEngine:
    """The limit; sleeps by itself between its laps."""

    def __init__(self, handover: Handover) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.peers.raw_engine", str(handover.bundle), str(handover.image)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._read()

    def measure(self, threads: int, seconds: float) -> tuple[float, float]:
        """Images per second, and CPU seconds of one of them."""
        assert self.process.stdin is not None
        print(threads, seconds, file=self.process.stdin, flush=True)
        before = cpu_seconds(self.process.pid)
        found = json.loads(self._read())
        cpu = cpu_seconds(self.process.pid) - before  # by the same clock as the servers
        return found["images"] / found["seconds"], cpu / found["images"]

    def end(self) -> None:
        self.process.communicate()

    def _read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def start_ours(service: Service, handover: Handover) -> Server:
    """`zstci api` with the settings that it has by itself."""
    api = service.serve("api", ZSTCI_SERVE_THREADS="0")
    wait_until(lambda: api.version())
    path = "/v1/classify"
    return Server("ours", "zstci api", api.process, api.port, api.log, messages(path, handover.image))


def messages(path: str, image: Path, kind: str = "image/jpeg", name: str = "files") -> dict[str, bytes]:
    content = image.read_bytes()
    return {
        "raw": request(path, content, multipart=False, kind=kind),
        "multipart": request(path, content, multipart=True, name=name),
    }


def _kind(message: bytes) -> str:
    head = message.partition(b"\r\n\r\n")[0].decode()
    return head.partition("Content-Type: ")[2].partition("\r\n")[0]
